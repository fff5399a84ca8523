package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/lab/programs"
)

// launch is the program under test; TestMain makes it once.
var launch string

func TestMain(m *testing.M) {
	os.Exit(programs.Run(m, func(dir string) (err error) {
		launch, err = programs.Launch(dir)
		return err
	}))
}

// show is a light program: it prints its place in the world, and stays for $1 seconds.
const show = `echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $SLURMD_NODENAME," \
	"node $NODE_RANK, master $MASTER_ADDR:$MASTER_PORT, run ${SLURM_RESTART_COUNT:-0}"
sleep ${1:-0}`

// The jobs of one cluster, side by side. The last one takes a node down, which the others leave out.
func TestSlurm(t *testing.T) {
	t.Parallel()
	c := start(t, builtin)
	c.script("show", show)
	t.Log(strings.TrimSpace(c.out("slurmctld-wlm", "-V")))
	t.Run("whole", c.whole)
	t.Run("others", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"tasks": c.tasks, "steps": c.steps, "array": c.array,
			"batch": c.batchAlone, "salloc": c.salloc, "requeue": c.requeue, "pmix": c.pmix,
			"mpirun": c.mpirun, "check": c.check,
			"unfit": c.unfit, "prolog": c.taskProlog, "lists": c.lists, "torchrun": c.torchrun,
			"dies": c.dies, "user": c.user,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
		}
	})
	t.Run("health", c.health) // it drains nodes
}

// but leaves the node that dies out.
const but = "--exclude=gpu03"

// ended is a command that has ended.
type ended struct {
	out, err string
	status   int
}

// run runs a command on the login node.
func (c *cluster) run(t *testing.T, argv ...string) ended {
	t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := c.command(ctx, "login", argv...)
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && !errors.As(e, new(*exec.ExitError)) {
		t.Fatal(e)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %d\n%s%s", strings.Join(argv, " "), cmd.ProcessState.ExitCode(), &out, &err)
		}
	})
	return ended{out.String(), err.String(), cmd.ProcessState.ExitCode()}
}

// srun runs launch in the tasks of a step.
func (c *cluster) srun(t *testing.T, options string, argv ...string) ended {
	t.Helper()
	return c.run(t, slices.Concat([]string{"srun", but}, strings.Fields(options), []string{launch}, argv)...)
}

// submit submits a batch script, and returns the job's number.
func (c *cluster) submit(t *testing.T, script string, options ...string) string {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", ".")
	file := c.script(name, "exec 2>&1\n"+script)
	s := c.run(t, slices.Concat([]string{"sbatch", "--parsable", "--open-mode=append", "-o", c.in(name + ".%a.out")},
		options, []string{file})...)
	if s.status != 0 {
		t.Fatalf("sbatch: %s", s.err)
	}
	return strings.TrimSpace(s.out)
}

// output returns what a batch job has printed.
func (c *cluster) output(t *testing.T) string {
	all := ""
	for i := range 4 {
		for _, n := range []string{fmt.Sprint(i), "4294967294"} { // %a outside of an array
			text, _ := os.ReadFile(c.in(strings.ReplaceAll(t.Name(), "/", ".") + "." + n + ".out"))
			if i == 0 || n != "4294967294" {
				all += string(text)
			}
		}
	}
	return all
}

// batch runs a batch script to its end, and returns its output.
func (c *cluster) batch(t *testing.T, script string, options ...string) string {
	t.Helper()
	id := c.submit(t, script, append([]string{but}, options...)...)
	c.waitFor(t, "the end of the job", func() bool { return strings.TrimSpace(c.out("squeue", "-h", "-j", id)) == "" })
	out := c.output(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(out)
		}
	})
	return out
}

func (c *cluster) waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s:\n%s", patience, what, c.output(t))
		}
	}
}

var shown = regexp.MustCompile(
	`(?m)^rank (\d+) of (\d+), (\d+) of (\d+) on (\S+), node (\d+), master (\S+), run (\d+)$`)

// worlds checks that the output has n worlds, and each one rank of every number; a rank is described
// as "RANK LOCAL/LOCAL_SIZE HOST NODE". It returns the masters.
func worlds(t *testing.T, out string, n int, want ...string) []string {
	t.Helper()
	by := map[string][]string{}
	var masters []string
	for _, m := range shown.FindAllStringSubmatch(out, -1) {
		if m[2] != fmt.Sprint(len(want)) {
			t.Errorf("%q: want %d ranks", m[0], len(want))
		}
		if by[m[7]] == nil {
			masters = append(masters, m[7])
		}
		by[m[7]] = append(by[m[7]], fmt.Sprintf("%s %s/%s %s %s", m[1], m[3], m[4], m[5], m[6]))
	}
	if len(by) != n {
		t.Errorf("%d worlds; want %d:\n%s", len(by), n, out)
	}
	for master, got := range by {
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the world at %s: %q; want %q", master, got, want)
		}
	}
	return masters
}

func (e ended) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(e.out+e.err, text) {
			t.Errorf("it did not print %q", text)
		}
	}
}

func (e ended) exits(t *testing.T, want int) {
	t.Helper()
	if e.status != want {
		t.Errorf("exit %d; want %d", e.status, want)
	}
}

// One task on each of nodes whose names differ in more than a number.
func (c *cluster) whole(t *testing.T) {
	s := c.run(t, "srun", "-N4", "--ntasks-per-node=1", launch, c.in("show"))
	s.exits(t, 0)
	worlds(t, s.out, 1, "0 0/1 c7-n11 0", "1 0/1 gpu01 1", "2 0/1 gpu02 2", "3 0/1 gpu03 3")
	s.says(t, "store at c7-n11:", "the nodes speak TLS with a key that munge hides")
}

// Several tasks on a node, not as many on each.
func (c *cluster) tasks(t *testing.T) {
	s := c.srun(t, "-w c7-n11,gpu01 -N2 -n5 --ntasks-per-node=4", c.in("show"))
	s.exits(t, 0)
	worlds(t, s.out, 1, "0 0/4 c7-n11 0", "1 1/4 c7-n11 0", "2 2/4 c7-n11 0", "3 3/4 c7-n11 0", "4 0/1 gpu01 1")
	s = c.srun(t, "-w c7-n11,gpu01 -N2 -n4 --ntasks-per-node=2 -m cyclic", c.in("show"))
	s.exits(t, 0)
	worlds(t, s.out, 1, "0 0/2 c7-n11 0", "1 0/2 gpu01 1", "2 1/2 c7-n11 0", "3 1/2 gpu01 1")
}

// Task 0 is not on the first node of Slurm's list: its node is node 0 all the same, since it is the master.
// The test has a cluster of its own: slurmctld 22.05 was seen to crash after such steps.
func TestArbitraryDistribution(t *testing.T) {
	t.Parallel()
	c := start(t, builtin)
	c.script("show", show)
	c.write("hosts", "gpu02\nc7-n11\ngpu02\ngpu01\n", 0o644)
	s := c.run(t, "salloc", but, "-N3", "--ntasks-per-node=2", "env", "SLURM_HOSTFILE="+c.in("hosts"),
		"srun", "-n4", "-m", "arbitrary", launch, c.in("show"))
	if s.status != 0 && c.out("sinfo") == "" {
		t.Skip("slurmctld has crashed, as it was seen to do after such a step")
	}
	s.exits(t, 0)
	for _, m := range worlds(t, regexp.MustCompile(`node [12],`).ReplaceAllString(s.out, "node 9,"), 1,
		"0 0/2 gpu02 0", "1 0/1 c7-n11 9", "2 1/2 gpu02 0", "3 0/1 gpu01 9") {
		if !strings.HasPrefix(m, "10.77.0.4:") {
			t.Errorf("the master is %s; want gpu02, 10.77.0.4", m)
		}
	}
}

// A heterogeneous job: its components have other sizes, and the tasks of all are one world.
func TestHeterogeneousJob(t *testing.T) {
	t.Parallel()
	c := start(t, backfill)
	c.script("show", show)
	s := c.run(t, "srun", "-N1", "-w", "c7-n11", "-n2", launch, c.in("show"), ":", but+",c7-n11", "-N2", "-n2", launch,
		c.in("show"))
	s.exits(t, 0)
	worlds(t, s.out, 1, "0 0/2 c7-n11 0", "1 1/2 c7-n11 0", "2 0/1 gpu01 1", "3 0/1 gpu02 2")
}

// Three steps at once on the same nodes of an allocation.
func (c *cluster) steps(t *testing.T) {
	out := c.batch(t, "for i in 1 2 3; do srun --exact -N2 -n2 "+launch+" "+c.in("show")+" 3 & done; wait", "-N2",
		"--ntasks-per-node=3", "-w", "c7-n11,gpu01")
	worlds(t, out, 3, "0 0/1 c7-n11 0", "1 0/1 gpu01 1")
}

// The tasks of an array run at once on the same nodes.
func (c *cluster) array(t *testing.T) {
	out := c.batch(t, "srun "+launch+" "+c.in("show")+" 3", "-N2", "--ntasks-per-node=1", "-w", "c7-n11,gpu01",
		"--array=0-2")
	worlds(t, out, 3, "0 0/1 c7-n11 0", "1 0/1 gpu01 1")
}

// In a batch script without srun, launch would start one node of several.
func (c *cluster) batchAlone(t *testing.T) {
	s := ended{out: c.batch(t, launch+" "+c.in("show")+"; echo status $?; "+launch+" --nnodes 1 "+c.in("show"), "-N2",
		"--ntasks-per-node=1")}
	s.says(t, "status 78", "srun did not start this process: it would start one node",
		"srun --ntasks-per-node=1 launch "+c.in("show"), "\nrank 0 of 1, 0 of 1 on ")
}

// In salloc's shell the same; and mpirun finds the nodes of the allocation itself.
func (c *cluster) salloc(t *testing.T) {
	c.run(t, "salloc", but, "-N2", "--ntasks-per-node=1", launch, c.in("show")).exits(t, 78)
	s := c.run(t, "salloc", but, "-N2", "--ntasks-per-node=1", launch, "check", "--only", "host.resolves")
	s.exits(t, 0)
	s.says(t, "this looks at one node: Slurm job ", "srun --ntasks-per-node=1 launch check")
	s = c.run(t, "salloc", "-w", "c7-n11,gpu02", "--ntasks-per-node=1", launch, "--dry-run", "--json", "mpirun", "./a.out")
	s.says(t, `"hosts":["c7-n11","gpu02"]`)
	s = c.run(t, "salloc", "-w", "c7-n11,gpu02", "--ntasks-per-node=1", "srun", launch, c.in("show"))
	s.exits(t, 0)
	worlds(t, s.out, 1, "0 0/1 c7-n11 0", "1 0/1 gpu02 1")
}
