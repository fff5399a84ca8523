package verbs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
)

// The children of these tests, in addition to confine's.
const (
	askChild   = "ask"
	pairChild  = "pair"
	cycleChild = "cycle"
)

func TestMain(m *testing.M) {
	table := confine.Children()
	table[askChild] = verbs.Child
	table[pairChild] = pairAnswer
	table[cycleChild] = cycleAnswer
	if code, isChild := child.Dispatch(table); isChild {
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "launch-verbs")
	if err == nil {
		err = os.Setenv(varFake, dir)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// varFake names the folder of these tests' library.
const varFake = "LAUNCH_TEST_VERBS"

// fakeLibraries are testdata/fake.c and testdata/cuda.c, built once.
var fakeLibraries = sync.OnceValues(func() ([]string, error) {
	dir := os.Getenv(varFake)
	versions := filepath.Join(dir, "versions")
	if err := os.WriteFile(versions, []byte("IBVERBS_1.1 { global: ibv_*; local: *; };\nIBVERBS_1.11 { global: _ibv_*; "+
		"} IBVERBS_1.1;\nIBVERBS_1.12 { global: ibv_reg_dmabuf_mr; } IBVERBS_1.11;\n"), 0o644); err != nil {
		return nil, err
	}
	libs := []string{filepath.Join(dir, "libibverbs.so.1"), filepath.Join(dir, "libcuda.so.1")}
	for _, args := range [][]string{{"-Wl,--version-script=" + versions, "-o", libs[0], "testdata/fake.c"},
		{"-o", libs[1], "testdata/cuda.c"}} {
		if out, err := exec.Command(compiler(), append([]string{"-shared", "-fPIC", "-O1", "-Wall"},
			args...)...).CombinedOutput(); err != nil {
			return nil, &verbs.Error{Text: string(out)}
		}
	}
	return libs, nil
})

func compiler() string { return cmp.Or(os.Getenv("CC"), "gcc") }

// fakeGPU is where the GPU of these tests is.
const fakeGPU = "0000:1b:00.0"

// fake makes the children of this test load a libibverbs and a libcuda that are broken
// as mode says.
func fake(t *testing.T, mode string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath(compiler()); err != nil {
		t.Skipf("needs a C compiler for a libibverbs: %v", err)
	}
	libs, err := fakeLibraries()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, lib := range libs {
		if err := os.Symlink(lib, filepath.Join(dir, filepath.Base(lib))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte(mode+" "), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	if _, err := verbs.Devices(); err == verbs.ErrNoCgo {
		t.Skip(err)
	}
	return dir
}

// pair is two ends of one test in one process: with the library of these tests they
// write into each other's memory.
type pair struct {
	Lead, Other verbs.Test
	Limit       time.Duration
}

type pairResult struct {
	Lead, Other       verbs.Result
	LeadErr, OtherErr *verbs.Error
}

func pairAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var p pair
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	there, back := make(chan []byte, 1), make(chan []byte, 1)
	say := func(to chan<- []byte, from <-chan []byte) verbs.Exchange {
		return func(ctx context.Context, mine []byte) ([]byte, error) {
			to <- mine
			select {
			case theirs := <-from:
				return theirs, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	var r pairResult
	var both sync.WaitGroup
	both.Go(func() {
		res, err := verbs.Run(ctx, p.Lead, say(there, back))
		r.Lead, r.LeadErr = res, verbs.AsError(err)
	})
	both.Go(func() {
		res, err := verbs.Run(ctx, p.Other, say(back, there))
		r.Other, r.OtherErr = res, verbs.AsError(err)
	})
	both.Wait()
	return json.NewEncoder(out).Encode(r)
}

// cycleAnswer opens and closes everything for a test, n times.
func cycleAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var n int
	if err := json.NewDecoder(in).Decode(&n); err != nil {
		return err
	}
	for range n {
		if _, err := verbs.Loop(ctx, verbs.Test{Device: "fake0", GID: 1, Sizes: []int{64}, Pings: 1}); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(n)
}

// build runs the compiler for a library with these versions.
func build(t *testing.T, versions string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "versions")
	if err := os.WriteFile(file, []byte(versions), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler(), append([]string{"-Wl,--version-script=" + file},
		args...)...).CombinedOutput(); err != nil {
		t.Fatalf("build a library: %v\n%s", err, out)
	}
}
