package launcher

import (
	"strings"
	"testing"

	"launch/internal/setting"
)

func TestInSections(t *testing.T) {
	v := func(name, value string) []setting.Var { return []setting.Var{{Name: name, Value: value}} }
	sections := []Section{{"a", 2, v("NCCL_IB_HCA", "mlx5_0")}, {"u@b", 1, v("NCCL_IB_HCA", "=mlx5_1:1")}}
	for _, c := range []struct{ mpi, line, want string }{
		{"openmpi4", "mpirun -np 3 --hostfile h --bind-to core -x A=b --mca btl tcp,self -wdir /d -- ./p 1 2",
			"mpirun --bind-to core -x A=b --mca btl tcp,self -wdir /d -np 2 --host a:2 -x NCCL_IB_HCA=mlx5_0 -- ./p 1 2 : " +
				"-x A=b --mca btl tcp,self -wdir /d -np 1 --host u@b:1 -x NCCL_IB_HCA==mlx5_1:1 -- ./p 1 2"},
		{"openmpi5", "mpirun --host a:2,u@b --display map ./p",
			"mpirun --display map -np 2 --host a:2 -x NCCL_IB_HCA=mlx5_0 ./p : " +
				"-np 1 --host u@b:1 -x NCCL_IB_HCA==mlx5_1:1 ./p"},
		{"mpich", "mpiexec -n 3 -f h -genv A b -env C=d -bind-to core ./p -n 4",
			"mpiexec -f h -genv A b -env C=d -bind-to core -n 2 -env NCCL_IB_HCA mlx5_0 ./p -n 4 : " +
				"-env C=d -n 1 -env NCCL_IB_HCA =mlx5_1:1 ./p -n 4"},
		{"intel", "mpiexec -n 3 -machinefile h -genv A b ./p", "mpiexec -genv A b -n 2 -host a " +
			"-env NCCL_IB_HCA mlx5_0 ./p : -n 1 -host u@b -env NCCL_IB_HCA =mlx5_1:1 ./p"},
	} {
		line, err := Parse(strings.Fields(c.line), "")
		if err != nil {
			t.Fatal(err)
		}
		got := line.Of(c.mpi).InSections(sections)
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.line, g, c.want)
		}
		again, err := Parse(got, "")
		if again = again.Of(c.mpi); err != nil || len(again.Starts) != 2 || again.NP.Value != "3" {
			t.Errorf("%s: %v, %d programs, np %q", got, err, len(again.Starts), again.NP.Value)
		}
	}
}
