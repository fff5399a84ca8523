//go:build linux && cgo && !nonvml

package gpu

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"launch/internal/child"
)

// limit is far more than a library needs that reads its answers from a file.
const limit = 20 * time.Second

// compile builds testdata/nvml.c once for all tests; the object it returns can
// become libraries that export less.
func compile(t *testing.T) (object string) {
	t.Helper()
	compiler := cmp.Or(os.Getenv("CC"), "gcc")
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("no C compiler to build an NVML with: %v", err)
	}
	header, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		t.Skipf("nvml.h cannot be found: %v", err)
	}
	object = filepath.Join(t.TempDir(), "nvml.o")
	run(t, compiler, "-c", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-deprecated-declarations",
		"-DNVML_NO_UNVERSIONED_FUNC_DEFS",
		"-I", strings.TrimSpace(string(header)), "-o", object, filepath.Join("testdata", "nvml.c"))
	return object
}

// library makes a libnvidia-ml.so.1 that does not export the hidden functions, like an
// older driver's.
func library(t *testing.T, object string, hidden ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "{ global: nvml*; local: *; };"
	if len(hidden) > 0 {
		script = "{ global: nvml*; local: " + strings.Join(hidden, "; ") + "; };"
	}
	exports := filepath.Join(dir, "exports")
	if err := os.WriteFile(exports, []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	run(t, cmp.Or(os.Getenv("CC"), "gcc"), "-shared", "-Wl,--version-script="+exports, "-o",
		filepath.Join(dir, "libnvidia-ml.so.1"), object)
	return dir
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// answers asks a machine with the library in dir, in a child as in production. The
// lines precede base's, so they win.
func answers(t *testing.T, dir, base string, lines ...string) (Facts, error) {
	t.Helper()
	return answersTo(t, Question{}, dir, base, lines...)
}

// answersTo is answers for a question of its own.
func answersTo(t *testing.T, q Question, dir, base string, lines ...string) (Facts, error) {
	t.Helper()
	text := strings.Join(lines, "\n") + "\n" + base
	if err := os.WriteFile(filepath.Join(dir, "machine.txt"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	var f Facts
	err := child.Ask(t.Context(), "gpu", q, &f, limit)
	return f, err
}

func h100x8(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "h100x8.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A file that is not an NVML must not crash launch.
func TestAnInvalidLibraryIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libnvidia-ml.so.1"), []byte("not a library"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	var f Facts
	if err := child.Ask(t.Context(), "gpu", nil, &f, limit); err != nil || f.Present || f.Err == "" {
		t.Errorf("facts = %+v, %v, want an error in them", f, err)
	}
}
