package mpi

import (
	"slices"
	"testing"
	"time"
)

// The rest is what 64 logins by ssh cost on two cores; a run by hand measures it.
func TestSixtyFourHostsHaveAVerdict(t *testing.T) {
	if !slices.Contains(asked, "64") {
		t.Skip("starts 64 hosts: LAUNCH_MPIBENCH=64")
	}
	for _, mpi := range Each {
		t.Run(dashed(mpi), func(t *testing.T) {
			began := time.Now()
			tr := newTrial(t, mpi, 64)
			t.Logf("up after %.1f s", time.Since(began).Seconds())
			for _, side := range sides() {
				o := tr.run(side, 3*time.Minute)
				record(t, "64 hosts", mpi, side, result{outcome: o, Whole: o.whole(64)})
				t.Logf("%s: %.1f s, exit %d, whole %v\n%s", side, o.Seconds, o.Exit, o.whole(64), o.Said)
				if !o.whole(64) {
					t.Errorf("%s: the job has not run", side)
				}
			}
			tr.Hosts[63].Sh("kill -STOP $(cat /run/sshd.pid)")
			o := tr.run(launchSide, time.Minute)
			t.Logf("with a host that does not answer: %.1f s, exit %d\n%s", o.Seconds, o.Exit, o.Said)
			if !mentions(o.Said, "host63") || o.Cut {
				t.Error("host63 is not named")
			}
		})
	}
}

func TestSixtyFourHostsAreChecked(t *testing.T) {
	if !slices.Contains(asked, "64") {
		t.Skip("starts 64 hosts: LAUNCH_MPIBENCH=64")
	}
	for _, mpi := range Each {
		t.Run(dashed(mpi), func(t *testing.T) {
			tr := newTrial(t, mpi, 64)
			var all []float64
			for range 5 {
				o := tr.run(checkSide, time.Minute)
				if o.Exit != 0 {
					t.Errorf("the hosts are sound:\n%s", o.Said)
				}
				all = append(all, o.Seconds)
			}
			slices.Sort(all)
			t.Logf("launch check --: %.1f s, %.1f to %.1f", all[2], all[0], all[4])
		})
	}
}
