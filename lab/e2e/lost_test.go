package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/programs"
)

// lossLimit is how soon the others say that a node was lost: a lease, and the time to see it.
const lossLimit = 15 * time.Second

// commandsRun starts n nodes whose commands run until the file exists.
func commandsRun(t *testing.T, n int, flags ...string) (c *cluster, file string, nodes []*node) {
	t.Helper()
	c = embedded(t, n)
	file = filepath.Join(t.TempDir(), "file")
	c.line = runsUntil(file)
	c.flags = append(c.flags, "--nnodes", strconv.Itoa(n))
	c.flags = append(c.flags, flags...)
	nodes = append(nodes, c.start(0))
	c.joined(nodes...)
	for i := 1; i < n; i++ {
		nodes = append(nodes, c.start(i))
	}
	for _, n := range nodes {
		n.prints("begun\n")
	}
	pause(t, time.Second) // all have said that they started
	return c, file, nodes
}

func TestALostNodeIsNamedByTheOthersLongAfterTheStart(t *testing.T) {
	t.Parallel()
	c, file, nodes := commandsRun(t, 3, "--start-timeout", "1s")
	pause(t, 2*time.Second)
	at := time.Now()
	c.lab.Hosts[2].Cut() // the power fails
	if err := c.lab.Hosts[2].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nodes[2].exits(137)
	for _, n := range nodes[:2] {
		n.says("was lost")
		if took := time.Since(at); took > lossLimit {
			t.Errorf("%s says it after %s", n.name, took)
		}
	}
	end(t, file)
	for _, n := range nodes[:2] {
		n.exits(0)
	}
}

func TestTheStoreHostsLossIsNamedAndItsEndIsNot(t *testing.T) {
	t.Parallel()
	t.Run("loss", func(t *testing.T) {
		t.Parallel()
		c, file, nodes := commandsRun(t, 3)
		at := time.Now()
		c.lab.Hosts[0].Cut()
		for _, n := range nodes[1:] {
			n.says("the node that hosts the store (")
			n.says("), or the network to it, was lost")
			if took := time.Since(at); took > lossLimit {
				t.Errorf("%s says it after %s", n.name, took)
			}
		}
		nodes[0].says("eth0 has no link")
		end(t, file)
		for _, n := range nodes {
			n.exits(0)
		}
	})
	t.Run("end", func(t *testing.T) {
		t.Parallel()
		c, file, nodes := commandsRun(t, 3)
		hold := filepath.Join(c.lab.Hosts[1].TempDir(), "hold")
		c.lab.MayLeave("hold")
		end(t, hold)
		end(t, file)
		nodes[0].exits(0)
		nodes[2].exits(0)
		pause(t, 20*time.Second) // longer than a lease
		if text := nodes[1].err.String(); strings.Contains(text, "lost") {
			t.Errorf("the others ended well, but: %s", text)
		}
		_ = nodes[1].cmd.Process.Signal(syscall.SIGTERM)
	})
}

func TestANodeThatLosesItsAddressSaysSo(t *testing.T) {
	t.Parallel()
	c, file, nodes := commandsRun(t, 2)
	at := time.Now()
	c.lab.Hosts[1].Run("", "ip", "addr", "add", "10.77.0.99/24", "dev", "eth0") // a server of DHCP has another one for it
	c.lab.Hosts[1].Run("", "ip", "addr", "del", "10.77.0.2/24", "dev", "eth0")
	nodes[1].says("this node's address 10.77.0.2 is gone")
	nodes[0].says("was lost")
	if took := time.Since(at); took > lossLimit {
		t.Errorf("they say it after %s", took)
	}
	end(t, file)
	for _, n := range nodes {
		n.exits(0)
	}
}

// TestANodeWhoseAddressAnotherMachineTakesSaysSo: that machine is a node itself.
func TestANodeWhoseAddressAnotherMachineTakesSaysSo(t *testing.T) {
	t.Parallel()
	c, file, nodes := commandsRun(t, 3)
	at, thief := time.Now(), c.lab.Hosts[2]
	thief.Filter("input", "ip daddr 10.77.0.2 tcp dport 1-65535 drop")
	thief.Run("", "ip", "addr", "add", "10.77.0.2/24", "dev", "eth0")
	thief.Run("", "ip", "neigh", "flush", "dev", "eth0") // it asks for host0's address from this one
	thief.Run("", "python3", "-c", "import socket; s = socket.socket(type=socket.SOCK_DGRAM); "+
		"s.bind(('10.77.0.2', 0)); s.sendto(b'', ('10.77.0.1', 9))")
	nodes[1].says("has this node's address 10.77.0.2, too")
	if took := time.Since(at); took > lossLimit {
		t.Errorf("it says it after %s", took)
	}
	nodes[0].says("was lost")
	thief.Run("", "ip", "addr", "del", "10.77.0.2/24", "dev", "eth0")
	end(t, file)
	for _, n := range nodes {
		n.exits(0)
	}
}

func TestFailFastEndsTheCommandsWhenANodeIsLost(t *testing.T) {
	t.Parallel()
	c, _, nodes := commandsRun(t, 3, "--fail-fast")
	at := time.Now()
	c.lab.Hosts[2].Cut()
	for _, n := range nodes {
		n.exits(143)
		n.says("ending the command: --fail-fast")
		if took := time.Since(at); took > lossLimit {
			t.Errorf("%s ended after %s", n.name, took)
		}
	}
}

// A command that failed is named where the others still run, also that of the store's host.
func TestANodeWhoseCommandFailedIsNamedWhereTheOthersStillRun(t *testing.T) {
	t.Parallel()
	for rank, name := range []string{"the store's host", "another node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := embedded(t, 3)
			fails, file := filepath.Join(t.TempDir(), "fails"), filepath.Join(t.TempDir(), "file")
			c.line = failsOrEnds(fails, file)
			c.flags = []string{"--nnodes", "3"}
			nodes := []*node{c.start(0, "--node-rank", "0")}
			c.joined(nodes...)
			nodes = append(nodes, c.start(1, "--node-rank", "1"), c.start(2, "--node-rank", "2", "--fail-fast"))
			for _, n := range nodes {
				n.prints("begun\n")
			}
			pause(t, time.Second) // all have said that they started
			end(t, fails+strconv.Itoa(rank))
			nodes[rank].exits(3)
			nodes[2].says("failed: its command ended with 3 (seen at")
			nodes[2].exits(143)
			other := nodes[1-rank]
			other.says("rank " + strconv.Itoa(rank) + ", ")
			other.says("failed: its command ended with 3 (seen at")
			end(t, file)
			other.exits(0)
		})
	}
}

// All nodes fail within a second: the others say which was first. Nothing is said of SIGTERM to all.
func TestWhichNodeFailedFirstIsSaidWhereAllFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, first, says string }{
		{"a failure", "exit 3", "(10.77.0.2) ended with 3 at "},
		{"a signal", "kill -KILL $$", "(10.77.0.2) ended with 137 (killed) at "},
		{"too few steps", "exit 0", "(10.77.0.2) ended with 0 at "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := embedded(t, 3)
			file := filepath.Join(t.TempDir(), "file")
			c.line = []string{"sh", "-c", "echo begun; while [ ! -e " + file + " ]; do sleep 0.05; done; " +
				"[ $RANK = 1 ] && " + tt.first + "; sleep 1.1; exit 1"} // less than failGrace
			c.flags = []string{"--nnodes", "3"}
			nodes := []*node{c.start(0)}
			c.joined(nodes...)
			nodes = append(nodes, c.start(1, "--node-rank", "1"), c.start(2))
			for _, n := range nodes {
				n.prints("begun\n")
			}
			pause(t, time.Second)
			end(t, file)
			for _, n := range []*node{nodes[0], nodes[2]} {
				n.exits(1)
				n.says(tt.says)
				n.says(", before this node's command failed")
			}
			nodes[1].ends()
			if strings.Contains(nodes[1].err.String(), "before this node's") {
				t.Error("the first one blames another node")
			}
		})
	}
}

func TestNodesThatAreAllEndedByTermBlameNoOther(t *testing.T) {
	t.Parallel()
	_, _, nodes := commandsRun(t, 3)
	for _, n := range nodes { // the command alone, as a scheduler does: its companion is in a session of its own
		if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.exits(143)
		if text := n.err.String(); strings.Contains(text, "node.failed") || strings.Contains(text, "node.ended") {
			t.Errorf("%s says %q", n.name, text)
		}
	}
}

// torchrunsRun starts two nodes whose torchruns have two ranks each. The script prints that it has begun.
func torchrunsRun(t *testing.T, text string) (c *cluster, nodes []*node) {
	t.Helper()
	c = withTorch(t, 2, programs.AnyTorch(t))
	script := filepath.Join(t.TempDir(), "script.py")
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.line = []string{"torchrun", "--nnodes", "2", "--nproc_per_node", "2", script}
	c.lab.MayLeave("launch-store-*")
	nodes = []*node{c.start(0, "--node-rank", "0"), c.start(1, "--node-rank", "1")}
	for _, n := range nodes {
		n.prints("begun\n")
	}
	pause(t, 3*time.Second) // the companions have found the ranks
	return c, nodes
}

// torchrun ends with 1 where its ranks ended by SIGTERM.
func TestTorchrunsThatAreAllEndedByTermBlameNoOther(t *testing.T) {
	text := "import time\nprint('begun', flush=True)\ntime.sleep(60)\n"
	_, nodes := torchrunsRun(t, text)
	for _, n := range nodes { // the command alone, as a scheduler does: its companion is in a session of its own
		if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		status := n.ends()
		if text := n.err.String(); strings.Contains(text, "node.failed") || strings.Contains(text, "node.ended") {
			t.Errorf("%s ended with %d and says %q", n.name, status, text)
		}
	}
}

// Where launch becomes the first process of a container, its companion ends with torchrun: it says at the end of a rank
// which one failed first.
func TestInAContainerWhichNodeFailedFirstIsSaidInTime(t *testing.T) {
	_, nodes, file := containersRun(t)
	end(t, file)
	for _, n := range nodes {
		n.exits(1)
	}
	nodes[0].says("(10.77.0.2) ended with 134 (aborted) at ")
	if strings.Contains(nodes[1].err.String(), "node.failed") {
		t.Errorf("the first one blames another node: %s", nodes[1].err.String())
	}
}

// A machine that was restarted resets the connections of the others, and has reported nothing.
func TestInAContainerANodeThatVanishedIsNamed(t *testing.T) {
	c, nodes, file := containersRun(t)
	if err := c.lab.Hosts[1].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end(t, file)
	nodes[0].says("(10.77.0.2): its machine answers, and launch has ended there without a report") // torch 1.13 waits on
}

// containersRun starts two nodes, each in a container of its own. The script fails once the file is there: on node rank
// 1 at once, by a signal.
func containersRun(t *testing.T) (c *cluster, nodes []*node, file string) {
	t.Helper()
	c = withTorch(t, 2, programs.AnyTorch(t))
	dir := t.TempDir()
	script, file := filepath.Join(dir, "script.py"), filepath.Join(dir, "file")
	text := fmt.Sprintf("import os, time\nprint('begun', flush=True)\nwhile not os.path.exists(%q): time.sleep(0.05)\n"+
		"if os.environ['RANK'] == '1': os.abort()\ntime.sleep(0.7)\nraise SystemExit(1)\n", file)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.lab.MayLeave("launch-store-*")
	nodes = make([]*node, 2)
	for i := range nodes {
		nodes[i] = c.startBare(i, append(strings.Fields("unshare --pid --fork --kill-child --mount-proc"), tools.launch,
			"--store", c.store, "--node-rank", strconv.Itoa(i), "torchrun", "--nnodes", "2", script))
	}
	for _, n := range nodes {
		n.prints("begun\n")
	}
	pause(t, 3*time.Second) // the companions have found the ranks
	return c, nodes, file
}

// failsOrEnds is a command that fails where the first file with its rank exists, and ends with the second.
func failsOrEnds(fails, file string) []string {
	return []string{"sh", "-c", "echo begun; while [ ! -e " + file + " ]; do [ -e " + fails +
		"$RANK ] && exit 3; sleep 0.1; done"}
}

// The store's host is killed and its line is not typed again: a command that runs goes on, and a node
// whose command failed waits for as long as --join-timeout. Both say so once.
func TestWithRestartsALostStoreIsWaitedForWithALimit(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	fails, file := filepath.Join(t.TempDir(), "fails"), filepath.Join(t.TempDir(), "file")
	c.line = failsOrEnds(fails, file)
	c.lab.MayLeave("launch-store-*")
	c.flags = []string{"--join-timeout", "15s", "--nnodes", "3", "--restarts", "1"}
	host := c.start(0, "--node-rank", "0")
	c.joined(host)
	failed, runs := c.start(1, "--node-rank", "1"), c.start(2, "--node-rank", "2")
	for _, n := range []*node{host, failed, runs} {
		n.prints("begun\n")
	}
	if err := c.lab.Hosts[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	host.exits(137)
	for _, n := range []*node{failed, runs} {
		n.says("the store is lost")
		n.says("start the same line on host0 again")
	}
	pause(t, 5*time.Second)
	at := time.Now()
	end(t, fails+"1")
	failed.says("the command ended on this node with 3; waiting for the store until")
	failed.exits(69)
	if took := time.Since(at); took > 40*time.Second {
		t.Errorf("it waited %s", took)
	}
	pause(t, 3*time.Second)
	if n := strings.Count(runs.err.String(), "the store is lost"); n != 1 {
		t.Errorf("it says %d times that the store is lost", n)
	}
	end(t, file)
	runs.exits(0)
}

// torchrun gives the other ranks of a node 30 s to end after one has failed.
func TestARankThatFailedUnderARunningTorchrunIsNamed(t *testing.T) {
	fails := filepath.Join(t.TempDir(), "fails")
	text := fmt.Sprintf(`import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank = os.environ["RANK"]
print("begun", flush=True)
while True:
    if rank == "1" and os.path.exists(%q):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
`, fails)
	c, nodes := torchrunsRun(t, text)
	at := time.Now()
	end(t, fails)
	nodes[0].says("rank 1 of this node ended with status 137 at ")
	nodes[0].says(", and torchrun has not ended")
	if took := time.Since(at); took > 20*time.Second {
		t.Errorf("it was said after %s", took)
	}
	for _, h := range c.lab.Hosts {
		if err := h.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(nodes[1].err.String(), "of this node ended") {
		t.Error("the healthy node names a rank of its own")
	}
}
