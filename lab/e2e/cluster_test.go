package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

const (
	// patience is the time limit of every wait of a test. It is long, because the
	// lease of a node that dies silently takes 10 s, and these tests share two cores.
	patience = 90 * time.Second
	// joinTimeout is the --join-timeout of nodes that are to start: less than
	// patience, so that launch itself prints which node is missing.
	joinTimeout = "75s"
	// short is the --join-timeout where the time is to run out.
	short = "5s"
)

// cluster is hosts that can reach one store.
type cluster struct {
	t     *testing.T
	lab   *netns.Lab
	store string   // for --store
	path  string   // PATH of the nodes
	env   []string // more of the nodes' environment
	flags []string // of launch, on every node
	line  []string // the command

	limit time.Duration // of each node's waits
}

// embedded returns n hosts with the embedded store on host0.
func embedded(t *testing.T, n int) *cluster {
	t.Helper()
	return newCluster(t, netns.New(t, n), n, "host0")
}

func newCluster(t *testing.T, lab *netns.Lab, n int, store string) *cluster {
	return &cluster{
		t: t, lab: lab, store: store,
		path:  tools.fake + ":" + os.Getenv("PATH"),
		flags: []string{"--join-timeout", joinTimeout},
		line:  []string{"torchrun", "--nnodes", fmt.Sprint(n), "--nproc-per-node", "2", trainPy(t)},
		limit: patience,
	}
}

// eachStore runs a test on the embedded store and on an external etcd.
func eachStore(t *testing.T, n int, test func(*cluster)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(embedded(t, n)) })
	t.Run("etcd", func(t *testing.T) { t.Parallel(); test(external(t, n)) })
}

// node is one launch, running or ended.
type node struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *watched // stdout
	err  *watched // stderr
	done chan struct{}

	limit time.Duration // of every wait for it
}

// start types the line on host i, with more flags of launch before it.
func (c *cluster) start(i int, flags ...string) *node {
	c.t.Helper()
	return c.startLine(i, c.line, flags...)
}

// startLine is start with another command.
func (c *cluster) startLine(i int, line []string, flags ...string) *node {
	c.t.Helper()
	argv := append([]string{tools.launch, "--store", c.store}, c.flags...)
	argv = append(append(argv, flags...), line...)
	return c.startBare(i, argv)
}

// startBare starts any command on host i.
func (c *cluster) startBare(i int, argv []string, env ...string) *node {
	c.t.Helper()
	h := c.lab.Hosts[i]
	n := &node{t: c.t, name: h.Name, out: &watched{}, err: &watched{}, done: make(chan struct{}), limit: c.limit}
	n.cmd = h.Command(c.t.Context(), argv...)
	n.cmd.Env = slices.Concat(n.cmd.Env, []string{"PATH=" + c.path, "OMP_NUM_THREADS=1"}, c.env, env)
	n.cmd.Stdout, n.cmd.Stderr = n.out, n.err
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		err := n.cmd.Wait()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			fmt.Fprintln(n.err, "wait:", err)
		}
		close(n.done)
	}()
	c.t.Cleanup(func() {
		_ = n.cmd.Process.Signal(syscall.SIGTERM) // only where the test failed halfway
		<-n.done
		if c.t.Failed() {
			c.t.Logf("%s: %s\nexit %d\nstdout:\n%sstderr:\n%s", n.name, strings.Join(argv, " "), n.status(), n.out, n.err)
		}
	})
	return n
}

// exits waits until the node ends and checks its exit status.
func (n *node) exits(want int) {
	n.t.Helper()
	if got := n.ends(); got != want {
		n.t.Errorf("%s: exit %d; want %d", n.name, got, want)
	}
}

// ends waits until the node has ended, and returns its status.
func (n *node) ends() int {
	n.t.Helper()
	select {
	case <-n.done:
	case <-time.After(n.limit):
		n.t.Fatalf("%s has not ended after %s", n.name, n.limit)
	}
	return n.status()
}

// status returns the exit status as a shell reports it.
func (n *node) status() int {
	ws, ok := n.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return n.cmd.ProcessState.ExitCode()
}

// says waits until the node's stderr contains a text.
func (n *node) says(text string) { n.t.Helper(); n.shows(n.err, 0, text) }

// saysAgain is says for a text that may be in stderr already: it skips the first
// from bytes.
func (n *node) saysAgain(from int, text string) { n.t.Helper(); n.shows(n.err, from, text) }

// prints waits until the node's stdout contains a text.
func (n *node) prints(text string) { n.t.Helper(); n.shows(n.out, 0, text) }

func (n *node) shows(w *watched, from int, text string) {
	n.t.Helper()
	timeout := time.After(n.limit)
	for {
		grown := w.grown()
		if strings.Contains(w.String()[from:], text) {
			return
		}
		select {
		case <-grown:
		case <-n.done:
			if !strings.Contains(w.String()[from:], text) {
				n.t.Fatalf("%s ended (%d) and did not print %q", n.name, n.status(), text)
			}
			return
		case <-timeout:
			n.t.Fatalf("%s did not print %q within %s", n.name, text, n.limit)
		}
	}
}

// joined waits until one of the nodes, the leader, prints that this number of
// nodes has joined.
func (c *cluster) joined(nodes ...*node) {
	c.t.Helper()
	text := fmt.Sprintf("%d of ", len(nodes))
	timeout := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, n := range nodes {
			if strings.Contains(n.err.String(), text) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-timeout:
			c.t.Fatalf("no node printed %q within %s", text, patience)
		}
	}
}

// quiet checks that the command did not begin: stdout belongs to the command alone.
func (n *node) quiet() {
	n.t.Helper()
	if s := n.out.String(); s != "" {
		n.t.Errorf("%s: the command has begun: %q", n.name, s)
	}
}

// trained checks that all nodes end with 0 and that every rank of the world ran
// exactly once, on the node that its number means.
func trained(t *testing.T, perNode int, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		n.exits(0)
	}
	if t.Failed() {
		return
	}
	seen := map[string]int{}
	for _, n := range nodes {
		for line := range strings.Lines(n.out.String()) {
			if strings.HasPrefix(line, "rank ") {
				seen[strings.TrimSpace(line)]++
			}
		}
	}
	world := len(nodes) * perNode
	for r := range world {
		line := fmt.Sprintf("rank %d of %d on node %d", r, world, r/perNode)
		if seen[line] != 1 {
			t.Errorf("%q was printed %d times; want once", line, seen[line])
		}
	}
	if len(seen) != world {
		t.Errorf("ranks %v; want %d", seen, world)
	}
}

// watched collects output; a test can wait for more of it.
type watched struct {
	mu     sync.Mutex
	text   strings.Builder
	notify chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notify != nil {
		close(w.notify)
		w.notify = nil
	}
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// grown returns a channel that the next write closes.
func (w *watched) grown() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notify == nil {
		w.notify = make(chan struct{})
	}
	return w.notify
}
