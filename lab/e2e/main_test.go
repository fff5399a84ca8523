package e2e

import (
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
}

func TestMain(m *testing.M) {
	// Most of these tests wait; the default is one for each core.
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	dir, err := os.MkdirTemp("", "launch-e2e-")
	if err == nil {
		err = makeTools(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// makeTools builds what is not given. LAUNCH_TEST_BIN names a launch that was
// built already.
func makeTools(dir string) error {
	tools.launch = os.Getenv("LAUNCH_TEST_BIN")
	if tools.launch == "" {
		tools.launch = filepath.Join(dir, "launch")
		if err := goBuild(tools.launch, "launch/cmd/launch"); err != nil {
			return err
		}
	}
	if _, err := os.Stat(tools.launch); err != nil {
		return fmt.Errorf("LAUNCH_TEST_BIN: %w", err)
	}
	tools.fake = filepath.Join(dir, "fake")
	return goBuild(filepath.Join(tools.fake, "torchrun"), "launch/lab/faketorchrun")
}

func goBuild(to, pkg string) error {
	cmd := exec.Command("go", "build", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
