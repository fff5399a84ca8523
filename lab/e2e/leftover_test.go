package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
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

// TestNoLeftoverJoinsTheNextRun runs rounds in which a node is away over the end of its run, and comes back
// at any time of the next one. LAUNCH_TEST_SEED and LAUNCH_TEST_ROUNDS are as in TestOneWorldWhateverFails.
func TestNoLeftoverJoinsTheNextRun(t *testing.T) {
	eachStore(t, 3, func(c *cluster) {
		drawn(c.t, 2, func(t *testing.T, seed uint64) {
			own := *c
			own.t = t
			own.leftover(rand.New(rand.NewPCG(seed, 2)), fmt.Sprintf("leftover-%d", seed))
		})
	})
}

// leftover is one such round.
func (c *cluster) leftover(dice *rand.Rand, job string) {
	t, lab := c.t, c.lab
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	flags := []string{"--job", job, "--nnodes", "2", "--restarts", "3"}
	c.line = runsUntil(first)
	host := c.start(0, append(flags, "--spares", "1")...)
	c.joined(host)
	left := c.start(1, append(flags, "--spares", "1")...)
	left.prints("begun\n")
	standby := c.start(2, append(flags, "--spares", "1")...)
	standby.says("this is a standby node")
	hold := filepath.Join(lab.Hosts[1].TempDir(), "hold")
	lab.MayLeave("hold")
	end(t, hold)
	away, back := lab.Hosts[1].Cut, lab.Hosts[1].Heal
	if dice.IntN(2) == 0 {
		away = func() { _ = lab.Hosts[1].Signal(syscall.SIGSTOP) }
		back = func() { _ = lab.Hosts[1].Signal(syscall.SIGCONT) }
	}
	pause(t, time.Duration(dice.IntN(2000))*time.Millisecond)
	away()
	standby.prints("begun\n")
	end(t, first)
	trained(t, 1, host, standby)

	c.line = runsUntil(second)
	when := dice.IntN(3)
	t.Logf("the node comes back at %d", when)
	if when == 0 { // before the next run
		back()
		pause(t, time.Duration(dice.IntN(3000))*time.Millisecond)
	}
	begun := c.start(0, flags...)
	c.joined(begun)
	if when == 1 { // while that waits
		back()
		pause(t, time.Duration(dice.IntN(3000))*time.Millisecond)
	}
	other := c.start(2, flags...)
	other.prints("begun\n")
	if when == 2 { // while that runs
		back()
	}
	if left.ends() == 0 { // it has heard how its run ended, as a standby node
		left.says("did not need this node")
	} else {
		left.exits(73)
		left.says("the run of")
	}
	if out := left.out.String(); out != "begun\n" {
		t.Errorf("the command of the leftover printed %q", out)
	}
	end(t, second)
	trained(t, 1, begun, other)
	_ = os.Remove(hold)
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

// The companion of a node is suspended for longer than its lease, just as all commands end well: the
// job is over, and nothing runs a second time.
func TestAJobWhoseCommandsEndedWellIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	file := filepath.Join(t.TempDir(), "file")
	c.line = runsUntil(file)
	flags := []string{"--nnodes", "3", "--restarts", "2"}
	nodes := []*node{c.start(0, flags...)}
	c.joined(nodes...)
	nodes = append(nodes, c.start(1, flags...), c.start(2, flags...))
	for _, n := range nodes {
		n.prints("begun\n")
	}
	frozen := companionOf(t, c.lab.Hosts[2], nodes[2])
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	end(t, file)
	pause(t, 14*time.Second)
	if err := syscall.Kill(frozen, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	trained(t, 1, nodes...)
}

// companionOf returns the companion of a launch.
func companionOf(t *testing.T, h *netns.Host, n *node) int {
	t.Helper()
	for _, line := range h.Processes() {
		pid, args, _ := strings.Cut(line, " ")
		if id, err := strconv.Atoi(pid); err == nil && id != n.cmd.Process.Pid && strings.HasPrefix(args, "launch") {
			return id
		}
	}
	t.Fatalf("%s has no companion: %q", n.name, h.Processes())
	return 0
}

// A node dies; the command of another fails at once by that. The node that died is named.
func TestARestartNamesTheNodeThatDied(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	fails := filepath.Join(t.TempDir(), "fails")
	c.line = []string{"sh", "-c", "echo begun; while [ ! -e " + fails + "$RANK ]; do sleep 0.1; done; exit $RANK_FAILS"}
	c.env = append(c.env, "RANK_FAILS=1")
	flags := []string{"--nnodes", "2", "--restarts", "1"}
	host := c.start(0, flags...)
	c.joined(host)
	other := c.start(1, flags...)
	other.prints("begun\n")
	host.prints("begun\n")
	c.lab.Hosts[1].Cut() // the power fails
	if err := c.lab.Hosts[1].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	other.exits(137)
	end(t, fails+"0")
	host.says("starting again on all nodes (restart 1 of 1)")
	host.says("(10.77.0.2) left: it was lost, which is the likely cause of the restart")
	_ = host.cmd.Process.Signal(syscall.SIGINT)
	host.exits(130)
}

// The companion of a node that waits gets SIGTERM: by a cleanup of the machine, or pkill.
func TestACompanionThatIsTerminatedIsNamed(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	for i, waits := range []string{"the store does not answer", "1 of 2 nodes joined"} {
		n := c.start(1 - i)
		n.says(waits)
		if err := syscall.Kill(companionOf(t, c.lab.Hosts[1-i], n), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		n.exits(143)
		n.says("error: the companion process was ended by SIGTERM")
	}
}

// The store's host has lost its launch and its store; the command of the other node still runs. A
// second run is typed: that node names the command, and how to end it.
func TestACommandOfAnEarlierStartIsNamed(t *testing.T) {
	t.Parallel()
	c, file, nodes := commandsRun(t, 2)
	for _, n := range nodes {
		if strings.Contains(n.err.String(), "earlier start") {
			t.Errorf("%s warns in the first start", n.name)
		}
	}
	if err := c.lab.Hosts[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nodes[0].exits(137)
	c.lab.MayLeave("launch-store-*")
	again := []*node{c.start(0), c.start(1)}
	again[1].says("the command of an earlier start of this job still runs here: pid " +
		strconv.Itoa(nodes[1].cmd.Process.Pid) + ", for ")
	again[1].says("kill " + strconv.Itoa(nodes[1].cmd.Process.Pid))
	for _, n := range again {
		n.prints("begun\n")
	}
	if text := again[0].err.String(); strings.Contains(text, "earlier start") {
		t.Errorf("host0 runs no command: %s", text)
	}
	end(t, file)
	nodes[1].exits(0)
	trained(t, 1, again...)
}
