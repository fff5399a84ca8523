package verbs_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"launch/internal/child"
)

// cycles builds testdata/cycle.c from the C of this package.
func cycles(t *testing.T, flags ...string) (program string) {
	t.Helper()
	fake(t, "")
	program = filepath.Join(t.TempDir(), "cycle")
	args := append([]string{"-g", "-O1", "-o", program, "testdata/cycle.c", "session.c", "traffic.c", "gpu.c", "shim.c"},
		flags...)
	if out, err := exec.Command(compiler(), append(args, "-ldl")...).CombinedOutput(); err != nil {
		t.Skipf("cannot be built with %q: %v\n%s", flags, err, out)
	}
	return program
}

func TestAThousandCyclesAreCleanUnderValgrind(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skip("needs valgrind: apt-get install valgrind")
	}
	out, err := exec.Command(valgrind, "-q", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
		"--error-exitcode=9", cycles(t), "1000", "fake0", "1", fakeGPU).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAThousandCyclesAreCleanUnderTheAddressSanitizer(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	if out, err := exec.Command(cycles(t, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"), "1000",
		"fake0", "1", fakeGPU).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The same from Go, with its allocations.
func TestAThousandCyclesEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("most of it runs in other processes")
	}
	fake(t, "")
	var n int
	if err := child.Ask(t.Context(), cycleChild, 1000, &n, ample); err != nil || n != 1000 {
		t.Errorf("%d cycles, %v", n, err)
	}
}
