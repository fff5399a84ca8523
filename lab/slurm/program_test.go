package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"launch/lab/programs"
)

// A real MPI program under srun --mpi=pmix finds Slurm's PMIx through launch.
func (c *cluster) pmix(t *testing.T) {
	c.write("ring.py", ring, 0o644)
	if err := exec.Command("/usr/bin/python3", "-c", `import ctypes; ctypes.CDLL("libmpi.so.40")`).Run(); err != nil {
		t.Skip("needs Open MPI's library (package openmpi-bin)")
	}
	s := c.srun(t, "--mpi=pmix -w c7-n11,gpu01 -N2 -n4 --ntasks-per-node=2", "/usr/bin/python3", c.in("ring.py"))
	s.exits(t, 0)
	for rank := range 4 {
		s.says(t, fmt.Sprintf("MPI %d of 4, RANK %[1]d of 4, sum 6\n", rank))
	}
}

// launch before mpirun asks the nodes of an allocation by srun, from a host that is none of them.
func (c *cluster) mpirun(t *testing.T) {
	c.write("alone.py", strings.Replace(ring, "import ctypes, os", "import ctypes, os\n"+
		"os.environ.setdefault('RANK', '-')\nos.environ.setdefault('WORLD_SIZE', '-')", 1), 0o644)
	salloc := []string{"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "salloc", "-N2", "-w",
		"c7-n11,gpu01", "--ntasks-per-node=2", launch}
	s := c.run(t, append(salloc, "mpirun", "/usr/bin/python3", c.in("alone.py"))...)
	s.exits(t, 0)
	for rank := range 4 {
		s.says(t, fmt.Sprintf("MPI %d of 4, RANK - of -, sum 6\n", rank))
	}
	s = c.run(t, append(salloc, "check", "--", "mpirun", "-np", "5", "/usr/bin/python3", c.in("alone.py"))...)
	s.exits(t, 65)
	s.says(t, "5 processes, but the hosts have 4 slots (SLURM_JOB_NODELIST)")
	s = c.run(t, append(salloc, "check", "--", "mpirun", "/usr/bin/python3", c.in("nothing.py"))...)
	s.exits(t, 65)
	s.says(t, "c7-n11, gpu01: there is no "+c.in("nothing.py"))
	c.chosen(t, salloc)
}

// chosen: lines that choose hosts of an allocation count as mpirun counts them, with no more slots than Slurm gave.
func (c *cluster) chosen(t *testing.T, salloc []string) {
	c.write("any", "gpu01\n", 0o644)
	c.write("one", "gpu01 slots=1\n", 0o644)
	c.write("more", "gpu01\ngpu02\n", 0o644)
	for _, l := range []struct {
		line string
		says string // by launch; "": nothing of slots
		runs bool
	}{
		{"-np 2 --hostfile any", "", true},
		{"-np 3 --hostfile any", "3 processes, but the hosts have 2 slots (--hostfile any)", false},
		{"-np 2 --hostfile one", "2 processes, but the hosts have 1 slot", false},
		{"-np 2 --host gpu01:9", "", true},
		{"-np 3 --host gpu01:9", "3 processes, but the hosts have 2 slots", false},
		{"-np 1 --host gpu01,gpu02", "gpu02 of --host: not in the allocation", true},
		{"-np 1 --hostfile more", "gpu02 of --hostfile more: not in the allocation", false},
	} {
		words := append(strings.Fields("mpirun "+l.line), "/usr/bin/python3", c.in("alone.py"))
		if p := c.run(t, slices.Concat(salloc[:len(salloc)-1], words)...); (p.status == 0) != l.runs {
			t.Errorf("plain %s: exit %d\n%s%s", l.line, p.status, p.out, p.err)
		}
		s := c.run(t, slices.Concat(salloc, words)...)
		said := strings.Join(strings.Fields(s.out+s.err), " ")
		if (s.status == 0) != l.runs || !strings.Contains(said, l.says) ||
			l.says == "" && strings.Contains(said, "mpi.slots") {
			t.Errorf("%s: exit %d, want %q\n%s%s", l.line, s.status, l.says, s.out, s.err)
		}
	}
}

// ring is an MPI program: all ranks add their numbers.
const ring = `import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world, integer, add = (ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_" + name))
	for name in ("mpi_comm_world", "mpi_int", "mpi_op_sum"))
mpi.MPI_Init(None, None)
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, add, world)
env = os.environ
print(f"MPI {rank.value} of {size.value}, RANK {env['RANK']} of {env['WORLD_SIZE']}, sum {total.value}", flush=True)
mpi.MPI_Finalize()
`

// A real torchrun on two nodes.
func (c *cluster) torchrun(t *testing.T) {
	torch := programs.CurrentTorch(t)
	train, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s := c.srun(t, "-w gpu01,gpu02 -N2 --ntasks-per-node=1", torch.Python, "-m", "torch.distributed.run",
		"--nproc-per-node", "1", train+"/../../examples/train.py", "--steps", "1")
	s.exits(t, 0)
	for rank := range 2 {
		s.says(t, fmt.Sprintf("rank %d of 2 on node %[1]d\n", rank))
	}
}
