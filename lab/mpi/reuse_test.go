package mpi

import (
	"strings"
	"testing"
)

// A host with the same launch runs that one, and a host with another one under its name does not. No host lets a
// copy be executed.
func TestTheLaunchThatIsThereRunsIfItIsTheSame(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "Open MPI 5.0", 3)
	tr.all("cp " + Job + "/world /usr/local/bin/world")
	tr.line[len(tr.line)-1] = "/usr/local/bin/world"
	for _, h := range tr.Hosts[1:] {
		h.Sh("for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o mode=1777,noexec tmpfs $d; done; " +
			"mount -o remount,noexec /home")
	}
	tr.Hosts[1].Install(tools.launch, "launch")
	tr.Hosts[2].Sh(`printf '#!/bin/sh\necho "$*" >>/tmp/another\n' >/usr/local/bin/launch
chmod 755 /usr/local/bin/launch`)
	o := tr.run(launchSide, plainLimit)
	if o.Exit != 0 || !o.whole(3) {
		t.Fatalf("exit %d\n%s", o.Exit, o.Said)
	}
	flat := strings.Join(strings.Fields(o.Said), " ")
	if !strings.Contains(flat, "warn mpi.copy host2: nothing can be executed") {
		t.Errorf("host2 alone lacks launch:\n%s", o.Said)
	}
	if !strings.Contains(flat, "node 1 host1 (10.77.0.2) (node rank 1): noexec") {
		t.Errorf("host1 has not checked itself:\n%s", o.Said)
	}
	if ran := tr.Hosts[2].Sh("cat /tmp/another 2>/dev/null ||:"); ran != "" {
		t.Errorf("host2 has run another launch: %s", ran)
	}
}
