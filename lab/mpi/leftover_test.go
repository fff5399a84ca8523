package mpi

import (
	"strings"
	"testing"
	"time"
)

// While launch waits for a host that does not answer, it has a shell on the others, and perhaps a copy of itself.
func TestNothingRemainsWhenTheHeadIsKilled(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "Open MPI 5.0", 3)
	tr.drop(sick, "iif eth0")
	tr.Hosts[1].Sh("echo sleep 2 >>/home/user/.bashrc") // so that launch is not at its end yet
	o := tr.run(launchSide, 5*time.Second)
	if !o.Cut {
		t.Fatalf("launch has ended before: exit %d\n%s", o.Exit, o.Said)
	}
	if strings.Contains(o.Said, "a world of ") {
		t.Error("the job has been started")
	}
	if left := tr.remains(grace); left != "" {
		t.Errorf("left on the hosts:\n%s", left)
	}
}
