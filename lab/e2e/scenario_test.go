package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"launch/lab/programs"
)

// late returns how long the late node is late: a minute if LAUNCH_TEST_FULL is set,
// else longer than every start-up takes.
func late() time.Duration {
	if programs.Full() {
		return 60 * time.Second
	}
	return 8 * time.Second
}

// pause waits where time itself is the subject, such as lateness.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

func TestThreeHostsTrain(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		trained(c.t, 2, c.start(0), c.start(1), c.start(2))
	})
}

func TestTheNodeEndsWithTheCommandsExitStatus(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	argv := append([]string{tools.launch, "--store", c.store}, c.line...)
	a, b := c.startBare(0, argv, "FAKE_EXIT=7"), c.startBare(1, argv)
	a.exits(7)
	b.exits(0)
}

func TestOneNodeNeverJoins(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		c.flags = []string{"--join-timeout", short}
		nodes := []*node{c.start(0, "--node-rank", "0"), c.start(1, "--node-rank", "1")}
		for _, n := range nodes {
			n.exits(75)
			n.quiet()
			n.says("missing: node 2")
		}
	})
}

// The store ends with its host, whose time runs out first.
func TestTheMissingNodeIsNamedAfterTheStoreHasEnded(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	c.flags = []string{"--join-timeout", short}
	a := c.start(0, "--node-rank", "0")
	pause(t, 2*time.Second)
	b := c.start(1, "--node-rank", "1")
	a.exits(75)
	b.exits(75)
	b.says("missing: node 2")
}

func TestOneNodeJoinsLate(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		a, b := c.start(0), c.start(1)
		c.joined(a, b)
		pause(c.t, late())
		trained(c.t, 2, a, b, c.start(2))
	})
}

func TestOneNodeIsInterruptedWhileWaiting(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"ctrl-c": syscall.SIGINT, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, 3, func(c *cluster) {
				a, b := c.start(0), c.start(1)
				c.joined(a, b)
				if err := b.cmd.Process.Signal(sig); err != nil {
					c.t.Fatal(err)
				}
				b.exits(128 + int(sig))
				b.quiet()
				a.says(c.lab.Hosts[1].Addr) // the node that left
				trained(c.t, 2, a, c.start(1), c.start(2))
			})
		})
	}
}

func TestOneNodeIsKilledBeforeTheStart(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		a, b := c.start(0), c.start(1)
		c.joined(a, b)
		if err := c.lab.Hosts[1].Signal(syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
		b.exits(137)
		// It starts again at once, while its former process still holds a lease.
		trained(c.t, 2, a, c.start(1), c.start(2))
	})
}

func TestTwoHostsTypeTheSameIndex(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		a, b := c.start(0, "--node-rank", "0"), c.start(1, "--node-rank", "1")
		c.joined(a, b)
		twin := c.start(2, "--node-rank", "1")
		twin.exits(73)
		twin.quiet()
		twin.says(c.lab.Hosts[1].Addr) // the node that holds the index
		trained(c.t, 2, a, b, c.start(2, "--node-rank", "2"))
	})
}

func TestTheStoreHostStartsLast(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	b, d := c.start(1), c.start(2)
	pause(t, 3*time.Second)
	trained(t, 2, c.start(0), b, d)
}

func TestTheStoreHostDiesAndReturns(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	a, b := c.start(0), c.start(1)
	c.joined(a, b)
	if err := c.lab.Hosts[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.exits(137)
	removeAll(t, c.lab.Hosts[0].TempDir()) // a reboot empties it
	trained(t, 2, c.start(0), b, c.start(2))
}

func TestNodesWaitForACutCableBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	a, b := c.start(0), c.start(1)
	c.joined(a, b)
	c.lab.Hosts[1].Cut()
	pause(t, 2*time.Second)
	c.lab.Hosts[1].Heal()
	trained(t, 2, a, b, c.start(2))
}

func TestTheCommandIsMissingOnOneNode(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		a, b := c.start(0), c.start(1)
		c.joined(a, b)
		good := c.path
		c.path = "/usr/sbin:/usr/bin:/sbin:/bin"
		bad := c.startLine(2, append([]string{"torchrun-of-nowhere"}, c.line[1:]...), "--nnodes", "3")
		bad.exits(127)
		bad.quiet()
		a.quiet()
		b.quiet()
		c.path = good
		trained(c.t, 2, a, b, c.start(2))
	})
}

func TestNodesOnOneMachineStart(t *testing.T) {
	t.Parallel()
	c := embedded(t, 1)
	c.line = []string{"torchrun", "--nnodes", "3", "--nproc-per-node", "2", trainPy(t)}
	trained(t, 2, c.start(0), c.start(0), c.start(0))
}

func removeAll(t *testing.T, dir string) {
	t.Helper()
	inside, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range inside {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
}
