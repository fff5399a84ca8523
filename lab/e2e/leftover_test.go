package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// runsUntil is a command that prints "begun", waits for a file, and names its rank. On a host with
// the file hold in its TMPDIR it does not end.
func runsUntil(file string) []string {
	return []string{"sh", "-c", "echo begun; while [ ! -e " + file + " ] || [ -e $TMPDIR/hold ]; do sleep 0.1; done; " +
		"echo rank $RANK of $WORLD_SIZE on node $RANK"}
}

// end lets the commands of runsUntil end.
func end(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A node is cut off, a standby node replaces it, and the job ends well. Connected again, the node
// must not take part in the next run of the same job, which lacks a node at that time.
func TestANodeThatWasCutOffOverTheEndOfItsRunDoesNotJoinTheNextOne(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		flags := []string{"--nnodes", "2", "--restarts", "3"}
		c.line = runsUntil(first)
		host := c.start(0, append(flags, "--spares", "1")...)
		c.joined(host)
		cut := c.start(1, append(flags, "--spares", "1")...)
		cut.prints("begun\n")
		standby := c.start(2, append(flags, "--spares", "1")...)
		standby.says("this is a standby node")
		c.lab.Hosts[1].Cut()
		c.lab.MayLeave("hold")
		end(t, filepath.Join(c.lab.Hosts[1].TempDir(), "hold"))
		standby.prints("begun\n")
		end(t, first)
		trained(t, 1, host, standby)

		c.line = runsUntil(second)
		begun := c.start(0, flags...)
		c.joined(begun)
		c.lab.Hosts[1].Heal()
		cut.exits(73)
		cut.says("the run of")
		begun.quiet()
		other := c.start(2, flags...)
		other.prints("begun\n")
		end(t, second)
		trained(t, 1, begun, other)
	})
}

// The store's host dies and comes back with an empty store: the others, which saw its end, go on
// with their run.
func TestNodesGoOnWithTheirRunInAStoreThatWasStartedAgain(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	file := filepath.Join(t.TempDir(), "file")
	c.line = runsUntil(file)
	flags := []string{"--nnodes", "3", "--restarts", "3"}
	host := c.start(0, flags...)
	c.joined(host)
	others := []*node{c.start(1, flags...), c.start(2, flags...)}
	for _, n := range others {
		n.prints("begun\n")
	}
	if err := host.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-host.done
	time.Sleep(12 * time.Second) // longer than the lease
	host = c.start(0, flags...)
	host.prints("begun\n")
	end(t, file)
	trained(t, 1, host, others[0], others[1])
}

// A second run is typed while the first one runs: it waits for the end of the first, whose store
// ends then, and hosts its own.
func TestARunThatWaitsForTheLastOneHostsTheStoreAfterIt(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	c.line = runsUntil(first)
	flags := []string{"--nnodes", "2"}
	host := c.start(0, flags...)
	c.joined(host)
	last := []*node{host, c.start(1, flags...)}
	for _, n := range last {
		n.prints("begun\n")
	}
	c.line = runsUntil(second)
	next := []*node{c.start(0, flags...), c.start(1, flags...)}
	for _, n := range next {
		n.says("still runs on")
	}
	end(t, first)
	trained(t, 1, last...)
	for _, n := range next {
		n.prints("begun\n")
	}
	end(t, second)
	trained(t, 1, next...)
}
