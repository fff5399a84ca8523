package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a disk of the given size at a folder.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// fill uses up a disk and returns a function that frees the space.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "fill")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	return func() { _ = os.Remove(name) }
}

// busy starts nodes in jobs of their own, one after the other, until a channel is
// closed: an etcd notices a full disk only when it next grows.
func (c *cluster) busy(host int, ended <-chan struct{}) {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < patience; {
		n := c.startLine(host, []string{"true"}, "--nnodes", "2", "--job", "busy", "--join-timeout", "1s")
		select {
		case <-n.done:
		case <-ended:
			_ = n.cmd.Process.Signal(syscall.SIGTERM)
			return
		}
	}
	c.t.Fatalf("nothing has ended after %s of work on a full disk", patience)
}

// An etcd whose disk is full ends. The nodes print that it does not answer, and
// start after it has room and runs again.
func TestNodesThatWaitStartAfterTheEtcdsDiskWasFull(t *testing.T) {
	t.Parallel()
	c, members := externalCluster(t, 2, 1)
	m := members[0]
	m.kill()
	disk := filepath.Join(t.TempDir(), "disk")
	smallDisk(t, disk, "140m") // two segments of its log, 64 MB each, and the database
	m.argv = append(m.argv, "--data-dir", disk+"/data")
	m.start()
	a := c.start(0)
	c.joined(a)
	before := len(a.err.String()) // the etcd may have been slow to start
	free := fill(t, disk)
	c.busy(1, m.done)
	a.saysAgain(before, "the store does not answer")
	free()
	<-m.done
	m.cmd = nil
	m.start()
	a.saysAgain(before, "the store answers again")
	trained(t, 2, a, c.start(1))
	a.ownWords()
}

// An etcd that has used up the quota of its database answers, but takes no writes.
func TestAnEtcdThatTakesNoWritesIsNamed(t *testing.T) {
	t.Parallel()
	c, members := externalCluster(t, 1, 1)
	members[0].kill()
	members[0].argv = append(members[0].argv, "--quota-backend-bytes", "40000")
	members[0].start()
	full := "has used up its space"
	for range 50 { // until it is full
		n := c.startLine(0, []string{"true"}, "--nnodes", "2", "--join-timeout", "2s")
		<-n.done
		if n.status() == 69 && strings.Contains(n.err.String(), "error: the etcd "+full) {
			n.says("launch store clean")
			n.ownWords()
			return
		}
	}
	t.Errorf("no node printed that the etcd %s", full)
}

// The embedded store ends the start of its host when its folder is full, and
// removes its files.
func TestAnEmbeddedStoreReportsAFullDisk(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	disk := filepath.Join(t.TempDir(), "disk")
	smallDisk(t, disk, "13m")
	c.env = append(c.env, "TMPDIR="+disk)
	a := c.start(0, "--job", "full")
	c.joined(a)
	c.env = nil
	fill(t, disk)
	for i := 0; ; i++ {
		n := c.start(1, "--job", "full", "--nnodes", "3", "--join-timeout", "1s") // refused, after it registered
		select {
		case <-n.done:
			if i < 50 {
				continue
			}
			t.Fatal("the store has not noticed that its disk is full")
		case <-a.done:
		}
		break
	}
	a.exits(65)
	a.says("has filled up")
	a.ownWords()
	if left, _ := filepath.Glob(disk + "/launch-store-*"); left != nil {
		t.Errorf("left files: %v", left)
	}
}
