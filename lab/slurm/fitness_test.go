package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// disk is a check of --check-dir that fails on the nodes for which a test has written a file.
func (c *cluster) disk(t *testing.T, bad ...string) (dir string) {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", ".")
	dir = c.in(name + ".checks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.script(name+".checks/disk", `[ -e `+c.in(name)+`.bad.$SLURMD_NODENAME ] || exit 0
echo "the scratch disk of $SLURMD_NODENAME is read-only"; exit 1`)
	for _, node := range bad {
		c.write(name+".bad."+node, "", 0o644)
	}
	return dir
}

// All tasks of all nodes run launch check; the first of each node checks it.
func (c *cluster) check(t *testing.T) {
	s := c.srun(t, "-w c7-n11,gpu01 -N2 -n4 --ntasks-per-node=2", "check", "--only", "host.resolves,storage.answers")
	s.exits(t, 0)
	if n := strings.Count(s.out, "all 2 nodes are fit"); n != 2 {
		t.Errorf("%d reports; want one from each node", n)
	}
	if strings.Contains(s.err, "lost") || strings.Contains(s.err, "left") {
		t.Errorf("a node that has its result is no news: %s", s.err)
	}
	s = c.srun(t, "-w c7-n11,gpu01,gpu02 -N3 -n3", "check", "--check-dir", c.disk(t, "gpu01", "gpu02"),
		"--only", "user.disk")
	s.says(t, "2 of 3 nodes unfit", "sbatch --exclude=gpu01,gpu02 …", "gpu02: task 2: Exited with exit code 65",
		"c7-n11: task 0: Exited with exit code 66")
}

// No node replaces an unfit one of a step, so all end at once, with the option for the next job. The store's
// host among them stays long enough to say so, and an unfit node waits for a store's host that starts later.
func (c *cluster) unfit(t *testing.T) {
	late := c.script("late", `[[ $SLURMD_NODENAME == c7-n11 ]] && sleep 4; exec "$@"`)
	for _, bad := range []string{"gpu02", "c7-n11"} {
		dir := c.disk(t, bad)
		s := c.run(t, "srun", but, "-w", "c7-n11,gpu01,gpu02", "-N3", "--ntasks-per-node=2", late, launch,
			"--check-dir", dir, c.in("show"))
		what := "the scratch disk of " + bad + " is read-only"
		s.says(t, "fail user.disk       "+bad+": "+what, " is unfit: user.disk: "+what, "no node is added to a Slurm step")
		if n := strings.Count(s.err, "sbatch --exclude="+bad+" …"); n != 3 {
			t.Errorf("%d nodes print the option; want 3", n)
		}
		if n := strings.Count(s.out, "rank "); n != 0 {
			t.Errorf("%d ranks ran", n)
		}
		_ = os.Remove(c.in(strings.ReplaceAll(t.Name(), "/", ".") + ".bad." + bad))
	}
}

// example returns a program of examples/slurm.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../examples/slurm/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The example of a TaskProlog lets no task of an unfit node start, and says why in the job's output.
func (c *cluster) taskProlog(t *testing.T) {
	dir := c.disk(t, "gpu02")
	c.script("taskprolog", fmt.Sprintf("[[ $CHECKED ]] || exit 0\nexport LAUNCH=%s CHECK_DIR=%s\nexec %s", launch, dir,
		example(t, "taskprolog")))
	s := c.run(t, "srun", but, "-w", "gpu01,gpu02", "-N2", "--ntasks-per-node=2", "env", "CHECKED=0", "true")
	s.exits(t, 0)
	s = c.run(t, "env", "CHECKED=1", "srun", but, "-w", "gpu01,gpu02", "-N2", "--ntasks-per-node=2", "sh", "-c",
		"echo task on $SLURMD_NODENAME")
	s.says(t, "sbatch --exclude=gpu02\n")
	why, said := "gpu02 is unfit: user.disk the scratch disk", strings.Join(strings.Fields(s.out), " ")
	if !strings.Contains(said, why) {
		t.Errorf("it did not print %q", why)
	}
	if strings.Count(s.out, "task on gpu01") != 2 || strings.Contains(s.out, "task on gpu02") {
		t.Errorf("it printed %q", s.out)
	}
}

// The example of a HealthCheckProgram drains an unfit node with the finding as reason, and resumes it.
// What a person has drained stays so.
func (c *cluster) health(t *testing.T) {
	dir := c.disk(t, "gpu01")
	reason := func(node string) string {
		return strings.TrimSpace(c.out("sinfo", "-h", "-N", "-n", node, "-o", "%t %E"))
	}
	c.run(t, "scontrol", "update", "node=c7-n11", "state=drain", "reason=memory").exits(t, 0)
	defer c.run(t, "scontrol", "update", "node=c7-n11", "state=resume")
	c.script("health", fmt.Sprintf("export LAUNCH=%s CHECK_DIR=%s SLURM_CONF=%s; exec %s", launch, dir,
		c.in("slurm.conf"), example(t, "healthcheck")))
	defer c.script("health", "exit 0")
	c.waitFor(t, "the node to be drained", func() bool {
		return strings.HasSuffix(reason("gpu01"), "launch: user.disk the scratch disk of gpu01 is read-only")
	})
	if r := reason("gpu02"); !strings.HasSuffix(r, " none") {
		t.Errorf("gpu02: %s", r)
	}
	_ = os.Remove(c.in(strings.ReplaceAll(t.Name(), "/", ".") + ".bad.gpu01"))
	c.waitFor(t, "the node to be resumed", func() bool { return strings.HasSuffix(reason("gpu01"), " none") })
	if r := reason("c7-n11"); !strings.HasSuffix(r, " memory") {
		t.Errorf("c7-n11: %s", r)
	}
}
