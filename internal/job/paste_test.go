package job

import (
	"strings"
	"testing"
	"testing/fstest"

	"launch/internal/finding"
)

// typed is an input whose launch has these flags of its own.
func typed(line string) Input {
	in := input(line)
	in.Own = map[string]bool{"store": true, "nnodes": true, "join-timeout": true, "keep-rdzv": false, "json": false}
	return in
}

func TestOwnFlagsAmongTorchrunsMoveBeforeIt(t *testing.T) {
	for line, want := range map[string]string{
		"torchrun --nnodes 2 --store X t.py": "launch --store X torchrun --nnodes " +
			"2 t.py",
		"torchrun --nnodes 2 --store=X t.py": "launch --store=X torchrun --nnodes " +
			"2 t.py",
		"python -m torch.distributed.run --store X --json --nnodes=2 t.py -x": "launch --store X --json python -m " +
			"torch.distributed.run --nnodes=2 t.py -x",
		"torchrun --keep-rdzv --nnodes 2 --store X": "launch --keep-rdzv --store X " +
			"torchrun --nnodes 2",
	} {
		bad := refused(t, typed(line), 64, "is a flag of launch")
		if bad.Fix != want {
			t.Errorf("%s: fix %q, want %q", line, bad.Fix, want)
		}
	}
}

func TestOwnFlagsAfterTheCommandAreNoticed(t *testing.T) {
	for _, line := range []string{"python t.py --nnodes 2 --store X --json",
		"torchrun t.py --nnodes 2 --store X --json"} {
		j := resolve(t, typed(line))
		if !j.Single || noted(j, "job.command", "--nnodes 2 --store X after the command") != finding.Warn {
			t.Fatalf("%s: %+v", line, j.Notes)
		}
		if fix := j.Notes[0].Fix; !strings.HasSuffix(fix, "launch --nnodes 2 --store X "+strings.TrimSuffix(line,
			" --nnodes 2 --store X --json")+" --json") {
			t.Errorf("fix %q", fix)
		}
	}
	one := typed("python t.py --nnodes 2").with(func(f *Flags) { f.NNodes = flagged("--nnodes", "1") })
	if j := resolve(t, one); len(j.Notes) != 0 {
		t.Errorf("one node that somebody asked for: %v", j.Notes)
	}
	if j := resolve(t, typed("python t.py --json")); len(j.Notes) != 0 {
		t.Errorf("a flag that many commands have: %v", j.Notes)
	}
	bad := refused(t, typed("torchrun --nnodes 2 t.py --store X"), 78, "no store address")
	if want := "launch --store X torchrun --nnodes 2 t.py   #"; !strings.HasPrefix(bad.Fix, want) {
		t.Errorf("fix %q, want %q", bad.Fix, want)
	}
	bad = refused(t, typed("python t.py --nnodes 3").with(func(f *Flags) { f.Store = flagged("--store", "h") }), 78,
		"number of nodes is not set")
	if want := "launch --nnodes 3 --store h python t.py"; bad.Fix != want {
		t.Errorf("fix %q, want %q", bad.Fix, want)
	}
}

func TestTheLineToPasteIsTheOneThatWasTyped(t *testing.T) {
	in := Input{Subcommand: "check"}.with(func(f *Flags) {
		f.NNodes, f.Job = flagged("--nnodes", "3"),
			flagged("--job", "j")
	})
	if bad := refused(t, in, 78, "no store address"); !strings.HasPrefix(bad.Fix,
		"launch check --store HOST --nnodes 3 --job j   #") {
		t.Errorf("fix %q", bad.Fix)
	}
}

func TestMpirunNeedsNoNodesAndNoStore(t *testing.T) {
	both := input("mpirun -np 4 ./x").with(func(f *Flags) {
		f.NNodes, f.Store = flagged("--nnodes", "2"), flagged("--store", "X")
	})
	if bad := refused(t, both, 78, "each node would start a job of its own"); bad.Fix !=
		"launch mpirun -np 4 ./x   # once, on the head node" {
		t.Errorf("fix %q", bad.Fix)
	}
	for _, env := range [][]string{{"SLURM_JOB_ID=1", "SLURM_NNODES=2"}, {"K_MPI_JOB_ROLE=launcher"}} { // they run it once
		in := both
		in.Env = env
		resolve(t, in)
	}
	// A variable is of the pod or of the shell, and one node is what mpirun's line has.
	resolve(t, input("mpirun -np 4 ./x").with(func(f *Flags) {
		f.NNodes, f.Store = flagged("LAUNCH_NNODES", "2"), flagged("LAUNCH_STORE", "X")
	}))
	resolve(t, input("mpirun -np 4 ./x").with(func(f *Flags) {
		f.NNodes, f.Store = flagged("--nnodes", "1"), flagged("--store", "X")
	}))
	j := resolve(t, input("mpirun -np 4 ./x").with(func(f *Flags) { f.Store = flagged("--store", "X") }))
	if len(j.Notes) != 1 || noted(j, "job.nodes", "not used: --store=X; mpirun starts the processes") != finding.Warn {
		t.Errorf("%+v", j.Notes)
	}
}

func TestKeepRdzvWithoutEffectIsNoted(t *testing.T) {
	for line, want := range map[string]string{
		"python t.py": "not torchrun", "mpirun ./x": "not torchrun",
		"torchrun --nnodes 2 --master-addr h t.py":                        "static",
		"torchrun --nnodes 2 --rdzv-backend zk --rdzv-endpoint h:1 t.py":  "not zk",
		"torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint h t.py":  "",
		"torchrun --nnodes 2 --rdzv-backend etcd-v2 --rdzv-endpoint h t.": "",
	} {
		j := resolve(t, input(line).with(func(f *Flags) { f.KeepRdzv = true }))
		if got := noted(j, "job.keep-rdzv", want); (got == finding.Warn) != (want != "") {
			t.Errorf("%s: %v", line, j.Notes)
		}
	}
}

func TestABadPortIsShownInItsPlace(t *testing.T) {
	for store, want := range map[string]string{
		"127.0.0.1:297000":         "port 297000 is out of range",
		"h:x":                      `"x" is not a port`,
		"http://a:99999":           "port 99999 is out of range",
		"h:99999999999999999999":   "out of range",
		"http://a:2379,http://b:0": "port 0 is out of range",
	} {
		refused(t, input("torchrun --nnodes 2 t.py").with(func(f *Flags) { f.Store = flagged("--store", store) }), 64,
			"--store="+store, want)
	}
	refused(t, input("torchrun --nnodes 2 --rdzv-endpoint h:99999 t.py"), 64, "torchrun --rdzv-endpoint=h:99999",
		"out of range")
	bad := refused(t, input("torchrun --nnodes 2 --master-addr h --master-port 99999 t.py"), 64,
		"torchrun --master-port=99999", "out of range")
	if !strings.HasPrefix(bad.Fix, "torchrun --master-port takes") {
		t.Errorf("fix %q", bad.Fix)
	}
}

func TestAsFromAVariableIsBlamedOnTheVariable(t *testing.T) {
	refused(t, input("python t.py").with(func(f *Flags) { f.As = flagged("LAUNCH_AS", "slurm") }), 64,
		"LAUNCH_AS=slurm")
}

func TestNotesOutliveARefusal(t *testing.T) {
	j, err := Resolve(input("srun torchrun t.py").with(func(f *Flags) { f.Store = flagged("--store", "h") }))
	if err == nil || noted(j, "job.command", "--as torchrun") != finding.Warn {
		t.Errorf("%v, %v: the note says why there is no count", err, j.Notes)
	}
}

func TestAHostfileThatIsNotThereIsNamedWhole(t *testing.T) {
	in := input("mpirun --hostfile hosts ./x")
	in.Dir, in.Root = "/data", fstest.MapFS{}
	if j := resolve(t, in); noted(j, "job.hostfile",
		"the hostfile /data/hosts cannot be read: file does not exist") != finding.Warn {
		t.Errorf("%v", j.Notes)
	}
}
