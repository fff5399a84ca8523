package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"launch/lab/programs"
)

// cached returns which part of a file is in the page cache.
func cached(t *testing.T, file string) float64 {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(b) }()
	pages := make([]byte, (len(b)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, p := range pages {
		n += int(p & 1)
	}
	return float64(n) / float64(len(pages))
}

// waiting returns a node that waits for another one, and torch's largest library on its cold mount.
func waiting(t *testing.T, flags ...string) (c *cluster, n *node, lib string) {
	t.Helper()
	torch := programs.CurrentTorch(t)
	c = withTorch(t, 2, torch)
	at, unmount := mountTorch(t, c.lab, torch)
	t.Cleanup(unmount)
	libs, _ := filepath.Glob(filepath.Join(at[0], "lib/python3*/site-packages/torch/lib/libtorch_cpu.so"))
	if len(libs) != 1 {
		t.Fatalf("found %q", libs)
	}
	n = c.start(0, flags...)
	c.joined(n)
	return c, n, libs[0]
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// children returns the processes that launch itself has started on the first host: the companion first.
func (c *cluster) children() (pids []int) {
	for _, p := range c.lab.Hosts[0].Processes() {
		if pid, line, _ := strings.Cut(p, " "); line == "launch" {
			n, _ := strconv.Atoi(pid)
			pids = append(pids, n)
		}
	}
	slices.Sort(pids)
	return pids
}

// signalled sends a signal that ends a wait, and checks that nothing is left soon after it.
func (c *cluster) signalled(n *node, pid int, sig syscall.Signal, status int) {
	c.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		c.t.Fatal(err)
	}
	n.exits(status)
	time.Sleep(time.Second)
	if left := c.lab.Hosts[0].Processes(); len(left) > 0 {
		c.t.Errorf("left after %s: %q", sig, left)
	}
}

func TestAWaitingNodeReadsTorchIntoMemory(t *testing.T) {
	c, n, lib := waiting(t)
	eventually(t, lib+" is in the page cache", func() bool { return cached(t, lib) > 0.5 })
	eventually(t, "the companion alone remains", func() bool { return len(c.children()) == 1 })
	n.quiet()
	c.signalled(n, n.cmd.Process.Pid, syscall.SIGINT, 130)
}

func TestCtrlCEndsTheReadingToo(t *testing.T) {
	c, n, _ := waiting(t)
	eventually(t, "a child reads", func() bool { return len(c.children()) == 2 })
	c.signalled(n, n.cmd.Process.Pid, syscall.SIGINT, 130)
}

func TestTheReadingEndsWithTheCompanion(t *testing.T) {
	c, n, _ := waiting(t)
	c.lab.MayLeave("launch-store-*") // of a companion that was killed
	eventually(t, "a child reads", func() bool { return len(c.children()) == 2 })
	c.signalled(n, c.children()[0], syscall.SIGKILL, 70)
}

func TestAWaitingNodeReadsNothingIfItIsNotTo(t *testing.T) {
	c, n, lib := waiting(t, "--read-ahead=false")
	time.Sleep(4 * time.Second)
	if part := cached(t, lib); part > 0.1 {
		t.Errorf("%.0f %% of %s are in the page cache", 100*part, lib)
	}
	c.signalled(n, n.cmd.Process.Pid, syscall.SIGINT, 130)
}
