package handoff

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asUser has this goroutine look at files as another user, which only root can.
func asUser(t *testing.T, uid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to look as another user")
	}
	runtime.LockOSThread()
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = unix.SetfsuidRetUid(0)
		runtime.UnlockOSThread()
	})
}

// A venv's python that is a link below a folder that this user may not enter, as root's pyenv makes it.
func TestTheFolderThatAUserMayNotEnterIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // testing makes it for one user
		t.Fatal(err)
	}
	home := dir + "/root"
	write(t, home+"/pyenv/bin/python", "#!/bin/sh\n", 0o755)
	write(t, dir+"/open/pyenv/bin/python", "#!/bin/sh\n", 0o755)
	write(t, dir+"/other/tool", "#!/bin/sh\n", 0o755)
	write(t, dir+"/closed/python", "#!/bin/sh\n", 0o700)
	for _, venv := range []struct{ name, python string }{
		{"venv", home + "/pyenv/bin/python"}, {"relative", "../../root/pyenv/bin/python"},
		{"sound", dir + "/open/pyenv/bin/python"}, {"mode", dir + "/closed/python"},
	} {
		bin := dir + "/" + venv.name + "/bin"
		write(t, bin+"/torchrun", "#!"+bin+"/python\n", 0o755)
		if err := os.Symlink(venv.python, bin+"/python"); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/later/python", "#!/bin/sh\n", 0o755)
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	asUser(t, 1000)
	for _, tt := range []struct {
		name, path string // path: the folders of PATH
		at, op     string // "": it runs
		kind       error
		passed     bool
	}{
		{"torchrun", "venv/bin", home, OpEnter, ErrNotExecutable, false},
		{"torchrun", "relative/bin", home, OpEnter, ErrNotExecutable, false},
		{dir + "/venv/bin/torchrun", "", home, OpEnter, ErrNotExecutable, false},
		{dir + "/venv/bin/python", "", home, OpEnter, ErrNotExecutable, false},
		{"torchrun", "mode/bin", dir + "/mode/bin/python", "execute", ErrNotExecutable, false},
		{"torchrun", "sound/bin", "", "", nil, false},
		{"python", "venv/bin", home, OpEnter, ErrNotExecutable, true},
		{"python", "venv/bin:later", "", "", nil, true},
		{"python", "sound/bin:venv/bin", "", "", nil, false},
		{"python", "root/pyenv/bin", home, OpEnter, ErrNotFound, false},
		{"python", "root/pyenv/bin:later", "", "", nil, false},
		{"tool", "other", "", "", nil, false},
		{"nothing", "other", "", "", ErrNotFound, false},
	} {
		var folders []string
		for d := range strings.SplitSeq(tt.path, ":") {
			folders = append(folders, dir+"/"+d)
		}
		env := []string{"PATH=" + strings.Join(folders, ":")}
		_, err := LookPath(tt.name, env)
		e, _ := errors.AsType[*fs.PathError](err)
		if e == nil {
			e = &fs.PathError{}
		}
		if !errors.Is(err, tt.kind) || e.Path != tt.at || e.Op != tt.op {
			t.Errorf("%s in %s: %v (%s %s), want %s %s", tt.name, tt.path, err, e.Op, e.Path, tt.op, tt.at)
		}
		if errors.Is(err, ErrNotFound) && errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s in %s: not found and not executable: %v", tt.name, tt.path, err)
		}
		if err := PassedOver(tt.name, env); (err != nil) != tt.passed {
			t.Errorf("%s in %s: passed over: %v", tt.name, tt.path, err)
		}
	}
	if at := Barred(dir + "/sound/bin/python"); at != "" {
		t.Errorf("a way that is open leads through %s", at)
	}
}
