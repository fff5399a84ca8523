package command

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		name              string
		path              string
		err               error
		found, executable string
	}{
		{"here", "/usr/bin/torchrun", nil, "ok torchrun is /usr/bin/torchrun", "ok may be executed"},
		{"nowhere", "", &exec.Error{Name: "torchrun", Err: exec.ErrNotFound}, "fail torchrun is not found",
			"skip could not tell"},
		{"not executable", "", &fs.PathError{Op: "exec", Path: "/opt/torchrun", Err: syscall.EACCES}, "ok torchrun exists",
			"fail may not execute it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := checktest.Four()
			in.LookPath = func(string) (string, error) { return tt.path, tt.err }
			checktest.Wants(t, checktest.Verdict(t, Checks(), "command.found", in), tt.found)
			checktest.Wants(t, checktest.Verdict(t, Checks(), "command.executable", in), tt.executable)
		})
	}
	in := checktest.Four()
	in.LookPath = func(string) (string, error) {
		return "", &fs.PathError{Op: "exec", Path: "/opt/torchrun", Err: syscall.EACCES}
	}
	if got := checktest.Verdict(t, Checks(), "command.executable", in).Fix; !strings.Contains(got, "/opt/torchrun") {
		t.Errorf("the fix %q does not name the file", got)
	}
	for mode, want := range map[fs.FileMode]string{fs.ModeDir | 0o755: "/opt/torchrun is a directory",
		0o755: "cannot be executed", 0o644: "may not execute it"} {
		in.Stat = func(string) (fs.FileMode, error) { return mode, nil }
		got := checktest.Verdict(t, Checks(), "command.executable", in)
		if checktest.Wants(t, got, "fail "+want); strings.Contains(got.Fix, "chmod") != (mode == 0o644) {
			t.Errorf("%s: fix %q", mode, got.Fix)
		}
	}
	in.Job.Nodes.V = 1
	if got := checktest.Verdict(t, Checks(), "command.executable", in); strings.Contains(got.Breaks, "others") {
		t.Errorf("one node has no others: %q", got.Breaks)
	}
	in.Job.Line.Argv = nil
	checktest.Wants(t, checktest.Verdict(t, Checks(), "command.found", in), "skip no command")
}

// Where no command is given, no check says that one was looked at.
func TestWithoutACommandAllChecksOfItSaySo(t *testing.T) {
	in := checktest.Four()
	in.Job.Line = launcher.Line{}
	for _, id := range []string{"command.found", "command.executable", "command.script", "command.characters"} {
		checktest.Wants(t, checktest.Verdict(t, Checks(), id, in), "skip no command is given")
	}
}

func TestScript(t *testing.T) {
	stat := func(mode fs.FileMode, err error) func(string) (fs.FileMode, error) {
		return func(string) (fs.FileMode, error) { return mode, err }
	}
	gone := stat(0, &fs.PathError{Op: "stat", Path: "t.py", Err: syscall.ENOENT})
	folder := func(path string) (fs.FileMode, error) {
		if path == "app" {
			return fs.ModeDir | 0o755, nil
		}
		return 0, &fs.PathError{Op: "stat", Path: path, Err: syscall.ENOENT}
	}
	for _, tt := range []struct {
		line string
		stat func(string) (fs.FileMode, error)
		want string
	}{
		{"torchrun t.py", stat(0o644, nil), "ok t.py exists"},
		{"torchrun t.py", gone, "fail t.py does not exist on this node"},
		{"torchrun \u2013-max-restarts 0 t.py", gone, "fail U+2013 where an option has a hyphen-minus"},
		{"numactl -C 0-7 python -u t.py", gone, "fail t.py does not exist"},
		{"python t.py/x.py", stat(0, syscall.ENOTDIR), "fail t.py/x.py does not exist"},
		{"python t.py", stat(0, syscall.EACCES), "fail t.py cannot be read"},
		{"python t.py", stat(0, syscall.EIO), "skip could not tell"},
		{"python app", stat(fs.ModeDir|0o755, nil), "skip app is a directory"},
		{"python app", folder, "fail app is a directory without a __main__.py"},
		{"env -C /srv python t.py", gone, "skip another directory"},
		{"uv run --directory=/srv torchrun t.py", gone, "skip another directory"},
		{"hatch run python t.py", gone, "skip another directory"},
		{"uv run python t.py", gone, "fail t.py does not exist"},
		{"env -C /srv python /srv/t.py", gone, "fail /srv/t.py does not exist"},
		{"env PET_MODULE=1 torchrun t", gone, "skip no Python file"},
		{"torchrun -m t", gone, "skip no Python file"},
		{"python -", gone, "skip no Python file"},
		{"python t.py", nil, "skip this run looks at no file"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			in := checktest.Four()
			var err error
			if in.Job.Line, err = launcher.Parse(strings.Fields(tt.line), ""); err != nil {
				t.Fatal(err)
			}
			in.Stat, in.Dir = tt.stat, "/home/a"
			f := checktest.Verdict(t, Checks(), "command.script", in)
			checktest.Wants(t, f, tt.want)
			if strings.Contains(f.What, " t.py does not") && !strings.Contains(f.Fix, "the working directory is /home/a") {
				t.Errorf("the fix %q does not name the working directory", f.Fix)
			}
		})
	}
	in := checktest.Env(checktest.Four(), "PET_NO_PYTHON", "1")
	in.Job.Line.Script, in.Stat = 1, gone
	checktest.Wants(t, checktest.Verdict(t, Checks(), "command.script", in), "skip no Python file")
}

func TestInheritedSettingsKeepTheirOwnIDs(t *testing.T) {
	in := checktest.Four()
	in.Lint = []finding.Finding{
		finding.Warnf("algo").Named("env.algo"),
		finding.Failf("no eth0").Named("env.ifname.nccl"),
		finding.Warnf("obsolete").Named("env.obsolete"),
	}
	got, err := preflight.Run(t.Context(), Checks(), in,
		preflight.Options{Only: []string{"env.interfaces", "env.harmful"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fail env.ifname.nccl: no eth0", "warn env.algo: algo", "warn env.obsolete: obsolete"}
	if diff := cmp.Diff(want, checktest.Lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// A script or program of the working directory is not in PATH, and is what the user meant.
func TestACommandOfThisFolderIsNamed(t *testing.T) {
	for name, want := range map[string]string{"train.py": "python train.py, or torchrun train.py", "run": "./run   # ",
		"absent.py": "activate the environment", "bin/run": "activate the environment"} {
		in := checktest.Four()
		in.Job.Line.Argv = []string{name}
		in.LookPath = func(string) (string, error) { return "", exec.ErrNotFound }
		in.Stat = func(path string) (fs.FileMode, error) {
			if strings.HasPrefix(path, "absent") {
				return 0, fs.ErrNotExist
			}
			return 0o644, nil
		}
		if got := checktest.Verdict(t, Checks(), "command.found", in).Fix; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The folder that a user may not enter is named, and not the mode of the program.
func TestAFolderThatThisUserMayNotEnter(t *testing.T) {
	closed := &fs.PathError{Op: "enter", Path: "/root", Err: errors.New("this user may not")}
	in := checktest.Four()
	wants := func(id, want string, fix bool) {
		t.Helper()
		got := checktest.Verdict(t, Checks(), id, in)
		checktest.Wants(t, got, want)
		if strings.Contains(got.Fix, "setfacl -m u:") != fix || fix && strings.Contains(got.Fix, "chmod a+x") {
			t.Errorf("%s: fix %q", id, got.Fix)
		}
	}
	in.LookPath = func(string) (string, error) { return "", errors.Join(fs.ErrPermission, closed) }
	wants("command.executable", "fail below /root, and this user may not enter that folder", true)
	in.LookPath = func(string) (string, error) { return "", closed }
	wants("command.found", "fail is not found on this node, as far as this user may look: it may not enter /root", true)
	in.LookPath = func(string) (string, error) { return "/usr/bin/torchrun", nil }
	in.PassedOver = func(string) error { return closed }
	wants("command.found", "warn torchrun is /usr/bin/torchrun, and not the first one in PATH", true)
	in.PassedOver = func(string) error { return nil }
	wants("command.found", "ok torchrun is /usr/bin/torchrun", false)
	in.Stat = func(string) (fs.FileMode, error) { return 0, closed }
	in.Job.Line.Argv, in.Job.Line.Script = []string{"torchrun", "/root/train.py"}, 1
	wants("command.script", "fail cannot be read: this user may not enter /root", true)
}
