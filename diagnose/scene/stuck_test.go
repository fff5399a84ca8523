package scene

import (
	"context"
	"fmt"
	"launch/internal/tcpstore"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// silentFile opens, and never answers a read while the test runs.
type silentFile struct {
	fs.Inode
	done <-chan struct{}
}

func (f *silentFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *silentFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o444, 4096
	return 0
}

func (f *silentFile) Read(context.Context, fs.FileHandle, []byte, int64) (fuse.ReadResult, syscall.Errno) {
	<-f.done
	return nil, syscall.EIO
}

// silentMount mounts a file system with one file, whose reads hang until end is called.
func silentMount(t *testing.T, dir string) (end func()) {
	t.Helper()
	done := make(chan struct{})
	top := &fs.Inode{}
	server, err := fs.Mount(dir, top, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true},
		OnAdd: func(ctx context.Context) {
			f := top.NewPersistentInode(ctx, &silentFile{done: done}, fs.StableAttr{Mode: fuse.S_IFREG})
			top.AddChild("data", f, false)
		}})
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	return func() {
		close(done)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		server.Wait()
	}
}

func TestTakeShowsARankThatReadsAMountThatDoesNotAnswer(t *testing.T) {
	root(t)
	dir := t.TempDir()
	end := silentMount(t, dir)
	cmd := in(exec.Command(python(t), "-c", "import os, sys; os.read(os.open(sys.argv[1], os.O_RDONLY), 100)",
		filepath.Join(dir, "data")), "RANK=0")
	log, err := os.OpenFile(filepath.Join(dir, "data"), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = log // the output of the rank is on that mount too
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log.Close()
	defer func() {
		_ = cmd.Process.Kill()
		end()
		_ = cmd.Wait()
	}()
	pid := cmd.Process.Pid
	eventually(t, "it hangs in the read", func() bool {
		return strings.HasPrefix(readLine(procPath(pid, "wchan")), "request_wait_answer")
	})
	s := take(t, Options{PID: pid, Stacks: true})
	p := s.proc(pid)
	if p.State != "S" || p.Wchan != "request_wait_answer" || p.Syscall == nil || p.Syscall.Name != "read" || !p.Still {
		t.Errorf("the rank: %+v", p)
	}
	i := slices.IndexFunc(p.Files, func(f File) bool { return p.Syscall != nil && f.FD == p.Syscall.FD })
	if i < 0 || !strings.HasPrefix(p.Files[i].Type, "fuse") || p.Files[i].Path != filepath.Join(dir, "data") {
		t.Errorf("files: %+v", p.Files)
	}
	if g := gapOf(s, "the last lines"); !strings.Contains(g.Why, "fuse") {
		t.Errorf("gaps: %+v", s.Gaps)
	}
}

func TestWithinGivesUp(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	if within(10*time.Millisecond, func() { <-done }) {
		t.Error("it waited for what does not end")
	}
	if !within(time.Minute, func() {}) {
		t.Error("it did not wait for what ends")
	}
}

// fakePySpy is first in PATH; it shows what it was called with.
func fakePySpy(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fromPySpy), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestStacksNeverPauseARank(t *testing.T) {
	py := python(t)
	fakePySpy(t, `echo 'Thread 1 (idle): "MainThread"'; echo "    $* (a.py:1)"`)
	rank := start(t, in(exec.Command(py, "-c", "import time; time.sleep(600)"), "RANK=0"))
	want := fmt.Sprintf("dump --nonblocking --locals --pid %d (a.py:1)", rank)
	p := take(t, Options{PID: rank, Stacks: true}).proc(rank)
	if len(p.Stacks) != 1 || len(p.Stacks[0].Frames) != 1 || p.Stacks[0].Frames[0] != want {
		t.Errorf("stacks %+v, want the frame %q", p.Stacks, want)
	}
}

func TestStacksOfAPySpyThatHangsAreAGap(t *testing.T) {
	py := python(t)
	fakePySpy(t, "sleep 600 & sleep 600")
	rank := start(t, in(exec.Command(py, "-c", "import time; time.sleep(600)"), "RANK=0"))
	if g := gapOf(take(t, Options{PID: rank, Stacks: true}), "Python stacks"); !strings.Contains(g.Why, "did not end") {
		t.Errorf("gap: %+v", g)
	}
}

// With a py-spy in PATH, its real output is understood.
func TestStacksOfPySpy(t *testing.T) {
	if _, err := exec.LookPath(fromPySpy); err != nil {
		t.Skip(err)
	}
	rank := start(t, in(exec.Command(python(t), "-c", "import time\ndef wait(): time.sleep(600)\nwait()"), "RANK=0"))
	eventually(t, "it sleeps", func() bool { return strings.Contains(readLine(procPath(rank, "wchan")), "nanosleep") })
	s := take(t, Options{PID: rank, Stacks: true})
	p := s.proc(rank)
	if len(p.Stacks) != 1 || p.Stacks[0].Thread != "MainThread" ||
		!slices.Contains(p.Stacks[0].Frames, "wait (<string>:2)") {
		t.Errorf("stacks %+v, gaps %+v", p.Stacks, s.Gaps)
	}
}

func TestStoresAreSortedByHowTheyAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, tc := range []struct {
		host string
		port int
		want Outcome
	}{
		{"127.0.0.1", port, Silent},
		{"localhost", port, Silent},
		{"127.0.0.1", 1, Refused},
		{"no-such-host.invalid", 1, NoName},
	} {
		s := askStore(t.Context(), address{host: tc.host, port: tc.port}, "", tcpstore.Hints{})
		if s.Outcome != tc.want || s.Err == "" {
			t.Errorf("%s: %+v, want %s", tc.host, s, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := askStore(ctx, address{host: "127.0.0.1", port: port}, "", tcpstore.Hints{}); s.Outcome != Unreachable {
		t.Errorf("without time: %+v", s)
	}
}
