package hangs

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"launch/lab/programs"
)

// tools are the programs under test; TestMain makes them once.
var tools struct {
	launch   string
	sharedfs string // a file system that can be stopped
	data     string // testdata
	doctor   bool   // launch has the command
	stacks   bool   // py-spy is there, which the doctor uses
}

func TestMain(m *testing.M) {
	code := programs.Run(m, makeTools)
	results.print(os.Stdout)
	os.Exit(code)
}

func makeTools(dir string) (err error) {
	if tools.data, err = filepath.Abs("testdata"); err != nil {
		return err
	}
	if tools.launch, err = programs.Launch(dir); err != nil {
		return err
	}
	tools.sharedfs = filepath.Join(dir, "sharedfs")
	if err := programs.Go(tools.sharedfs, "launch/lab/sharedfs"); err != nil {
		return err
	}
	// tools/torch.sh installs py-spy next to torch.
	python, _ := filepath.Abs(cmp.Or(os.Getenv("LAUNCH_TEST_PYTHON"), "../../.venv/bin/python"))
	_ = os.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Dir(python))
	_, err = exec.LookPath("py-spy")
	tools.stacks = err == nil
	tools.doctor = exec.Command(tools.launch, "doctor", "--help").Run() == nil
	return nil
}

// chosen reports whether a kind runs, and whether LAUNCH_HANGS asks for it.
func chosen(k kind) (runs, asked bool) {
	switch want := os.Getenv("LAUNCH_HANGS"); want {
	case "":
		return k.short, false
	case "full":
		return true, true
	default:
		asked = slices.Contains(strings.Split(want, ","), k.name)
		return asked, asked
	}
}

// Kinds are made one after the other: each has up to eight processes that import torch.
func TestTheDoctorNamesTheCauseOfAHang(t *testing.T) {
	run(t, hungKinds())
}

func TestTheDoctorCallsNoSlowStartHung(t *testing.T) {
	run(t, slowKinds())
}

func TestTheDoctorIsQuietAboutAHealthyJob(t *testing.T) {
	run(t, healthyKinds())
}

func run(t *testing.T, kinds []kind) {
	for _, k := range kinds {
		runs, asked := chosen(k)
		if !runs {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			if !tools.doctor && !asked {
				t.Skip("this launch has no doctor")
			}
			k.run(t)
		})
	}
}
