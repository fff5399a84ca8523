package verbs

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

	"launch/internal/child"
)

// The children of these tests besides the package's own.
const (
	askChild   = "ask"
	pairChild  = "pair"
	cycleChild = "cycle"
)

func TestMain(m *testing.M) {
	table := Children()
	table[askChild] = Child
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

// fakeLibrary is testdata/fake.c, built once.
var fakeLibrary = sync.OnceValues(func() (string, error) {
	dir := os.Getenv(varFake)
	versions := filepath.Join(dir, "versions")
	if err := os.WriteFile(versions, []byte("IBVERBS_1.1 { global: ibv_*; local: *; };\nIBVERBS_1.11 { global: _ibv_*; } IBVERBS_1.1;\n"), 0o644); err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "libibverbs.so.1")
	out, err := exec.Command(compiler(), "-shared", "-fPIC", "-O1", "-Wl,--version-script="+versions, "-o", lib, "testdata/fake.c").CombinedOutput()
	if err != nil {
		err = &Error{Text: string(out)}
	}
	return lib, err
})

func compiler() string { return cmp.Or(os.Getenv("CC"), "gcc") }

// fake has the children of this test load a libibverbs that is as broken as mode
// says.
func fake(t *testing.T, mode string) {
	t.Helper()
	if _, err := exec.LookPath(compiler()); err != nil {
		t.Skipf("needs a C compiler for a libibverbs: %v", err)
	}
	lib, err := fakeLibrary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(lib, filepath.Join(dir, "libibverbs.so.1")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte(mode+" "), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	if _, err := Devices(); err == ErrNoCgo {
		t.Skip(err)
	}
}

// pair is two ends of one test in one process: with the library of these tests
// they write into each other's memory.
type pair struct {
	Lead, Other Test
	Limit       time.Duration
}

type pairResult struct {
	Lead, Other       Result
	LeadErr, OtherErr *Error
}

func pairAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var p pair
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	there, back := make(chan []byte, 1), make(chan []byte, 1)
	say := func(to chan<- []byte, from <-chan []byte) Exchange {
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
		res, err := Run(ctx, p.Lead, say(there, back))
		r.Lead, r.LeadErr = res, asError(err)
	})
	both.Go(func() {
		res, err := Run(ctx, p.Other, say(back, there))
		r.Other, r.OtherErr = res, asError(err)
	})
	both.Wait()
	return json.NewEncoder(out).Encode(r)
}

// cycleAnswer opens all that a test needs and closes it, so many times.
func cycleAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var n int
	if err := json.NewDecoder(in).Decode(&n); err != nil {
		return err
	}
	for range n {
		if _, err := Loop(ctx, LoopTest{Device: "fake0", GID: 1, Sizes: []int{64}, Pings: 1}); err != nil {
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
	if out, err := exec.Command(compiler(), append([]string{"-Wl,--version-script=" + file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("build a library: %v\n%s", err, out)
	}
}
