package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/setting"
)

func TestMpirunOptionsAreRead(t *testing.T) {
	type facts struct {
		NP, Hostfile string
		Hosts        []string
		Program      string
	}
	for line, want := range map[string]facts{
		"mpirun -np 32 --hostfile hosts ./all_reduce_perf -b 1M -np 9": {NP: "32", Hostfile: "hosts",
			Program: "./all_reduce_perf"},
		"mpiexec -n 4 -machinefile m -H a:2,b,a a.out": {NP: "4", Hostfile: "m",
			Hosts: []string{"a", "b"}, Program: "a.out"},
		"orterun -c 2 --host a:*,+n1 -- a.out": {NP: "2",
			Hosts: []string{"a"}, Program: "a.out"},
		"prterun --np=3 --map-by ppr:1:node --mca btl tcp,self a.out": {NP: "3", Program: "a.out"},
		"mpirun -np 2 a.out : -np 3 b.out":                            {NP: "5", Program: "a.out"},
		"mpirun -np 2 a.out : b.out":                                  {Program: "a.out"},
		"mpirun --tag-output --bind-to none a.out":                    {Program: "a.out"},
		"mpirun --version":                                            {},
		"mpirun -np":                                                  {},
	} {
		l := parse(t, line)
		got := facts{NP: l.NP.Value, Hostfile: l.Hostfile.Value, Hosts: l.Hosts}
		if l.Rest < len(l.Argv) {
			got.Program = l.Argv[l.Rest]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestALineOnOtherHosts(t *testing.T) {
	for _, tt := range []struct{ mpi, line, want string }{
		{"openmpi4", "mpirun -np 2 --hostfile h --bind-to core ./a --host b",
			"mpirun --host x:2,y -np 2 --bind-to core ./a --host b"},
		{"openmpi4", "nice mpirun --host a,b -np 2 ./a", "nice mpirun --host x:2,y -np 2 ./a"},
		{"mpich", "mpiexec -f h -n 2 ./a", "mpiexec -hosts x:2,y -n 2 ./a"},
		{"intel", "mpiexec -machinefile h -n 2 ./a", "mpiexec -ppn 2 -hosts x,y -n 2 ./a"},
	} {
		got := strings.Join(parse(t, tt.line).Of(tt.mpi).OnHosts([]string{"x:2", "y"}), " ")
		if got != tt.want {
			t.Errorf("%s: %s", tt.line, got)
		}
	}
}

var plan = []setting.Var{
	{Name: "NCCL_SOCKET_IFNAME", Value: "eth0", Scope: setting.Node},
	{Name: "NCCL_SOCKET_FAMILY", Value: "AF_INET", Scope: setting.Job, Reason: "r"},
	{Name: "NCCL_DEBUG", Value: "WARN", Scope: setting.Job, Kept: true, User: "INFO"},
}

func TestMpirunForwardsTheJobsConstantsInEverySection(t *testing.T) {
	for line, want := range map[string]string{
		"mpirun -np 2 a.out": "mpirun -x NCCL_SOCKET_FAMILY=AF_INET -np 2 a.out",
		"nice mpirun -np 1 a.out : -np 1 b.out": "nice mpirun -x NCCL_SOCKET_FAMILY=AF_INET -np " +
			"1 a.out : -x NCCL_SOCKET_FAMILY=AF_INET -np 1 b.out",
		"mpirun -x NCCL_SOCKET_FAMILY -np 1 a.out : -np 1 b.out": "mpirun -x NCCL_SOCKET_FAMILY -np 1 a.out : -x " +
			"NCCL_SOCKET_FAMILY=AF_INET -np 1 b.out",
		"mpirun -x NCCL_SOCKET_FAMILY=AF_INET6 a.out -x NCCL_DEBUG": "mpirun -x NCCL_SOCKET_FAMILY=AF_INET6 a.out " +
			"-x NCCL_DEBUG",
		"mpirun --x NCCL_* a.out":                  "mpirun --x NCCL_* a.out",
		"mpirun --mca mca_base_env_list A=5 a.out": "mpirun --mca mca_base_env_list A=5 a.out",
		"mpirun --app f":                           "mpirun --app f",
	} {
		e, err := parse(t, line).Of("openmpi4").Command(World{Nodes: Known(1), Single: true}, plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Fields(want), e.Argv); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if same := cmp.Equal(e.Argv, strings.Fields(line)); same != (len(e.Changes) == 0) {
			t.Errorf("%s: changes %v", line, e.Changes)
		}
	}
}

func TestMpirunNotesThatItForwardsNothing(t *testing.T) {
	for mpi, env := range map[string][]string{"openmpi4": {"OMPI_MCA_mca_base_env_list=A=5"}, "": nil} {
		l := parse(t, "mpirun -np 2 a.out").Of(mpi)
		e, err := l.Command(World{}, plan, env)
		if err != nil || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "NCCL_SOCKET_FAMILY") ||
			len(e.Changes) != 0 {
			t.Errorf("%q: %+v, %v", mpi, e, err)
		}
	}
}

func TestMpirunForwardsTheMasterAddressUnlessTheUserSetOne(t *testing.T) {
	l := parse(t, "mpirun a.out").Of("openmpi")
	w := World{MasterAddr: "10.0.0.1", MasterPort: Known(29500)}
	e, _ := l.Command(w, nil, nil)
	if diff := cmp.Diff(strings.Fields("mpirun -x MASTER_ADDR=10.0.0.1 -x MASTER_PORT=29500 a.out"),
		e.Argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e, _ = l.Command(World{MasterAddr: "127.0.0.1", MasterPort: Known(1)}, nil, nil); len(e.Argv) != 2 {
		t.Errorf("a loopback address was forwarded to other nodes: %q", e.Argv)
	}
	if e, _ = l.Command(w, nil, []string{"MASTER_ADDR=other"}); len(e.Argv) != 2 {
		t.Errorf("the user's MASTER_ADDR was overridden: %q", e.Argv)
	}
}
