package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"launch/internal/exit"
)

// show is a command that prints its ranks and the master address.
const show = "echo task $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on node $NODE_RANK, master at " +
	"$MASTER_ADDR:$MASTER_PORT"

// step is a Slurm step as its tasks see it: nodes n1, n2, … with their tasks.
type step struct {
	id  int // of the job, different in each test
	per []int
}

func newStep(t *testing.T, per ...int) step {
	port, _ := strconv.Atoi(freePort(t)) // unique while the test runs
	return step{os.Getpid()<<16 | port, per}
}

// task starts launch as Slurm starts task number local on a node.
func (s step) task(t *testing.T, node, local int, args ...string) *node {
	t.Helper()
	return startIn(t, s.env(node, local), args...)
}

func (s step) env(node, local int) []string {
	rank, per := local, make([]string, len(s.per))
	for i, n := range s.per {
		per[i] = strconv.Itoa(n)
		if i < node {
			rank += n
		}
	}
	return []string{
		fmt.Sprintf("SLURM_JOB_ID=%d", s.id), "SLURM_STEP_ID=0", fmt.Sprintf("SLURM_STEP_NODELIST=n[1-%d]", len(s.per)),
		fmt.Sprintf("SLURM_STEP_NUM_NODES=%d", len(s.per)), "SLURM_STEP_TASKS_PER_NODE=" + strings.Join(per, ","),
		fmt.Sprintf("SLURM_NODEID=%d", node), fmt.Sprintf("SLURMD_NODENAME=n%d", node+1),
		fmt.Sprintf("SLURM_PROCID=%d", rank), fmt.Sprintf("SLURM_LOCALID=%d", local),
	}
}

func TestTasksOfOneNodeStartAsOne(t *testing.T) {
	s := newStep(t, 3)
	var tasks []*node
	for _, local := range []int{2, 1, 0} {
		tasks = append(tasks, s.task(t, 0, local, "sh", "-c", show))
	}
	port := ""
	for i, n := range tasks {
		n.line(t, fmt.Sprintf("task %d of 3, %d of 3 on node 0, master at 127.0.0.1:", 2-i, 2-i))
		if len(n.seen) != 1 {
			t.Errorf("launch printed something: %q", n.seen)
		}
		_, p, _ := strings.Cut(n.seen[0], "127.0.0.1:")
		if port != "" && p != port {
			t.Errorf("ports %s and %s", port, p)
		}
		port = p
		if got := n.end(t); got != 0 {
			t.Errorf("ended with %d", got)
		}
	}
}

func TestTasksOfTwoNodesStartAsOne(t *testing.T) {
	s := newStep(t, 2, 1)
	args := []string{"--store", "127.0.0.1:" + freePort(t), "--join-timeout", "20s", "sh", "-c", show}
	follower := s.task(t, 0, 1, args...)
	other := s.task(t, 1, 0, args...)
	first := s.task(t, 0, 0, args...)
	follower.line(t, "task 1 of 3, 1 of 2 on node 0, master at 127.0.0.1:")
	if len(follower.seen) != 1 {
		t.Errorf("the following task printed something: %q", follower.seen)
	}
	_, at, _ := strings.Cut(follower.seen[0], "master at ")
	other.line(t, "task 2 of 3, 0 of 1 on node 1, master at "+at)
	first.line(t, "task 0 of 3, 0 of 2 on node 0, master at "+at)
}

func TestTheTasksOfANodeFailWithItsFirst(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	s := newStep(t, 2)
	follower := s.task(t, 0, 1, "--master-port", taken, "true")
	first := s.task(t, 0, 0, "--master-port", taken, "true")
	follower.line(t, "the first task of this node did not start: ")
	if got := follower.end(t); got != exit.Unfit || len(follower.seen) != 1 {
		t.Errorf("ended with %d, printed %q", got, follower.seen)
	}
	first.line(t, "hint:")
	if got := first.end(t); got != exit.Unfit {
		t.Errorf("the first ended with %d", got)
	}
}

func TestAnErrorOfAllTasksIsExplainedOnce(t *testing.T) {
	for want, line := range map[int][]string{exit.Config: {"torchrun", "t.py"}, exit.NotFound: {"no-such-command"}} {
		s := newStep(t, 2)
		first, follower := s.task(t, 0, 0, line...), s.task(t, 0, 1, line...)
		for _, n := range []*node{first, follower} {
			n.line(t, "launch: error: ")
			if got := n.end(t); got != want {
				t.Errorf("%v ended with %d, want %d", line, got, want)
			}
		}
		if len(follower.seen) != 1 {
			t.Errorf("the following task printed more: %q", follower.seen)
		}
	}
}

// halfway returns the two tasks of a node that waits for another node.
func halfway(t *testing.T) (first, follower *node) {
	s := newStep(t, 2, 1)
	args := []string{"--store", "127.0.0.1:" + freePort(t), "--join-timeout", "20s", "true"}
	first = s.task(t, 0, 0, args...)
	follower = s.task(t, 0, 1, args...)
	first.line(t, "1 of 2 nodes joined") // after all tasks of this node
	return first, follower
}

func TestTheOtherTasksNoticeAKilledFirstTask(t *testing.T) {
	first, follower := halfway(t)
	_ = first.Process.Kill()
	follower.line(t, "the first task of this node ended without a result")
	if got := follower.end(t); got != exit.Unreachable {
		t.Errorf("ended with %d", got)
	}
}

func TestAFollowingTaskCanBeInterrupted(t *testing.T) {
	first, follower := halfway(t)
	_ = follower.Process.Signal(syscall.SIGINT)
	follower.line(t, "interrupted before the command ran")
	if got := follower.end(t); got != 130 {
		t.Errorf("ended with %d", got)
	}
	_ = first.Process.Signal(syscall.SIGTERM)
	first.line(t, "terminated before the command ran")
	if got := first.end(t); got != 143 {
		t.Errorf("the first ended with %d", got)
	}
}

func TestAnInterruptedFirstTaskEndsTheOthers(t *testing.T) {
	first, follower := halfway(t)
	_ = first.Process.Signal(syscall.SIGTERM)
	follower.line(t, "the first task of this node did not start: terminated")
	if got := follower.end(t); got != 143 {
		t.Errorf("ended with %d", got)
	}
}

func TestAMissingTaskKeepsTheOthersFromStarting(t *testing.T) {
	t.Parallel() // it waits
	s := newStep(t, 3)
	first := s.task(t, 0, 0, "echo", "at work")
	follower := s.task(t, 0, 2, "echo", "at work")
	first.line(t, "waiting for task number 1 of this node")
	first.line(t, "this node has 3 tasks")
	follower.line(t, "the first task of this node did not start: this node has 3 tasks")
	for _, n := range []*node{first, follower} {
		if got := n.end(t); got != exit.Missing {
			t.Errorf("ended with %d: %q", got, n.seen)
		}
		if slices.Contains(n.seen, "at work") {
			t.Error("the command ran")
		}
	}
}

// TestMpirun runs launch below a real mpirun.
func TestMpirun(t *testing.T) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("needs Open MPI (package openmpi-bin)")
	}
	c := launched(t)
	self := filepath.Join(t.TempDir(), "launch")
	if err := os.Symlink(c.Path, self); err != nil {
		t.Fatal(err)
	}
	c.Path, c.Args = mpirun, []string{"mpirun", "--oversubscribe", "-np", "4", self, "sh", "-c", show}
	c.Env = append(c.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	for i, l := range lines {
		want := fmt.Sprintf("task %d of 4, %d of 4 on node 0, master at %s", i, i,
			lines[0][strings.Index(lines[0], "127.0.0.1:"):])
		if l != want {
			t.Errorf("%q, want %q", l, want)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines", len(lines))
	}
}
