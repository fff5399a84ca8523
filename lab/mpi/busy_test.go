package mpi

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// busyLoops is the load next to which 64 sound hosts are to be found sound.
const busyLoops = 40

// The head is busy, and so are all hosts, which are on the same machine: none is unfit for that.
func TestSixtyFourHostsAreCheckedNextToOtherWork(t *testing.T) {
	if !slices.Contains(asked, "64-busy") {
		t.Skip("starts 64 hosts and 40 busy loops: LAUNCH_MPIBENCH=64-busy")
	}
	tr := newTrial(t, "Open MPI 5.0", 64)
	for range busyLoops {
		loop := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
	}
	time.Sleep(time.Second)
	for range 2 {
		o := tr.run(checkSide, 6*time.Minute)
		t.Logf("%.1f s, exit %d, busy said %v", o.Seconds, o.Exit, strings.Contains(o.Said, "this host is busy"))
		if o.Exit != 0 {
			t.Errorf("the hosts are sound:\n%s", o.Said)
		}
	}
}
