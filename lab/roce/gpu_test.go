package roce

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"launch/fabric/verbs"
)

// standInCUDA builds a libcuda whose GPU has memory of the process itself: these
// machines have no card, but handle its memory in the same way.
func standInCUDA(dir string) (string, error) {
	lib := filepath.Join(dir, "libcuda.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-DPLAIN", "-o", lib,
		"../../fabric/verbs/testdata/cuda.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build a libcuda: %w\n%s", err, out)
	}
	return lib, nil
}

// onGPU returns a test in the memory of that GPU. rxe accepts no DMA-BUF, so peermem says
// whether the memory is accessible by its address.
func onGPU(peermem bool) verbs.Test {
	return with(small, func(t *verbs.Test) {
		noPings(t)
		t.GPU = &verbs.GPU{PCI: "0000:1b:00.0", Peermem: peermem}
	})
}

func noPings(t *verbs.Test) { t.PingSizes = nil }

func TestMemoryOfAGPUGoesOverTheWire(t *testing.T) {
	for name, want := range map[string][2]string{"memory of a GPU": {"peermem", "peermem"},
		"memory of one GPU": {"", "peermem"}} {
		s, c := both(t, name)
		if s.Run == nil || c.Run == nil || s.Err != nil || c.Err != nil {
			t.Fatalf("server %s\nclient %s", show(s), show(c))
		}
		if got := [2]string{s.Run.Local.Memory, c.Run.Local.Memory}; got != want || c.Run.Remote.Memory != want[0] {
			t.Errorf("%s: memory %q, want %q", name, got, want)
		}
		if len(c.Run.Out) != len(small.Sizes) || len(c.Run.Back) != len(small.Sizes) {
			t.Errorf("%s: client %s", name, show(c))
		}
	}
}
