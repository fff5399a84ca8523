package launcher

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/exit"
	"launch/internal/setting"
)

var world = World{Job: "j", RunID: "run1", Nodes: Known(3), NodeRank: Known(1), MasterAddr: "10.77.0.1",
	MasterPort: Known(29500), Addr: "10.77.0.2"}

func command(t *testing.T, line string, w World, env ...string) Exec {
	t.Helper()
	e, err := parse(t, line).Command(w, nil, env)
	if err != nil {
		t.Fatalf("Command(%s): %v", line, err)
	}
	return e
}

const static = "--nnodes=3 --node_rank=1 --master_addr=10.77.0.1 --master_port=29500 --rdzv_backend=static " +
	"--rdzv_id=run1 --rdzv_conf=timeout=600 --max_restarts=0"

func TestTorchrunGetsAStaticRendezvous(t *testing.T) {
	for line, want := range map[string]string{
		"torchrun --nnodes 3 --nproc-per-node 2 train.py": "torchrun " + static + " --nproc-per-node 2 train.py",
		//
		"torchrun --nproc_per_node=2 --nnodes=3 --role w --rdzv-backend c10d --rdzv-endpoint host0:29400 --rdzv-id " +
			"j train.py --nnodes 9": "torchrun " + static + " --nproc_per_node=2 --role w train.py --nnodes 9",
		"numactl -N 0 python -u -m torch.distributed.run --master-addr=h --master_port 1 --node-rank 2 -m mod"://
		"numactl -N 0 python -u -m torch.distributed.run " + static + " -m mod",
		"torchrun --nnodes 3 -- train.py":             "torchrun " + static + " -- train.py",
		"torchrun --nnod 3 --rdzv_e x:1 train.py":     "torchrun " + static + " train.py",
		"torchrun --local-addr 10.0.0.9 -r3 train.py": "torchrun " + static + " --local-addr 10.0.0.9 -r3 train.py",
		"torchrun --rdzv_conf=timeout=5,join_timeout=7 t.py"://
		"torchrun " + strings.Replace(static, "timeout=600", "timeout=5,join_timeout=7", 1) + " t.py",
		"torchrun --rdzv_conf read_timeout=9 t.py"://
		"torchrun " + strings.Replace(static, "timeout=600", "read_timeout=9,timeout=600", 1) + " t.py",
		"env PET_NNODES=3 A=b PET_RDZV_ENDPOINT=x:1 torchrun t.py": "env A=b torchrun " + static + " t.py",
	} {
		e := command(t, line, world)
		if diff := cmp.Diff(strings.Fields(want), e.Argv); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if len(e.Set) != 0 {
			t.Errorf("%s sets %v", line, e.Set)
		}
	}
}

func TestIPv6MasterIsBracketed(t *testing.T) {
	w := world
	w.MasterAddr = "fd00::1"
	if e := command(t, "torchrun t.py", w); e.Argv[3] != "--master_addr=[fd00::1]" {
		t.Errorf("%q", e.Argv)
	}
}

func TestSingleWorldIsLeftAlone(t *testing.T) {
	w := World{Nodes: Known(1), Single: true, KeepRdzv: true}
	for _, line := range []string{"torchrun --standalone --max-restarts 3 t.py", "python t.py",
		"torchrun --nnodes 1 --rdzv-backend c10d t.py"} {
		e := command(t, line, w, "PET_NNODES=1", "RANK=0")
		if diff := cmp.Diff(Exec{Argv: strings.Fields(line)}, e); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestADryRunPrintsWhatOnlyTheRendezvousKnows(t *testing.T) {
	w := World{RunID: Unknown, Nodes: Known(2), MasterAddr: Unknown, Addr: Unknown}
	want := "torchrun --nnodes=2 --node_rank=? --master_addr=? --master_port=? --rdzv_backend=static --rdzv_id=? " +
		"--rdzv_conf=timeout=600 --max_restarts=0 t.py --seed=0"
	e := command(t, "torchrun t.py --seed=0", w)
	if diff := cmp.Diff(strings.ReplaceAll(want, "?", Unknown), strings.Join(e.Argv, " ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, v := range command(t, "python t.py", w).Set {
		known := strings.HasPrefix(v.Name, "LOCAL_") || v.Name == "WORLD_SIZE" || v.Name == "NNODES"
		if known == (v.Value == Unknown) {
			t.Errorf("%s=%s", v.Name, v.Value)
		}
	}
}

func TestEveryChangeHasAReason(t *testing.T) {
	e := command(t, "env PET_TEE=3 PET_NODE_RANK=1 torchrun --nnodes 3 --rdzv-endpoint h:1 t.py", world)
	want := map[string]string{
		"--nnodes 3": "--nnodes=3", "--rdzv-endpoint h:1": "", "PET_NODE_RANK=1": "",
	}
	got := map[string]string{}
	for _, c := range e.Changes {
		if c.Reason == "" {
			t.Errorf("no reason: %+v", c)
		}
		if c.Old != "" {
			got[c.Old] = c.New
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChangedMeaningIsNoted(t *testing.T) {
	for line, want := range map[string][]string{
		"torchrun --nnodes 3 t.py":             nil,
		"torchrun --rdzv-backend static t.py":  nil,
		"torchrun --max-restarts 0 t.py":       nil,
		"torchrun --rdzv-backend c10d t.py":    {"--rdzv-backend c10d becomes static"},
		"torchrun --rdzv-backend etcd-v2 t.py": {"--rdzv-backend etcd-v2 becomes static"},
		"torchrun --max-restarts=3 t.py":       {"--max-restarts 3 becomes 0"},
		"torchrun --rdzv-ba c10d --max_restarts 1 t.py": {"--rdzv-backend c10d",
			"launch --restarts 1 starts all nodes again"},
	} {
		notes := command(t, line, world).Notes
		if len(notes) != len(want) {
			t.Errorf("%s: notes %q, want %d", line, notes, len(want))
			continue
		}
		for i, w := range want {
			if !strings.Contains(notes[i], w) {
				t.Errorf("%s: note %q does not say %q", line, notes[i], w)
			}
		}
	}
	if e := command(t, "torchrun t.py", world, "PET_MAX_RESTARTS=2", "PET_RDZV_BACKEND=c10d"); len(e.Notes) != 2 {
		t.Errorf("from PET_*: %q", e.Notes)
	}
}

func TestRendezvousVariablesLeaveTheEnvironment(t *testing.T) {
	e := command(t, "torchrun t.py", world, "PET_NNODES=3", "PET_STANDALONE=0", "PET_RDZV_ENDPOINT=h:1",
		"PET_NPROC_PER_NODE=8", "PET_LOCAL_ADDR=x", "PET_RDZV_CONF=join_timeout=3")
	got := map[string]string{}
	for _, v := range e.Unset {
		got[v.Name] = v.Value
		if v.Reason == "" {
			t.Errorf("%s leaves without a reason", v.Name)
		}
	}
	want := map[string]string{"PET_NNODES": "3", "PET_STANDALONE": "0", "PET_RDZV_ENDPOINT": "h:1",
		"PET_RDZV_CONF": "join_timeout=3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e.Argv[7] != "--rdzv_conf=join_timeout=3,timeout=600" {
		t.Errorf("keys of PET_RDZV_CONF are lost: %q", e.Argv)
	}
}

func TestStandaloneWithSeveralNodesIsRefused(t *testing.T) {
	_, err := parse(t, "torchrun --standalone t.py").Command(world, nil, nil)
	if bad, ok := errors.AsType[*exit.Error](err); !ok || bad.Code != 78 || bad.Fix == "" {
		t.Errorf("got %v", err)
	}
}

func TestKeepRdzvKeepsC10d(t *testing.T) {
	w := world
	w.KeepRdzv = true
	e := command(t, "torchrun --nnodes 3 --rdzv-backend c10d --rdzv-endpoint host0:29400 --rdzv-id j --rdzv-conf "+
		"is_host=1,join_timeout=5 --max-restarts 2 --node-rank 1 t.py", w, "PET_MAX_RESTARTS=1")
	want := "torchrun --nnodes=3 --rdzv_backend=c10d --rdzv_endpoint=10.77.0.1:29500 --rdzv_id=j " +
		"--rdzv_conf=join_timeout=5,is_host=0,read_timeout=600 --local_addr=10.77.0.2 --max-restarts 2 t.py"
	if diff := cmp.Diff(strings.Fields(want), e.Argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(e.Notes)+len(e.Unset) != 0 {
		t.Errorf("notes %q, unset %v", e.Notes, e.Unset)
	}
	w.NodeRank = Known(0)
	e = command(t, "torchrun --rdzv-backend=c10d t.py", w)
	if got := strings.Join(e.Argv, " "); !strings.Contains(got,
		"--rdzv_id=run1 --rdzv_conf=is_host=1,read_timeout=600") {
		t.Errorf("node rank 0: %s", got)
	}
}

func TestKeepRdzvLeavesEtcdToTorchrun(t *testing.T) {
	w := world
	w.KeepRdzv = true
	line := "torchrun --rdzv-backend etcd-v2 --rdzv-endpoint e:2379 --nnodes 3 t.py"
	if e := command(t, line, w); !cmp.Equal(e.Argv, strings.Fields(line)) || len(e.Notes) != 1 {
		t.Errorf("%q, %q", e.Argv, e.Notes)
	}
}

func TestKeepRdzvOfAStaticLineIsStatic(t *testing.T) {
	w := world
	w.KeepRdzv = true
	if e := command(t, "torchrun t.py", w); !cmp.Equal(e.Argv, strings.Fields("torchrun "+static+" t.py")) {
		t.Errorf("%q", e.Argv)
	}
}

func TestScriptThatCallsTorchrunGetsPET(t *testing.T) {
	l, err := Parse([]string{"env", "PET_NODE_RANK=7", "bash", "train.sh"}, "torchrun")
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.Command(world, nil, []string{"PET_RDZV_ENDPOINT=h:1", "PET_NNODES=2", "PET_RDZV_CONF=timeout=4"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"env", "bash", "train.sh"}, e.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	want := "RANK=1 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 NNODES=3 MASTER_ADDR=10.77.0.1 " +
		"MASTER_PORT=29500 PET_NNODES=3 PET_NODE_RANK=1 PET_MASTER_ADDR=10.77.0.1 PET_MASTER_PORT=29500 " +
		"PET_RDZV_BACKEND=static " +
		"PET_RDZV_ID=run1 PET_RDZV_CONF=timeout=4 PET_MAX_RESTARTS=0"
	if diff := cmp.Diff(strings.Fields(want), assignments(e.Set)); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PET_RDZV_ENDPOINT=h:1"}, assignments(e.Unset)); diff != "" {
		t.Errorf("unset (-want +got):\n%s", diff)
	}
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "PET_* variables for the torchrun inside") {
		t.Errorf("notes %q", e.Notes)
	}
}

func TestPlainProgramGetsOneRankPerNode(t *testing.T) {
	e := command(t, "numactl -N 0 python train.py", world)
	want := "RANK=1 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 NNODES=3 " +
		"MASTER_ADDR=10.77.0.1 MASTER_PORT=29500"
	if diff := cmp.Diff(strings.Fields(want), assignments(e.Set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(strings.Fields("numactl -N 0 python train.py"), e.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
}

func assignments(vars []setting.Var) []string {
	var out []string
	for _, v := range vars {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

func TestQuoteMakesALineToPaste(t *testing.T) {
	got := Quote([]string{"torchrun", "a b", "it's", "--x=y", "*", "", "\x00"})
	if want := `torchrun 'a b' "it's" --x=y '*' '' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
