package slurm

import (
	"strings"
	"syscall"
	"testing"
)

// A requeued job has the same number and the next restart count.
func (c *cluster) requeue(t *testing.T) {
	id := c.submit(t, "srun "+launch+" "+c.in("show")+" $((SLURM_RESTART_COUNT ? 0 : 60))", but, "-N2",
		"--ntasks-per-node=1", "--requeue", "-w", "gpu01,gpu02")
	ran := func(n string) func() bool {
		return func() bool { return strings.Count(c.output(t), ", run "+n+"\n") == 2 }
	}
	c.waitFor(t, "the first run", ran("0"))
	c.run(t, "scontrol", "requeue", id).exits(t, 0)
	c.waitFor(t, "the second run", ran("1"))
	s := ended{out: c.output(t)}
	s.says(t, "job slurm-"+id+".0: 2 nodes", "job slurm-"+id+".0.1: 2 nodes", "rank 1 of 2, 0 of 1 on gpu02, node 1")
}

// A node dies while its step runs: launch names it and ends the others' commands. Slurm requeues the job,
// which then runs on other nodes.
func (c *cluster) dies(t *testing.T) {
	id := c.submit(t, "srun --kill-on-bad-exit=1 "+launch+" --fail-fast "+c.in("show")+
		" $((SLURM_RESTART_COUNT ? 0 : 60))", "-N2", "--ntasks-per-node=1", "--requeue", "--exclude=c7-n11,gpu01")
	c.waitFor(t, "the first run", func() bool { return strings.Count(c.output(t), ", run 0\n") == 2 })
	dead := c.hosts["gpu03"]
	dead.Cut()
	_ = dead.Signal(syscall.SIGKILL)
	c.waitFor(t, "the loss", func() bool { return strings.Contains(c.output(t), "gpu03 (10.77.0.5), was lost") })
	c.waitFor(t, "Slurm to requeue it", func() bool {
		return strings.HasPrefix(c.out("squeue", "-h", "-j", id, "-o", "%T"), "PENDING")
	})
	c.run(t, "scontrol", "update", "job="+id, "excnodelist=gpu03,c7-n11").exits(t, 0)
	c.waitFor(t, "the second run", func() bool { return strings.Count(c.output(t), ", run 1\n") == 2 })
	worlds(t, strings.ReplaceAll(c.output(t), ", run 0\n", ", first run\n"), 1, "0 0/1 gpu01 0", "1 0/1 gpu02 1")
}

// Another user than root: munge knows the user, and the nodes' key is that user's alone.
func (c *cluster) user(t *testing.T) {
	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "TMPDIR=/tmp", "HOME=/"}
	if s := c.run(t, append(nobody, launch, "version")...); s.status != 0 {
		t.Skipf("user 65534 may not run %s: %s", launch, s.err)
	}
	s := c.run(t, append(nobody, "srun", but, "-w", "gpu01,gpu02", "-N2", "-n4", "--ntasks-per-node=2", launch,
		c.in("show"))...)
	s.exits(t, 0)
	s.says(t, "a key that munge hides")
	worlds(t, s.out, 1, "0 0/2 gpu01 0", "1 1/2 gpu01 0", "2 0/2 gpu02 1", "3 1/2 gpu02 1")
}
