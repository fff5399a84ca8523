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
	end, _ = serveFolderAs(t, server, folder, at, roundTrip)
	return end
}

// serveFolderAs does so with round trips of a length of its own. kill ends a server that may not answer.
func serveFolderAs(t testing.TB, server, folder, at string, trip time.Duration) (end, kill func()) {
	t.Helper()
	cmd := exec.Command(server, folder, at, trip.String())
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
	end = func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("sharedfs: %v", err)
		}
	}
	return end, func() {
		_ = cmd.Process.Kill()
		_ = exec.Command("umount", "-l", at).Run()
		_ = cmd.Wait()
	}
}

// A command that needs nothing of a dead file system starts: no thread of launch may wait for that one, since execve
// waits for the thread.
func TestADeadHomeFolderHoldsNoCommand(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	server, home := filepath.Join(t.TempDir(), "sharedfs"), t.TempDir()
	if err := programs.Go(server, "launch/lab/sharedfs"); err != nil {
		t.Fatal(err)
	}
	_, kill := serveFolderAs(t, server, t.TempDir(), home, time.Hour)
	defer kill()
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE on node $RANK"}
	flags := append([]string{tools.launch, "--store", c.store, "--nnodes", "2"}, c.flags...)
	first := c.startBare(0, append(flags, c.line...))
	second := c.startBare(1, append(flags, c.line...), "HOME="+filepath.Join(home, "user"))
	trained(t, 1, first, second)
	second.says("the home folder, does not answer")
}
