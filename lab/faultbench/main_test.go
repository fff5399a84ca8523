package faultbench

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tools are the programs under test; TestMain makes them once.
var tools struct {
	launch string
	fake   string // a directory with the stand-in under the name torchrun
	script string // what the ranks run
}

// full tells whether all faults run on all sizes, and 200 healthy starts.
var full = os.Getenv("LAUNCH_FAULTBENCH") == "full"

func TestMain(m *testing.M) {
	if what := os.Getenv(assistant); what != "" {
		os.Exit(assistOn(what, os.Args[1]))
	}
	// Most of a trial is waiting; the default is one for each core.
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	dir, err := os.MkdirTemp("", "launch-faultbench-")
	if err == nil {
		err = makeTools(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultbench:", err)
	} else {
		code = m.Run()
		print(os.Stdout)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// makeTools builds what is not given. LAUNCH_TEST_BIN names a launch that was
// built already.
func makeTools(dir string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	tools.script = filepath.Join(root, "examples", "train.py")
	tools.launch = cmp.Or(os.Getenv("LAUNCH_TEST_BIN"), filepath.Join(dir, "launch"))
	_, _ = os.Stat(tools.launch) // so that go test does not take the result of another binary
	tools.fake = filepath.Join(dir, "fake")
	builds := [][2]string{{filepath.Join(tools.fake, "torchrun"), "launch/lab/faketorchrun"}}
	if os.Getenv("LAUNCH_TEST_BIN") == "" {
		builds = append(builds, [2]string{tools.launch, "launch/cmd/launch"})
	}
	for _, b := range builds {
		cmd := exec.Command("go", "build", "-o", b[0], b[1])
		cmd.Env = append(os.Environ(), "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", b[1], err, out)
		}
	}
	return nil
}
