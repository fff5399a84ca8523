package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// roundTrip is that of a busy NFS or Lustre server: a cold import of torch then takes 15 to 20 s.
const roundTrip = time.Millisecond

// mountTorch mounts torch's environment over itself on each host, from a file system with round trips. It
// returns where this process sees the mounts, of which nothing is in memory.
func mountTorch(t testing.TB, lab *netns.Lab, torch programs.Torch) (at []string, unmount func()) {
	t.Helper()
	env := filepath.Dir(filepath.Dir(torch.Python))
	if _, err := os.Stat(filepath.Join(env, "pyvenv.cfg")); err != nil {
		t.Skipf("needs a torch in an environment of its own: %v", err)
	}
	server := filepath.Join(t.TempDir(), "sharedfs")
	if err := programs.Go(server, "launch/lab/sharedfs"); err != nil {
		t.Fatal(err)
	}
	var ends []func()
	for _, h := range lab.Hosts {
		dir := t.TempDir()
		at = append(at, dir)
		ends = append(ends, serveFolder(t, server, env, dir))
		h.Prepare = []string{"mount --bind " + dir + " " + env}
	}
	return at, func() {
		for _, end := range ends {
			end()
		}
	}
}

// serveFolder mounts a folder at another one until end is called.
func serveFolder(t testing.TB, server, folder, at string) (end func()) {
	t.Helper()
	cmd := exec.Command(server, folder, at, roundTrip.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 64)); n == 0 {
		_ = cmd.Wait()
		t.Skipf("needs FUSE: %v", err)
	}
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("sharedfs: %v", err)
		}
	}
}
