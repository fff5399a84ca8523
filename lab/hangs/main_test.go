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

// chosen reports whether a kind of a group runs, and whether LAUNCH_HANGS asks for it: full, a group or a name.
// With "rest" those do not run that an earlier run has kept.
func chosen(group string, k kind) (runs, asked bool) {
	text := os.Getenv("LAUNCH_HANGS")
	if text == "" {
		return k.short, false
	}
	words := strings.Split(text, ",")
	for _, w := range []string{"full", group, k.name} {
		asked = asked || slices.Contains(words, w)
	}
	asked = asked && !(slices.Contains(words, "rest") && known(k.name))
	return asked, asked
}

// Kinds are made one after the other: each has up to eight processes that import torch.
func TestTheDoctorNamesTheCauseOfAHang(t *testing.T) {
	run(t, "hung", hungKinds())
}

func TestTheDoctorCallsNoSlowStartHung(t *testing.T) {
	run(t, "slow", slowKinds())
}

func TestTheDoctorIsQuietAboutAHealthyJob(t *testing.T) {
	run(t, "healthy", healthyKinds())
}

func run(t *testing.T, group string, kinds []kind) {
	for _, k := range kinds {
		runs, asked := chosen(group, k)
		if !runs {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			if !tools.doctor && !asked {
				t.Skip("this launch has no doctor")
			}
			t.Cleanup(func() {
				if t.Failed() && !results.has(k.name) {
					results.add(result{kind: k.name, want: k.want.cause, said: "-", how: unmade})
				}
			})
			k.run(t)
		})
	}
}
