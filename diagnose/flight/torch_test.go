package flight

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"launch/diagnose/verdict"
	"launch/lab/programs"
)

// The dumps of the torch that is installed are read: one rank of two does not call the last all_reduce.
func TestDumpsOfThisTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a job of torch")
	}
	python, dir := programs.CurrentTorch(t).Python, t.TempDir()
	var ranks []*exec.Cmd
	for rank := range 2 {
		c := exec.CommandContext(t.Context(), python, "testdata/train.py", "behind", fmt.Sprint(rank), "2", dir)
		c.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=", "GLOO_SOCKET_IFNAME=lo")
		c.Stderr, c.WaitDelay = os.Stderr, time.Second
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, c)
	}
	for _, c := range ranks {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := Gather([]string{dir})
	all := s.Judge()
	if len(s.Dumps) != 2 || len(s.Gaps) != 0 || len(all) != 1 || all[0].Cause != "rank.left" ||
		all[0].Sure != verdict.Certain || !slices.Equal(all[0].Ranks, []int{1}) {
		t.Errorf("%d dumps, gaps %v: %+v", len(s.Dumps), s.Gaps, all)
	}
}
