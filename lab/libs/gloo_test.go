package libs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"launch/lab/programs"
)

func TestGlooUsesThePlannedInterface(t *testing.T) {
	t.Parallel() // it mostly waits
	python := programs.AnyTorch(t).Python
	script := filepath.Join(repo(t), "lab", "libs", "testdata", "allreduce.py")
	const result = "sum 6"

	t.Run("plain", func(t *testing.T) {
		s := newSite(t, 3, true)
		var runs []*run
		for rank := range 3 {
			env := []string{"MASTER_ADDR=10.77.0.1", "MASTER_PORT=29500", "WORLD_SIZE=3", fmt.Sprint("RANK=", rank)}
			runs = append(runs, s.start(rank, env, python, script))
		}
		s.until("a rank fails at docker0", func() bool {
			for _, r := range runs {
				select {
				case <-r.done:
					return strings.Contains(r.said.String(), decoys)
				default:
				}
			}
			return false
		})
		s.stop()
		for _, r := range runs {
			if s.ends(r) == 0 || strings.Contains(r.said.String(), result) {
				t.Errorf("%s succeeded without launch: the test proves nothing", r.host)
			}
		}
	})
	t.Run("with launch", func(t *testing.T) {
		s := newSite(t, 3, true)
		var runs []*run
		for i := range 3 {
			runs = append(runs, s.start(i, nil, s.launch, "--store", "10.77.0.1", "--nnodes", "3", python, script))
		}
		for _, r := range runs {
			if status := s.ends(r); status != 0 || !strings.Contains(r.said.String(), result) {
				t.Errorf("%s: exit %d; want the sum", r.host, status)
			}
		}
	})
}
