package scene

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Of a container's first process launch's own processes are children: what they do is no work of a rank.
func TestLaunchsOwnProcessesAreNoWorkOfARank(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	child := start(t, cmd)
	stat, err := readStat(procPath(os.Getpid(), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	rank := []*seen{{pid: os.Getpid(), stat: stat}}
	for _, own := range [][]int{nil, {child}} {
		m := sample(t.Context(), rank, own, &gaps{}, &mounts{of: map[uint64]map[int64]string{}}, false)
		if got := slices.Contains(m.children[os.Getpid()], child); got == (own != nil) {
			t.Errorf("own %v: the child counts: %v", own, got)
		}
	}
}
