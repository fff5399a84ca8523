package programs

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Munge runs a munged with a key of its own until the test ends, and returns a folder with the
// programs munge and unmunge, which ask it. Every user may use both.
func Munge(t testing.TB) string {
	t.Helper()
	bin, err := exec.LookPath("munge")
	if err != nil {
		t.Skip("needs munge, of the Debian package of that name")
	}
	usr := filepath.Dir(filepath.Dir(bin)) // which tools/test.sh may have unpacked
	libs, _ := filepath.Glob(filepath.Join(usr, "lib", "*-linux-gnu"))
	path := "LD_LIBRARY_PATH=" + strings.Join(libs, ":")
	dir, err := os.MkdirTemp("", "munge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	in := func(name string) string { return filepath.Join(dir, name) }
	key := make([]byte, 128)
	_, _ = rand.Read(key)
	err = os.WriteFile(in("key"), key, 0o600)
	for _, name := range []string{"munge", "unmunge"} {
		if err == nil {
			script := fmt.Appendf(nil, "#!/bin/sh\n%s exec %s --socket=%s \"$@\"\n", path,
				filepath.Join(usr, "bin", name), in("s"))
			err = os.WriteFile(in(name), script, 0o755)
		}
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(usr, "sbin", "munged"), "--foreground", "--force",
		"--socket="+in("s"), "--key-file="+in("key"), "--log-file="+in("log"), "--pid-file="+in("pid"),
		"--seed-file="+in("seed"))
	cmd.Env = append(os.Environ(), path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(in("s")); err == nil {
			return dir
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(in("log"))
			t.Fatalf("munged does not answer: %s", log)
		}
	}
}
