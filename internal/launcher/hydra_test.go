package launcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHydrasOptionsAreRead(t *testing.T) {
	type facts struct {
		NP, Hostfile, Genv string
		Hosts              []string
		Program            string
	}
	for line, want := range map[string]facts{
		"mpiexec -ppn 8 -f hosts -n 16 ./all_reduce_perf -n 9": {NP: "16", Hostfile: "hosts",
			Program: "./all_reduce_perf"},
		"mpiexec.hydra -hosts a,b:2 -genv NCCL_DEBUG INFO -n 2 ./x": {NP: "2", Hosts: []string{"a", "b"},
			Genv: "NCCL_DEBUG=INFO", Program: "./x"},
		"mpirun -genv NCCL_DEBUG=INFO -np 2 ./x": {NP: "2", Genv: "NCCL_DEBUG=INFO",
			Program: "./x"},
		"mpirun --genv=NCCL_DEBUG INFO --n=2 ./x": {NP: "2", Genv: "NCCL_DEBUG=INFO",
			Program: "./x"},
		"mpiexec -genv=NCCL_DEBUG=INFO ./x":                          {Genv: "NCCL_DEBUG=INFO", Program: "./x"},
		"mpiexec -genvall -n 1 -env A B ./x : -n 2 -envnone ./y":     {NP: "3", Program: "./x"},
		"mpiexec -prepend-rank -iface eth0 -bind-to core -n 1 ./x":   {NP: "1", Program: "./x"},
		"mpiexec -perhost 4 -print-rank-map -machinefile m python t": {Hostfile: "m", Program: "python"},
		"mpiexec -n":            {},
		"mpiexec -genv A":       {Genv: "A"},
		"mpiexec -configfile f": {},
	} {
		l := parse(t, line).Of("mpich")
		got := facts{NP: l.NP.Value, Hostfile: l.Hostfile.Value, Hosts: l.Hosts, Genv: l.sectionValue("genv",
			0, len(l.Argv))}
		if l.Rest < len(l.Argv) {
			got.Program = l.Argv[l.Rest]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// MPICH 5.0 and Intel MPI 2021.19 end at an -x: "unrecognized argument x".
func TestHydraGetsTheJobsConstantsOnceAsItsOptions(t *testing.T) {
	for line, want := range map[string]string{
		"mpiexec -n 2 a.out": "mpiexec -genv NCCL_SOCKET_FAMILY AF_INET -n 2 a.out",
		"nice mpirun -n 1 a.out : -n 1 b.out": "nice mpirun -genv NCCL_SOCKET_FAMILY AF_INET -n 1 " +
			"a.out : -n 1 b.out",
		"mpiexec -genv NCCL_SOCKET_FAMILY AF_INET6 -n 2 a.out": "mpiexec -genv NCCL_SOCKET_FAMILY AF_INET6 -n 2 a.out",
		"mpiexec -configfile f": "mpiexec -genv NCCL_SOCKET_FAMILY AF_INET " +
			"-configfile f",
	} {
		for _, mpi := range []string{"mpich", "intel"} {
			e, err := parse(t, line).Of(mpi).Command(World{Nodes: Known(1), Single: true}, plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(want), e.Argv); diff != "" {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
		}
	}
}

func TestOfLeavesOtherLinesAsTheyAre(t *testing.T) {
	l := parse(t, "torchrun --nnodes 2 t.py")
	if diff := cmp.Diff(l, l.Of("mpich")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzHydra(f *testing.F) {
	f.Add("mpiexec -genv A B -n 2 x : -env=A")
	f.Add("mpirun -genv=A=B --hosts a,:b -f")
	f.Fuzz(func(t *testing.T, text string) {
		argv := append([]string{"mpiexec"}, strings.Fields(text)...)
		l, err := Parse(argv, "")
		if err != nil {
			return
		}
		l = l.Of("intel")
		e, err := l.Command(World{MasterAddr: "10.0.0.1", MasterPort: Known(1)}, plan, nil)
		if err != nil || l.Rest > len(argv) {
			t.Fatalf("%q: %v, rest %d", argv, err, l.Rest)
		}
		at := l.Starts[0] // what was typed stays, in its order
		kept := slices.Concat(e.Argv[:at], e.Argv[at+3*len(e.Changes):])
		if diff := cmp.Diff(argv, kept); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
