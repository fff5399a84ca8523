package mpi

import (
	"strings"
	"testing"
)

// With --drop-unfit the job runs on the other hosts, where they have slots for all processes.
func TestTheOtherHostsRunTheJob(t *testing.T) {
	for _, mpi := range Each {
		t.Run(dashed(mpi), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, mpi, 3)
			tr.Hosts[1].Sh("rm " + Job + "/world")
			tr.line = append([]string{"--drop-unfit"}, tr.line...)
			full := tr.run(launchSide, plainLimit)
			if full.Exit != 65 || !strings.Contains(said(full), "--drop-unfit cannot leave host1 out: 3 processes, and "+
				"the others have 2 slots") {
				t.Errorf("three processes on two hosts: exit %d\n%s", full.Exit, full.Said)
			}
			tr.ranks(2)
			o := tr.run(launchSide, plainLimit)
			if o.Exit != 0 || !o.whole(2) || !strings.Contains(said(o), "without host1: the job runs on the other 2 hosts") {
				t.Errorf("two processes on two hosts: exit %d\n%s", o.Exit, o.Said)
			}
			if left := tr.remains(grace); left != "" {
				t.Errorf("left on the hosts:\n%s", left)
			}
		})
	}
}

// said returns what a start has printed, in one line.
func said(o outcome) string { return strings.Join(strings.Fields(o.Said), " ") }

// The hosts are measured with each other before mpirun starts, where that is asked for.
func TestTheHostsOfMpirunAreMeasured(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "Open MPI 5.0", 3)
	tr.line = append([]string{"--bench", "short"}, tr.line...)
	o := tr.run(launchSide, plainLimit)
	t.Logf("%.1f s\n%s", o.Seconds, o.Said)
	// On a busy machine a path may count as slow, which is a warning.
	if o.Exit != 0 || !o.whole(3) || !strings.Contains(o.Said, "pairs of ports measured") ||
		strings.Contains(o.Said, "nothing is measured") {
		t.Errorf("exit %d\n%s", o.Exit, o.Said)
	}
}
