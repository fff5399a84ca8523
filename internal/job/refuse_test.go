package job

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/setting"
)

func TestSeveralNodesWithoutAStoreAddressAreRefused(t *testing.T) {
	bad := refused(t, input("torchrun --nnodes 4 --nproc-per-node 8 train.py --name 'x y'"), 78,
		"4 nodes (torchrun --nnodes)", "no store address")
	if want := `launch --store HOST torchrun --nnodes 4 --nproc-per-node 8 train.py`; !strings.HasPrefix(bad.Fix,
		want) {
		t.Errorf("fix %q", bad.Fix)
	}
	bad = refused(t, input("python t.py").with(func(f *Flags) { f.NNodes = flagged("--nnodes", "3") }), 78,
		"3 nodes (--nnodes)")
	if want := `launch --store HOST --nnodes 3 python t.py`; !strings.HasPrefix(bad.Fix, want) {
		t.Errorf("fix %q", bad.Fix)
	}
}

func TestIndexOutOfRangeIsRefused(t *testing.T) {
	refused(t, input("torchrun --nnodes 4 --node-rank 5 --master-addr h t.py"), 78,
		"node rank 5 (torchrun --node-rank)", "4 nodes (torchrun --nnodes)", "the node ranks 0 to 3")
	refused(t, input("torchrun --nnodes 4 --master-addr h t.py").
		with(func(f *Flags) { f.NodeRank = flagged("--node-rank", "4") }), 78, "node rank 4 (--node-rank)")
}

func TestLoopbackStoreAddressOfSeveralNodesIsRefused(t *testing.T) {
	for _, env := range []string{"MASTER_ADDR=127.0.0.1", "MASTER_ADDR=localhost", "PET_MASTER_ADDR=127.0.1.1",
		"MASTER_ADDR=::1", "MASTER_ADDR=0.0.0.0"} {
		name, host, _ := strings.Cut(env, "=")
		refused(t, input("torchrun --nnodes 2 t.py", env), 78, name+" names "+host, "each node would wait",
			"2 nodes (torchrun --nnodes)")
	}
	refused(t, input("torchrun --nnodes 2 --rdzv-endpoint localhost:29400 t.py"), 78,
		"torchrun --rdzv-endpoint names localhost")
	bad := refused(t, input("torchrun --nnodes 2 --master-addr 127.0.0.1 t.py"), 78,
		"torchrun --master-addr names 127.0.0.1")
	if !strings.Contains(bad.Fix, "\nlaunch --store 127.0.0.1 torchrun") || !strings.Contains(bad.Fix,
		"# all nodes on this machine") {
		t.Errorf("fix %q: several nodes on one machine are ordinary", bad.Fix)
	}

	j := resolve(t, input("torchrun --nnodes 2 t.py", "MASTER_ADDR=localhost").
		with(func(f *Flags) { f.Store = flagged("--store", "127.0.0.1") }))
	if noted(j, "job.store", "only if all of them are on this machine") != finding.Skip {
		t.Errorf("%v", j.Notes)
	}
	if j = resolve(t, input("torchrun t.py", "MASTER_ADDR=localhost")); !j.Single {
		t.Errorf("one node with MASTER_ADDR=localhost: %+v", j)
	}
}

func TestNumericHostNameIsRefused(t *testing.T) {
	for _, s := range []string{"3", "29500", "3:29500", "http://3:2379"} {
		refused(t, input("torchrun --nnodes 2 t.py").with(func(f *Flags) { f.Store = flagged("--store", s) }), 78,
			"--store="+s, "is a number, not a host")
	}
	refused(t, input("torchrun --nnodes 2 --rdzv-endpoint 12345 t.py"), 78, "torchrun --rdzv-endpoint=12345",
		"is a number")
	refused(t, input("torchrun --nnodes 2 t.py", "MASTER_ADDR=2"), 78, "MASTER_ADDR=2", "is a number")
	refused(t, input("torchrun t.py").with(func(f *Flags) { f.Store = flagged("--store", "3") }), 78, "is a number")
}

func TestAReversedRangeHasAFix(t *testing.T) {
	e := refused(t, input("torchrun t.py").with(func(f *Flags) { f.NNodes = flagged("--nnodes", "8:2") }), 64,
		"--nnodes=8:2", "is larger than the maximum")
	if e.Fix != "--nnodes 2:8" {
		t.Errorf("fix %q", e.Fix)
	}
	refused(t, input("torchrun --nnodes 3:1 t.py"), 64, "torchrun --nnodes=3:1", "is larger than the maximum")
	refused(t, input("torchrun --nnodes 3:0 t.py"), 64, "an integer from 1")
	refused(t, input("torchrun --nnodes 2147483648 t.py"), 64, "a job has at most 1048576 nodes")
	refused(t, input("torchrun --nnodes 2:2000000 t.py"), 64, "a job has at most 1048576 nodes")
}

// Operators give them to each pod, and shells keep them; torchrun follows other
// words. A warning is due where nothing else says that there are several nodes.
func TestRankAndWorldSizeAloneForTorchrunAreAWarning(t *testing.T) {
	for _, c := range []struct {
		line  string
		env   []string
		nodes int
		want  finding.Status
	}{
		{"torchrun --nnodes 2 --master-addr h t.py", []string{"RANK=1", "WORLD_SIZE=16"}, 2, finding.Skip},
		{"torchrun t.py", []string{"RANK=1", "WORLD_SIZE=16"}, 1, finding.Warn},
		{"torchrun t.py", []string{"WORLD_SIZE=2"}, 1, finding.Warn},
		{"torchrun t.py", []string{"RANK=0", "WORLD_SIZE=1"}, 1, finding.Skip},
		{"torchrun t.py", nil, 1, ""},
	} {
		j := resolve(t, input(c.line, c.env...))
		if got := noted(j, "job.rank", strings.Join(c.env, " ")+" in the environment: torchrun ignores "+
			"this"); j.Nodes.V != c.nodes || j.Index.V != 0 || got != c.want {
			t.Errorf("%s with %q: %d nodes, %q; want %d, %q", c.line, c.env, j.Nodes.V, got, c.nodes, c.want)
		}
	}
}

func TestRankAndWorldSizeOfAProgramAreItsIdentity(t *testing.T) {
	j := resolve(t, input("python t.py", "RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=h", "MASTER_PORT=1234"))
	if j.Nodes.V != 3 || j.Nodes.From != (setting.Source{Tier: setting.Ambient, Name: "WORLD_SIZE"}) ||
		j.Index.V != 1 || j.MasterPort.V != 1234 {
		t.Errorf("%+v", j)
	}
	three := func(f *Flags) { f.NNodes, f.Store = flagged("--nnodes", "3"), flagged("--store", "h") }
	refused(t, input("python t.py", "WORLD_SIZE=8").with(three), 78, "WORLD_SIZE=8 contradicts --nnodes=3")
	for _, env := range [][]string{{"WORLD_SIZE=1", "RANK=0", "LOCAL_RANK=0"}, {"WORLD_SIZE=1"}} {
		j := resolve(t, input("python t.py", env...).with(three))
		if j.Nodes.V != 3 || j.Index.Set || noted(j, "job.rank", "RANK and WORLD_SIZE=1 of the environment") != finding.Skip {
			t.Errorf("left by a single process: %+v", j)
		}
	}
	refused(t, input("python t.py", "WORLD_SIZE=1", "RANK=1").with(three), 78, "WORLD_SIZE=1 contradicts --nnodes=3")
	refused(t, input("python t.py", "WORLD_SIZE=all").with(three), 78, "WORLD_SIZE=all")
	refused(t, input("python t.py", "RANK=2").with(three).with(func(f *Flags) {
		f.NodeRank = flagged("--node-rank",
			"1")
	}), 78, "RANK=2 contradicts --node-rank=1")
	refused(t, input("python t.py", "RANK=3", "WORLD_SIZE=3", "MASTER_ADDR=h"), 78, "node rank 3 (RANK)",
		"3 nodes (WORLD_SIZE)")
	if j := resolve(t, input("python t.py", "WORLD_SIZE=3", "RANK=1").with(three)); j.Index.V != 1 {
		t.Errorf("agreeing: %+v", j)
	}
}

func TestUnreadableNumbersAreUsageErrors(t *testing.T) {
	for _, n := range []string{"0", "x", "-1", "2.5", ""} {
		refused(t, input("torchrun t.py").with(func(f *Flags) { f.NNodes = flagged("--nnodes", n) }), 64, "--nnodes="+n)
	}
	refused(t, input("torchrun --nnodes 0 t.py"), 64, "torchrun --nnodes=0")
	refused(t, input("torchrun --nnodes 2 --master-addr h --node-rank x t.py"), 64, "--node-rank=x")
	refused(t, input("torchrun --nnodes 2 --master-addr h --master-port 70000 t.py"), 64, "70000")
	refused(t, input("torchrun t.py").with(func(f *Flags) { f.NodeRank = flagged("--node-rank", "-1") }), 64,
		"--node-rank=-1")
	refused(t, input("torchrun t.py").with(func(f *Flags) { f.MasterPort = flagged("--master-port", "0") }), 64,
		"--master-port=0")
	refused(t, input("torchrun t.py", "PET_NNODES=x"), 78, "PET_NNODES=x")
}

func TestARangeOfNodesHasAMinimum(t *testing.T) {
	elastic := input("torchrun --nnodes 1:4 --rdzv-endpoint h:1 t.py")
	if j := resolve(t, elastic); j.Nodes.V != 4 || j.Min != 1 || j.Single || !j.Several() {
		t.Errorf("%+v, at least %d", j.Nodes, j.Min)
	}
	if j := resolve(t, elastic.with(func(f *Flags) { f.NNodes = flagged("--nnodes", "4") })); j.Nodes.V != 4 ||
		j.Min != 0 {
		t.Errorf("%+v, at least %d", j.Nodes, j.Min)
	}
	if j := resolve(t, input("torchrun --nnodes 3:3 --rdzv-endpoint h:1 t.py")); j.Nodes.V != 3 || j.Min != 0 {
		t.Errorf("%+v, at least %d", j.Nodes, j.Min)
	}
	refused(t, input("torchrun --nnodes 4:2 --rdzv-endpoint h:1 t.py"), 64, "--nnodes=4:2")
}

func TestStandbyNodesHaveIndexesAfterTheOthers(t *testing.T) {
	spare := func(node string, f func(*Flags)) Input {
		return input("torchrun --nnodes 2 --node-rank " + node + " --master-addr h t.py").
			with(func(f *Flags) { f.Spares = 1 }).with(f)
	}
	as := func(*Flags) {}
	if j := resolve(t, spare("2", as)); j.Index.V != 2 || j.Nodes.V != 2 || j.Spares != 1 {
		t.Errorf("%+v", j)
	}
	refused(t, spare("3", as), 78, "node rank 3", "the node ranks 0 to 2")
	one := input("torchrun --nnodes 1 t.py").with(func(f *Flags) { f.Spares = 1; f.Store = flagged("--store", "h") })
	if j := resolve(t, one); !j.Several() || j.Single {
		t.Errorf("one node and one to spare: %+v", j)
	}
	refused(t, input("torchrun t.py").with(func(f *Flags) { f.Spares = 1 }), 78, "--spares 1 allows standby nodes",
		"the number of nodes is not set")
}

// Where a scheduler counts, it has counted the spare ones too.
func TestStandbyNodesAreSubtractedFromASchedulersNumber(t *testing.T) {
	spare := func(k int) Input {
		return on("n4", input("torchrun t.py", step("n[1-4]", 3)...).with(func(f *Flags) { f.Spares = k }))
	}
	j := resolve(t, spare(1))
	if j.Nodes.V != 3 || j.Nodes.From.Name != "SLURM_STEP_NUM_NODES minus --spares" || j.Index.V != 3 ||
		len(j.Hosts) != 4 {
		t.Errorf("%+v", j)
	}
	refused(t, spare(4), 78, "leave no node to start on")
}

func TestStandaloneOfSeveralNodesIsRefused(t *testing.T) {
	refused(t, input("torchrun --standalone --nnodes 2 t.py"), 78, "--standalone", "2 nodes")
}

func TestErrorsOfTheLineArrive(t *testing.T) {
	refused(t, input("torchrun --n 2 t.py"), 64, "ambiguous")
	refused(t, Input{}, 64, "no command")
}

func TestStoreForms(t *testing.T) {
	for in, want := range map[string]Store{
		"h":                           embedded("h", DefaultStorePort),
		"h:2379":                      embedded("h", 2379),
		"10.0.0.1":                    embedded("10.0.0.1", DefaultStorePort),
		"fd00::1":                     embedded("fd00::1", DefaultStorePort),
		"[fd00::1]":                   embedded("fd00::1", DefaultStorePort),
		"[fd00::1]:2379":              embedded("fd00::1", 2379),
		"http://a:2379,b:2380":        {Endpoints: []string{"http://a:2379", "http://b:2380"}},
		"https://a,https://[fd00::1]": {Endpoints: []string{"https://a:2379", "https://[fd00::1]:2379"}},
	} {
		got, err := parseStore(claim(flagged("--store", in)))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", in, err, diff)
		}
	}
	if got := embedded("fd00::1", 1).Endpoints[0]; got != "[fd00::1]:1" {
		t.Errorf("IPv6 endpoint %q", got)
	}
	for _, in := range []string{"", "h:", "h:0", "h:x", "h:65536", "a,b", "a b", "$(HOST)", "[fd00::1", "fd00::1::2",
		"[::1]x", "ftp://a:1", "http://", "http://u:p@a:1", "http://a:1/x", "http://a:1,", "http://a:1,https://b:1",
		"http://a:0", ":2379", "<host>"} {
		if got, err := parseStore(claim(flagged("--store", in))); err == nil {
			t.Errorf("%q is %+v, want an error", in, got)
		} else if bad := err.(*exit.Error); bad.Code != 64 || bad.Fix == "" {
			t.Errorf("%q: code %d, fix %q", in, bad.Code, bad.Fix)
		}
	}
}

func TestTheNextPortIsAPort(t *testing.T) {
	for in, want := range map[string]string{"h:29377": "h:29378", "[fd00::1]:1": "[fd00::1]:2", "h:65535": "h:65534",
		"h": "HOST:29378", "h:x": "HOST:29378"} {
		if got := NextPort(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func FuzzParseStore(f *testing.F) {
	for _, s := range []string{"h:1", "[::1]:2", "http://a:1,b:2", "3", "fd00::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseStore(claim(flagged("--store", s)))
		if err == nil && (len(got.Endpoints) == 0 || got.Embedded && (got.Host == "" || got.Port < 1 ||
			got.Port > 65535)) {
			t.Fatalf("%q is %+v", s, got)
		}
	})
}
