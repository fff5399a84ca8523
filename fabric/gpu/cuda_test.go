//go:build linux && cgo && !nonvml

package gpu

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"launch/internal/child"
)

func TestWhatCUDASaysWhenItStarts(t *testing.T) {
	cc := cmp.Or(os.Getenv("CC"), "gcc")
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("no C compiler to build a libcuda with: %v", err)
	}
	for name, tt := range map[string]struct {
		source string
		want   int
	}{
		"it starts":         {"int cuInit(unsigned f) { return 0; }", 0},
		"it waits":          {fmt.Sprintf("int cuInit(unsigned f) { return %d; }", NotReady), NotReady},
		"it has no devices": {"int cuInit(unsigned f) { return 100; }", 100},
		"it has no cuInit":  {"int other;", 0},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cuda.c"), []byte(tt.source), 0o666); err != nil {
			t.Fatal(err)
		}
		run(t, cc, "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "cuda.c"))
		t.Setenv("LD_LIBRARY_PATH", dir)
		var got int
		if err := child.Ask(t.Context(), "cuda", nil, &got, limit); err != nil || got != tt.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, tt.want)
		}
	}
}
