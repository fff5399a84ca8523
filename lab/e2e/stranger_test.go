package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"launch/lab/programs"
)

// stranger builds the program that asks a store for all that it has, where any user can run it.
func stranger(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "stranger")
	if err := programs.Go(bin, "launch/lab/stranger"); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Somebody on another machine, and another user of the store's machine, ask the store for all that
// etcd's API has. They get nothing, and the job starts.
func TestAStrangerGetsNothingFromTheStore(t *testing.T) {
	t.Parallel()
	c := embedded(t, 4)
	c.flags = append(c.flags, "--nnodes", "3")
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	nodes := []*node{c.start(0)}
	c.joined(nodes...)
	nodes = append(nodes, c.start(1))
	c.joined(nodes...)
	bin := stranger(t)
	for host, sees := range map[int]string{3: "has no room for more", 0: "is not let in"} {
		s := c.startBare(host, append(otherUser(), bin, c.lab.Hosts[0].Addr+":29377", "store-29377"))
		if s.ends() != 0 || !strings.Contains(s.out.String(), sees) {
			t.Errorf("from %s: %s", s.name, s.out)
		}
		t.Logf("from %s: %s", s.name, s.out)
	}
	for _, line := range c.lab.Hosts[0].Processes() {
		if pid, args, _ := strings.Cut(line, " "); strings.HasPrefix(args, "launch") {
			if mb := resident(t, pid, "VmRSS"); mb > 500 {
				t.Errorf("%s has %d MB", args, mb)
			}
		}
	}
	nodes = append(nodes, c.start(2))
	trained(t, 1, nodes...)
}

// otherUser begins a line that runs as another user.
func otherUser() []string {
	return []string{"setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"}
}

// Another user of the store's machine is first at the port: nobody joins it, root neither.
func TestAStoreOfAnotherUserIsNotJoined(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	c.flags = append(c.flags, "--nnodes", "2")
	first := c.startBare(0, slices.Concat(otherUser(),
		[]string{"env", "TMPDIR=/dev/shm", tools.launch, "--store", c.store}, c.flags, c.line))
	c.joined(first)
	n := c.start(0)
	n.exits(69)
	n.says("the store belongs to another user: user 65533")
	_ = first.cmd.Process.Signal(syscall.SIGINT)
	first.exits(130)
}

// resident returns a figure of /proc/PID/status about the memory of a process, in MB.
func resident(t *testing.T, pid, which string) (mb int) {
	t.Helper()
	b, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == which+":" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(fmt.Errorf("%s: %w", line, err))
			}
			return kb >> 10
		}
	}
	return 0
}

// The pods of a Job, and the processes of an mpirun, share what no stranger knows: nobody types a token.
func TestNodesTakeTheSecretThatTheirSchedulerGaveThem(t *testing.T) {
	t.Parallel()
	const uid = "6f1c9b0e-5d3a-4c7e-9f10-aa55d0c3b1e2"
	c := embedded(t, 3)
	c.flags = append(c.flags, "--nnodes", "2")
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	pod := func(i int) *node {
		return c.startBare(i, slices.Concat([]string{tools.launch, "--store", c.store}, c.flags, c.line),
			"JOB_UID="+uid, "JOB_COMPLETION_INDEX="+strconv.Itoa(i))
	}
	first := pod(0)
	c.joined(first)
	s := c.startBare(2, []string{stranger(t), c.lab.Hosts[0].Addr + ":29377", uid})
	if s.ends() != 0 || !strings.Contains(s.out.String(), "is not let in") {
		t.Errorf("a stranger: %s", s.out)
	}
	second := pod(1)
	trained(t, 1, first, second)
	first.says("TLS with a key from JOB_UID")
	if strings.Contains(second.err.String(), "TLS") {
		t.Error("the line is said more than once a job")
	}
}

// Without a token the job says once that its store is open, and how to close it.
func TestAnOpenStoreIsSaidOnce(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	c.flags = append(c.flags, "--nnodes", "2")
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	for _, tt := range []struct {
		flags []string
		env   string
		says  string // "": nothing
	}{
		{nil, "", "no LAUNCH_TOKEN: any process that reaches the store at host0:29377 can take part"},
		{[]string{"--open-store"}, "", ""},
		{nil, "LAUNCH_OPEN_STORE=1", ""},
		{nil, "LAUNCH_TOKEN=passwordpassword", "LAUNCH_TOKEN looks made up"},
		{nil, "LAUNCH_TOKEN=8c1f0e6b7a2d94b5c3f8a1e0d7b6c5a4", ""},
	} {
		c.env = nil
		if tt.env != "" {
			c.env = []string{tt.env}
		}
		nodes := []*node{c.start(0, tt.flags...), c.start(1, tt.flags...)}
		trained(t, 1, nodes...)
		all := nodes[0].err.String() + nodes[1].err.String()
		if n := strings.Count(all, "LAUNCH_TOKEN"); tt.says == "" && n > 0 || tt.says != "" && n != 1 ||
			!strings.Contains(all, tt.says) {
			t.Errorf("%v %s: %s", tt.flags, tt.env, all)
		}
	}
}

// In a job step of Slurm the store's host makes a secret, and munge shows it to this user's nodes alone.
func TestMungeHidesTheSecretOfASlurmStep(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	c.path = programs.Munge(t) + ":" + c.path
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	as := func(i int, user []string, more ...string) *node {
		return c.startBare(i, slices.Concat(user, []string{tools.launch, "--join-timeout", joinTimeout}, more, c.line),
			"SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=host[0-1]", "SLURM_STEP_NUM_NODES=2",
			"SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_PROCID="+strconv.Itoa(i), "SLURM_LOCALID=0",
			"SLURM_NODEID="+strconv.Itoa(i), "SLURMD_NODENAME=host"+strconv.Itoa(i), "SLURM_NTASKS=2", "TMPDIR=/dev/shm")
	}
	first := as(0, nil)
	c.joined(first)
	const port = ":25604" // of job 77, step 0
	first.says("store at host0" + port)
	s := c.startBare(2, []string{stranger(t), c.lab.Hosts[0].Addr + port, "slurm-77.0"})
	if s.ends() != 0 || !strings.Contains(s.out.String(), "is not let in") {
		t.Errorf("a stranger: %s", s.out)
	}
	other := as(1, otherUser()) // of the same cluster
	other.exits(78)
	other.says("munge shows it to another user alone")
	status := c.startBare(1, []string{tools.launch, "status", "--store", "host0" + port})
	status.exits(0)
	status.prints("slurm-77.0")
	second := as(1, nil)
	trained(t, 1, first, second)
	first.says("TLS with a key that munge hides from other users")
}
