package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// launch status after a cut: which node is lost, and where the store is not reached, why, as far as this node sees it.
func TestStatusAfterACut(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	c.lab.MayLeave("launch-store-*") // its host is killed
	c.flags = append(c.flags, "--nnodes", "3")
	c.line = []string{"sh", "-c", "echo begun; exec sleep 300"}
	nodes := []*node{c.start(0), c.start(1), c.start(2)}
	for _, n := range nodes {
		n.prints("begun")
	}
	status := func(host, want int, text ...string) {
		t.Helper()
		said := ""
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
			s := c.startBare(host, []string{tools.launch, "status", "--store", "host0"})
			got := s.ends()
			said = s.out.String() + s.err.String()
			missing := ""
			for _, one := range text {
				if flat := strings.Join(strings.Fields(said), " "); !strings.Contains(flat, one) {
					missing = one
				}
			}
			if got == want && missing == "" {
				return
			}
		}
		t.Errorf("on host%d, never %d with %q; last:\n%s", host, want, text, said)
	}
	status(2, 0, "all 3 nodes have started")
	c.lab.Hosts[1].Cut()
	status(1, 69, "the reason is on this node: eth0 of this node", "has no link", "launch doctor # on a node of the job")
	status(2, 0, "start.lost", "lost: node rank ")
	c.lab.Hosts[1].Heal()
	if err := c.lab.Hosts[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status(2, 69, "nothing listens at host0:")
	c.lab.Hosts[0].Cut()
	status(2, 69, "nothing answers at host0: that host is lost, or this node is cut off from it",
		"launch status --store host0 # on another node")
}

// While launch waits for the name of the store's host, launch doctor says so.
func TestDoctorSaysWhichNameIsAwaited(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	c.store = "nohost"
	c.flags = append(c.flags, "--nnodes", "2")
	n := c.start(1)
	n.says("does not resolve yet")
	a, status := c.doctor(1)
	why := a.Answers[0].Why
	if status != 1 || len(why) != 1 || why[0].Cause != "store.name" || why[0].Since.IsZero() ||
		!strings.Contains(why[0].Says, "it waits for the name nohost of the store's host, until ") ||
		!strings.Contains(why[0].Do, "getent hosts nohost") {
		t.Errorf("with %d: %+v", status, a.Answers)
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.exits(143)
}
