package job

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/setting"
)

// flagged makes an explicit setting as the command line would.
func flagged(name, value string) setting.Value[string] {
	return setting.Value[string]{V: value, From: setting.Source{Tier: setting.Explicit, Name: name}, Set: true}
}

func input(line string, env ...string) Input {
	return Input{Argv: strings.Fields(line), Env: env, Hostname: "host1"}
}

func (in Input) with(set func(*Flags)) Input { set(&in.Flags); return in }

func resolve(t *testing.T, in Input) Job {
	t.Helper()
	j, err := Resolve(in)
	if err != nil {
		t.Fatalf("Resolve(%s, %q): %v", strings.Join(in.Argv, " "), in.Env, err)
	}
	return j
}

// refused resolves what cannot be and checks the code and that every given
// text is in the message.
func refused(t *testing.T, in Input, code int, want ...string) *exit.Error {
	t.Helper()
	j, err := Resolve(in)
	bad, ok := errors.AsType[*exit.Error](err)
	if !ok {
		t.Fatalf("%s, %q: %v and %d nodes, want an *Error", strings.Join(in.Argv, " "), in.Env, err, j.Nodes.V)
	}
	if bad.Code != code {
		t.Errorf("%v: code %d, want %d", bad, bad.Code, code)
	}
	for _, w := range want {
		if !strings.Contains(bad.What, w) {
			t.Errorf("%q does not say %q", bad.What, w)
		}
	}
	if bad.Fix == "" {
		t.Errorf("%v: no way out is given", bad)
	}
	return bad
}

// noted returns the status of the note with an ID that mentions text, or "".
func noted(j Job, id, text string) finding.Status {
	for _, f := range j.Notes {
		if f.ID == id && strings.Contains(f.What, text) {
			return f.Status
		}
	}
	return ""
}

func TestFlagsMakeAJob(t *testing.T) {
	in := input("torchrun --nproc-per-node 8 t.py").with(func(f *Flags) {
		f.NNodes, f.NodeRank, f.Store = flagged("--nnodes", "4"), flagged("LAUNCH_NODE_RANK", "2"), flagged("--store",
			"host0")
		f.Job, f.Addr, f.MasterPort = flagged("--job", "j"), flagged("--addr", "eth0"), flagged("--master-port",
			"31000")
	})
	got := resolve(t, in)
	want := Job{
		ID:    flagged("--job", "j"),
		Nodes: setting.Value[int]{V: 4, From: setting.Source{Tier: setting.Explicit, Name: "--nnodes"}, Set: true},
		Index: setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Explicit, Name: "LAUNCH_NODE_RANK"},
			Set: true},
		Vouch: Typed,
		Store: setting.Value[Store]{V: Store{Endpoints: []string{"host0:29377"}, Embedded: true, Host: "host0", Port: 29377},
			From: setting.Source{Tier: setting.Explicit, Name: "--store"}, Set: true},
		Addr: flagged("--addr", "eth0"),
		MasterPort: setting.Value[int]{V: 31000, From: setting.Source{Tier: setting.Explicit, Name: "--master-port"},
			Set: true},
		NProc: setting.Value[string]{V: "8", From: setting.Source{Tier: setting.Line,
			Name: "torchrun --nproc-per-node"}, Set: true},
		Line: got.Line,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTutorialLineIsEnough(t *testing.T) {
	j := resolve(t, input("torchrun --nnodes 3 --rdzv-backend c10d --rdzv-endpoint host0:29400 --rdzv-id j "+
		"--node-rank 0 --local-addr 10.0.0.3 train.py"))
	if j.Nodes.V != 3 || j.Nodes.From.Name != "torchrun --nnodes" || j.ID.V != "j" || j.Addr.V != "10.0.0.3" {
		t.Errorf("%+v", j)
	}
	if j.Store.V.Endpoints[0] != "host0:29377" || !j.Store.V.Embedded || j.MasterPort.V != 29400 ||
		j.MasterPort.From.Tier != setting.Line {
		t.Errorf("store %+v, master port %+v", j.Store, j.MasterPort)
	}
	if j.Index.Set || j.Vouch != NoIndex || noted(j, "job.index", "torchrun ignores it") == "" {
		t.Errorf("c10d ignores --node-rank, so must the index: %+v, %v", j.Index, j.Notes)
	}
}

// A rank that an old job has left in the environment is not used.
func TestALeftoverRankIsNotUsed(t *testing.T) {
	typed := func(f *Flags) { f.Store, f.NNodes = flagged("--store", "h0"), flagged("--nnodes", "2") }
	for _, line := range []string{"torchrun --nnodes 2 train.py", "python train.py"} {
		j := resolve(t, input(line, "NODE_RANK=5", "RANK=5", "WORLD_SIZE=2").with(typed))
		if j.Index.Set || j.Vouch != NoIndex || noted(j, "job.index", "is not used") == "" {
			t.Errorf("%s: index %+v, %v", line, j.Index, j.Notes)
		}
	}
	refused(t, input("torchrun --nnodes 2 --node-rank 5 train.py").with(typed), 78, "out of range")
}

func TestStaticLineGivesRankAndStoreAddress(t *testing.T) {
	j := resolve(t, input("torchrun --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=1234 t.py"))
	if j.Index.V != 1 || j.Vouch != Typed || j.Store.V.Host != "10.0.0.1" || j.Store.V.Port != DefaultStorePort ||
		j.MasterPort.V != 1234 {
		t.Errorf("%+v", j)
	}
}

func TestEtcdBackendNamesAnExternalStore(t *testing.T) {
	j := resolve(t, input("torchrun --nnodes=2 --rdzv-backend etcd-v2 --rdzv-endpoint etcd.example:2379 t.py"))
	if diff := cmp.Diff(Store{Endpoints: []string{"http://etcd.example:2379"}}, j.Store.V); diff != "" ||
		j.MasterPort.Set {
		t.Errorf("(-want +got):\n%s%+v", diff, j.MasterPort)
	}
}

func TestWithoutSettingsItIsOneNode(t *testing.T) {
	for _, line := range []string{"torchrun t.py", "torchrun --standalone --nproc-per-node 2 t.py", "python t.py",
		"torchrun --node-rank 0 t.py", "torchrun --nnodes 1:1 t.py"} {
		j := resolve(t, input(line))
		if j.Nodes.V != 1 || !j.Single || j.Several() || j.Store.Set || j.Index.V != 0 || j.Vouch != NoIndex ||
			!j.ID.Set {
			t.Errorf("%s: %+v", line, j)
		}
	}
}

func TestOneNodeByFlagOverALineOfSeveralIsNotSingle(t *testing.T) {
	j := resolve(t, input("torchrun --nnodes 3 t.py").with(func(f *Flags) { f.NNodes = flagged("--nnodes", "1") }))
	if j.Nodes.V != 1 || j.Single || noted(j, "job.nodes", "torchrun --nnodes=3") != finding.Warn {
		t.Errorf("%+v", j)
	}
}

func TestStoreWithoutACountIsRefused(t *testing.T) {
	for _, name := range []string{"--store", "LAUNCH_STORE"} {
		bad := refused(t, input("torchrun t.py").with(func(f *Flags) { f.Store = flagged(name, "host0") }), 78,
			name+"=host0", "the number of nodes is not set")
		if !strings.HasPrefix(bad.Fix, "launch --nnodes 4 ") || strings.Contains(bad.Fix,
			"--store") != (name == "--store") {
			t.Errorf("fix %q", bad.Fix)
		}
	}
	j := resolve(t, input("torchrun t.py").with(func(f *Flags) {
		f.Store, f.NNodes = flagged("--store", "host0"),
			flagged("--nnodes", "1")
	}))
	if !j.Single || len(j.Notes) != 0 {
		t.Errorf("one node that somebody asked for: %+v", j)
	}
}

func TestANodeRankOfAnotherJobsVariablesIsNotUsed(t *testing.T) {
	j := resolve(t, input("torchrun --nnodes 2 t.py", "PET_NNODES=4", "PET_NODE_RANK=0", "MASTER_ADDR=h0"))
	if j.Index.Set || noted(j, "job.index", "PET_NODE_RANK=0 is not used: PET_NNODES=4") != finding.Warn {
		t.Errorf("of 4 nodes, while the line has 2: %+v", j)
	}
	j = resolve(t, input("torchrun --nnodes 2 t.py", "PET_NNODES=1:4", "PET_NODE_RANK=1", "MASTER_ADDR=h0"))
	if !j.Index.Set || j.Index.V != 1 {
		t.Errorf("of 1 to 4 nodes: %+v", j)
	}
}

func TestExplicitBeatsLineBeatsSchedulerBeatsAmbient(t *testing.T) {
	slurm := append(step("n[1-4]", 2), "PET_NNODES=5", "MASTER_ADDR=m", "PET_NODE_RANK=0")
	in := input("torchrun t.py", slurm...)
	in.Hostname = "n3"
	j := resolve(t, in)
	if j.Nodes.V != 4 || j.Index.V != 2 || j.Vouch != Scheduled || j.Store.V.Host != "n1" || noted(j, "job.nodes",
		"PET_NNODES=5") != finding.Warn || noted(j, "job.store", "MASTER_ADDR=m") != finding.Skip {
		t.Errorf("scheduler against ambient: %+v", j)
	}
	in.Argv = strings.Fields("torchrun --nnodes 3 --rdzv-endpoint h:1 t.py")
	if j = resolve(t, in); j.Nodes.V != 3 || j.Store.V.Host != "h" || noted(j, "job.nodes",
		"SLURM_STEP_NUM_NODES=4") != finding.Warn {
		t.Errorf("line against scheduler: %+v", j)
	}
	in.Flags.NNodes = flagged("--nnodes", "4")
	in.Flags.Store = flagged("--store", "http://e:1")
	if j = resolve(t, in); j.Nodes.V != 4 || j.Store.V.Embedded || noted(j, "job.nodes",
		"torchrun --nnodes=3 is not used: --nnodes=4 takes precedence") != finding.Warn {
		t.Errorf("flag against line: %+v", j)
	}
}

// Another name for the store address is no contradiction, nor one that may be: what
// is another host is.
func TestOnlyAnotherStoreAddressIsNoted(t *testing.T) {
	for _, c := range []struct {
		store, endpoint string
		want            finding.Status
	}{
		{"host0", "host0:29500", ""},
		{"host0", "HOST0.:29500", ""},
		{"host0", "host0.cluster.local:29500", ""},
		{"host0", "10.0.0.1:29500", ""}, // may be host0's
		{"10.0.0.1", "host0:29500", ""},
		{"http://etcd0:2379", "host0:29500", ""}, // launch hosts nothing there
		{"host0", "host1:29500", finding.Warn},
		{"host0.a.org", "host0.b.org:29500", finding.Warn},
		{"10.0.0.1", "10.0.0.2:29500", finding.Warn},
	} {
		in := input("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint " + c.endpoint + " t.py")
		in.Flags.Store = flagged("--store", c.store)
		if got := noted(resolve(t, in), "job.store", "is not used"); got != c.want {
			t.Errorf("--store %s and an endpoint %s: %q, want %q", c.store, c.endpoint, got, c.want)
		}
	}
	// The first node of a Slurm step is no store address unless somebody says it.
	in := input("torchrun t.py", step("n[1-4]", 2)...)
	in.Hostname = "n3"
	in.Flags.Store = flagged("--store", "n2")
	if j := resolve(t, in); j.Store.V.Host != "n2" || noted(j, "job.store", "is not used") != "" {
		t.Errorf("a store that was typed in a Slurm step: %+v", j)
	}
}

func TestAgreeingSourcesAreNotNoted(t *testing.T) {
	j := resolve(t, input("torchrun --nnodes 2 --rdzv-endpoint h:29500 t.py", "PET_NNODES=2", "MASTER_ADDR=h",
		"MASTER_PORT=29500"))
	if len(j.Notes) != 0 {
		t.Errorf("%v", j.Notes)
	}
}

func TestAmbientVariablesMakeAJob(t *testing.T) {
	j := resolve(t, input("torchrun t.py", "PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=h0",
		"PET_MASTER_PORT=29501", "PET_NPROC_PER_NODE=gpu", "PET_RDZV_ID=k"))
	if j.Nodes.V != 2 || j.Index.V != 1 || j.Vouch != Typed || j.Store.V.Host != "h0" || j.MasterPort.V != 29501 ||
		j.NProc.V != "gpu" || j.ID.V != "k" {
		t.Errorf("%+v", j)
	}
	j = resolve(t, input("torchrun --nnodes 2 t.py", "MASTER_ADDR=h0", "NODE_RANK=1",
		"MASTER_PORT=tcp://10.0.0.1:29500"))
	if j.Index.From.Name != "NODE_RANK" || j.Store.From.Tier != setting.Ambient || j.MasterPort.Set ||
		noted(j, "job.master-port", "tcp://") != finding.Skip {
		t.Errorf("%+v", j)
	}
}

func TestEnvPrefixCounts(t *testing.T) {
	j := resolve(t, input("env -u WORLD_SIZE PET_NNODES=2 NCCL_DEBUG=INFO torchrun t.py", "MASTER_ADDR=h0",
		"WORLD_SIZE=9"))
	if j.Nodes.V != 2 || len(j.Notes) != 0 || len(j.Decided) != 1 {
		t.Errorf("%+v", j)
	}
}

func TestMpirunIsStartedOnce(t *testing.T) {
	j := resolve(t, input("mpirun -np 4 --host a:2,b:2 ./x", "WORLD_SIZE=9").
		with(func(f *Flags) { f.NNodes = flagged("LAUNCH_NNODES", "2") }))
	if j.Nodes.V != 1 || !j.Single || !cmp.Equal(j.Hosts, []string{"a", "b"}) || noted(j, "job.nodes",
		"LAUNCH_NNODES=2") != finding.Warn {
		t.Errorf("%+v", j)
	}
}

func TestDerivedIDIsTheStoreAddressAndInASharedEtcdTheLineToo(t *testing.T) {
	id := func(line, store string) string {
		in := input(line)
		if store != "" {
			in.Flags.Store = setting.Value[string]{V: store, From: setting.Source{Tier: setting.Explicit,
				Name: "--store"}, Set: true}
		}
		j := resolve(t, in)
		if j.ID.From.Tier != setting.Derived || j.ID.V == "" {
			t.Errorf("%s: %+v", line, j.ID)
		}
		return j.ID.V
	}
	const line, args = "torchrun --nnodes 2 --master-addr h --rdzv-id none t.py --lr 1",
		"torchrun --nnodes 2 --master-addr h --rdzv-id none t.py --lr 2"
	const second = "torchrun --nnodes 2 --node-rank 1 --master-addr h --rdzv-id none t.py --lr 1"
	const etcd = "http://e:2379"
	for _, tc := range []struct {
		name           string
		a, b           string
		storeA, storeB string
		same           bool
	}{
		{"two nodes of one job", line, second, "", "", true},
		{"another argument with one store address", line, args, "", "", true},
		{"the host spelled in another way", line, line, "", "10.0.0.1", true},
		{"another port", line, line, "", "h:29378", false},
		{"two nodes of one job in an etcd", line, second, etcd, etcd, true},
		{"two nodes whose output goes elsewhere", line, strings.Replace(line, "t.py", "--log-dir /logs/h1 -t 3 t.py",
			1), etcd, etcd, true},
		{"another job in the same etcd", line, args, etcd, etcd, false},
	} {
		if a, b := id(tc.a, tc.storeA), id(tc.b, tc.storeB); (a == b) != tc.same {
			t.Errorf("%s: %s and %s", tc.name, a, b)
		}
	}
}

func TestLauncherNotesArrive(t *testing.T) {
	if j := resolve(t, input("srun torchrun t.py")); noted(j, "job.command", "--as torchrun") != finding.Warn {
		t.Errorf("%v", j.Notes)
	}
}

func TestDecidedSettingsNameTheirOrigin(t *testing.T) {
	in := input("torchrun t.py", "NCCL_DEBUG=INFO", "UCX_TLS=tcp", "HOME=/elsewhere", "TP_SOCKET_IFNAME=eth0",
		"FI_PROVIDER=efa", "OMPI_MCA_btl=tcp", "NCCLX=1")
	in.Home = "/root"
	in.Root = fstest.MapFS{
		"root/.nccl.conf": {Data: []byte("# mine\nNCCL_DEBUG=WARN\nNCCL_IB_HCA==mlx5_0\nNCCL_IB_HCA=late\nPATH=/x\n")},
		"etc/nccl.conf":   {Data: []byte("NCCL_IB_HCA=mlx5\nNCCL_IB_TC=41")},
	}
	want := "FI_PROVIDER=efa environment; NCCL_DEBUG=INFO environment; OMPI_MCA_btl=tcp environment; " +
		"TP_SOCKET_IFNAME=eth0 environment; UCX_TLS=tcp environment; " +
		"NCCL_IB_HCA==mlx5_0 /root/.nccl.conf; NCCL_IB_TC=41 /etc/nccl.conf"
	if diff := cmp.Diff(want, decisions(resolve(t, in))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	in.Env, in.Dir = []string{"NCCL_CONF_FILE=my.conf"}, "/data"
	in.Root.(fstest.MapFS)["data/my.conf"] = &fstest.MapFile{Data: []byte("NCCL_IB_TC=7\n")}
	if diff := cmp.Diff("NCCL_CONF_FILE=my.conf environment; NCCL_IB_TC=7 /data/my.conf; NCCL_IB_HCA=mlx5 "+
		"/etc/nccl.conf", decisions(resolve(t, in))); diff != "" {
		t.Errorf("NCCL_CONF_FILE (-want +got):\n%s", diff)
	}
	in.Env = []string{"NCCL_CONF_FILE=/no/such"}
	if j := resolve(t, in); noted(j, "job.nccl-conf", "/no/such") != finding.Warn {
		t.Errorf("%v", j.Notes)
	}
}

func decisions(j Job) string {
	var out []string
	for _, d := range j.Decided {
		out = append(out, d.Name+"="+d.Value+" "+d.From)
	}
	return strings.Join(out, "; ")
}

func FuzzParseConf(f *testing.F) {
	f.Add("# c\nNCCL_X=1\n\n=\nA==b\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range parseConf(text, "f") {
			if d.Name == "" || strings.ContainsAny(d.Name, "=\n") || strings.Contains(d.Value, "\n") ||
				!strings.Contains(text, d.Name+"="+d.Value) {
				t.Fatalf("%q gives %+v", text, d)
			}
		}
	})
}

func TestTheLineSaysHowLongToWait(t *testing.T) {
	for _, c := range []struct {
		line, env string
		seconds   int
		from      string
	}{
		{"--rdzv-conf timeout=1800", "", 1800, "torchrun --rdzv-conf timeout"},
		{"--rdzv_conf=read_timeout=5,timeout=60", "", 60, "torchrun --rdzv-conf timeout"},
		{"--rdzv-conf timeout=60,join_timeout=70 --rdzv-backend c10d", "", 70, "torchrun --rdzv-conf join_timeout"},
		{"--rdzv-conf timeout=60,join_timeout=70 --rdzv-backend etcd", "", 60, "torchrun --rdzv-conf timeout"},
		{"--rdzv-conf join_timeout=70 --rdzv-backend etcd-v2", "", 70, "torchrun --rdzv-conf join_timeout"},
		{"--rdzv-conf join_timeout=70", "", 0, ""}, // static has no such key
		{"", "timeout=90", 90, "PET_RDZV_CONF timeout"},
		{"--rdzv-conf read_timeout=5", "timeout=90", 0, ""}, // torchrun ignores the variable
	} {
		j := resolve(t, input("torchrun --nnodes 2 --rdzv-endpoint h:1 "+c.line+" t.py", "PET_RDZV_CONF="+c.env))
		if j.Wait.V != c.seconds || j.Wait.From.Name != c.from {
			t.Errorf("%s, %s: %+v", c.line, c.env, j.Wait)
		}
	}
	refused(t, input("torchrun --rdzv-conf timeout=30m t.py"), exit.Usage, "torchrun --rdzv-conf timeout=30m")
	refused(t, input("torchrun t.py", "PET_RDZV_CONF=timeout=-1"), exit.Config, "PET_RDZV_CONF timeout=-1")
}
