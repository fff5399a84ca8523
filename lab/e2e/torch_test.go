package e2e

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/lab/programs"
)

// steps keeps the real trainings short; the loss falls within a few.
const steps = "20"

// The tests with a real torch do not run in parallel, except for one that mostly
// waits: nine processes that import torch need both cores.

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func trainPy(t *testing.T) string { return filepath.Join(root(t), "examples", "train.py") }

// withTorch returns n hosts with a real torchrun.
func withTorch(t *testing.T, n int, torch programs.Torch) *cluster {
	return embedded(t, n).torch(torch)
}

// torch gives the nodes a real torchrun and its python. Options in its command lines
// have underscores, which torch 1.13 knows too.
func (c *cluster) torch(torch programs.Torch) *cluster {
	c.path = filepath.Dir(torch.Python) + ":/usr/sbin:/usr/bin:/sbin:/bin"
	c.env = append(c.env, torch.Env...)
	c.lab.MayLeave("torchelastic_*", "torchinductor_*") // torch's own
	c.limit = 2 * patience                              // loading it from a cold disk takes a minute
	return c
}

// fell checks that rank 0, on one of the nodes, printed a falling loss.
func fell(t *testing.T, nodes ...*node) {
	t.Helper()
	var all strings.Builder
	for _, n := range nodes {
		all.WriteString(n.out.String())
	}
	_, text, found := strings.Cut(all.String(), "done: loss ")
	if !found {
		t.Error("no rank reported the end of the training")
		return
	}
	text, _, _ = strings.Cut(text, ",")
	from, to, _ := strings.Cut(text, " -> ")
	first, err1 := strconv.ParseFloat(from, 64)
	last, err2 := strconv.ParseFloat(to, 64)
	if err1 != nil || err2 != nil || last > first/2 {
		t.Errorf("loss %s; want at most half", text)
	}
	t.Logf("loss %s", text)
}

func TestCurrentTorchTrainsOnThreeHosts(t *testing.T) {
	trainsOnThreeHosts(t, programs.CurrentTorch(t))
}

func trainsOnThreeHosts(t *testing.T, torch programs.Torch) {
	t.Helper()
	c := withTorch(t, 3, torch)
	c.line = []string{"torchrun", "--nnodes", "3", "--nproc_per_node", "2", trainPy(t), "--steps", steps}
	for _, h := range c.lab.Hosts {
		h.Decoy("docker0", "172.17.0.1/16") // the same on all: must not be chosen
	}
	nodes := []*node{c.start(0), c.start(1), c.start(2)}
	trained(t, 2, nodes...)
	fell(t, nodes...)
}

func TestAPlainProgramTrainsOnThreeHosts(t *testing.T) {
	c := withTorch(t, 3, programs.AnyTorch(t))
	c.line = []string{"python3", trainPy(t), "--steps", steps}
	nodes := []*node{c.start(0, "--nnodes", "3"), c.start(1, "--nnodes", "3"), c.start(2, "--nnodes", "3")}
	trained(t, 1, nodes...)
	fell(t, nodes...)
}

// The oldest torch that is supported, and the only one with underscores only.
func TestTorch113TrainsOnThreeHosts(t *testing.T) {
	trainsOnThreeHosts(t, programs.DebianTorch(t))
}

// No torchrun recognizes 10.77.0.1 as its own, because it compares names, and the
// kernel host name resolves to loopback. Plain torchrun waits 60 s for the store and
// fails on every host (torch 2.15: after a second try).
func TestAnEndpointThatNoPlainTorchrunRecognizesAsItsOwn(t *testing.T) {
	t.Parallel()
	torch := programs.AnyTorch(t)
	line := []string{"torchrun", "--nnodes", "3", "--nproc_per_node", "1", "--rdzv_backend", "c10d",
		"--rdzv_endpoint", "10.77.0.1:29500", "--rdzv_id", "x", trainPy(t), "--steps", steps}

	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		if !programs.Full() {
			t.Skip("what torchrun does alone, in three minutes: LAUNCH_TEST_FULL=1 or make faultbench")
		}
		c := withTorch(t, 3, torch)
		nodes := []*node{c.startBare(0, line), c.startBare(1, line), c.startBare(2, line)}
		for _, n := range nodes {
			n.limit = 4 * time.Minute
			n.exits(1)
			n.says("RendezvousConnectionError")
			n.quiet()
		}
	})
	t.Run("with launch", func(t *testing.T) {
		t.Parallel()
		c := withTorch(t, 3, torch)
		c.line = line
		argv := append([]string{tools.launch}, line...)
		nodes := []*node{c.startBare(0, argv), c.startBare(1, argv), c.startBare(2, argv)}
		trained(t, 1, nodes...)
		fell(t, nodes...)
	})
}
