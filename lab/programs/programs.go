// Package programs builds and finds the programs of the laboratory's tests: launch, its
// stand-ins, and a Python with torch.
package programs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Run calls build with a temporary directory, runs the tests of a package, and returns the exit status.
func Run(m *testing.M, build func(dir string) error) int {
	// Most of these tests wait; the default is one for each core, unless -parallel says otherwise.
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "6")
	}
	dir, err := os.MkdirTemp("", "launch-lab-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	return m.Run()
}

// Build builds launch, and into a directory of its own the stand-in under the name torchrun.
func Build(dir string) (launch, fake string, err error) {
	if launch, err = Launch(dir); err != nil {
		return "", "", err
	}
	fake = filepath.Join(dir, "fake")
	return launch, fake, Go(filepath.Join(fake, "torchrun"), "launch/lab/faketorchrun")
}

// Launch builds launch into a directory, unless LAUNCH_TEST_BIN names one that was built already.
func Launch(dir string) (string, error) {
	launch := os.Getenv("LAUNCH_TEST_BIN")
	if launch == "" {
		launch = filepath.Join(dir, "launch")
		if err := Go(launch, "launch/cmd/launch"); err != nil {
			return "", err
		}
	}
	// It also prevents go test from using a cached result of another binary.
	if _, err := os.Stat(launch); err != nil {
		return "", fmt.Errorf("LAUNCH_TEST_BIN: %w", err)
	}
	return launch, nil
}

// Go builds one program, or links the one of LAUNCH_TEST_PROGRAMS, a folder of programs that were built
// already by the names of their packages, for a machine without Go.
func Go(to, pkg string, flags ...string) error {
	if built := os.Getenv("LAUNCH_TEST_PROGRAMS"); built != "" {
		return os.Symlink(filepath.Join(built, filepath.Base(pkg)), to)
	}
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", to, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
