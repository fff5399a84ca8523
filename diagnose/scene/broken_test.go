package scene

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThePathsThatARankNames(t *testing.T) {
	mounts := mountPoints("21 1 0:20 / / rw - overlay o rw\n22 21 0:21 / /mnt/my\\040nfs rw,x shared:1 - nfs4 h:/ rw\n" +
		"23 21 0:22 / /proc rw - proc p rw\n24 21 0:23 / /data rw - ext4 d rw\n25 24 0:24 / /data rw - fuse.s3 d rw\n" +
		"26 21 0:25 / /auto rw - autofs a rw\nodd\n")
	p := &seen{argv: []string{"python", "train.py", "--data=/data/a", "/data/b", "rank=/data/no", "/proc/self"},
		env: map[string]string{"HOME": "/root", "X": "y:/mnt/my nfs/c:/data/a", "P": "/data/../etc:/auto/x"}}
	got := named(p, []File{{Path: "/data/open"}}, mounts)
	want := []Broken{
		{Path: "/data/open", By: "a file that it had open", Mount: "/data", Type: "fuse.s3"},
		{Path: "/data/a", By: "an argument of its command line", Mount: "/data", Type: "fuse.s3"},
		{Path: "/data/b", By: "an argument of its command line", Mount: "/data", Type: "fuse.s3"},
		{Path: "/mnt/my nfs/c", By: "the variable X", Mount: "/mnt/my nfs", Type: "nfs4"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Only of a rank that sleeps and wakes are paths asked for, in its own mounts.
func TestTakeAsksForThePathsOfARankThatTriesAgain(t *testing.T) {
	py := python(t)
	loop := "import time\nwhile True: time.sleep(%)"
	for pause, want := range map[string]bool{"0.2": true, "600": false} {
		cmd := in(exec.Command(py, "-c", strings.Replace(loop, "%", pause, 1)), "RANK=0", "DATA=/dev/shm/shard:/shard")
		pid := start(t, cmd)
		eventually(t, "it sleeps", func() bool { return strings.Contains(readLine(procPath(pid, "wchan")), "nanosleep") })
		if mountOf(mountPoints(readLine("/proc/self/mountinfo")), "/dev/shm") == "/" {
			t.Skip("needs a file system other than the root")
		}
		var asked []string
		var p Proc
		for range 5 { // on a busy machine a look may find a rank that has woken, and waits for a processor
			s := take(t, Options{PID: pid, Broken: func(_ context.Context, paths []string) map[string]string {
				asked = paths
				return map[string]string{procPath(pid, "root/dev/shm/shard"): "ESTALE"}
			}})
			if p = s.proc(pid); asked != nil || !want {
				break
			}
		}
		if got := len(p.Broken) == 1 && p.Broken[0].Path == "/dev/shm/shard" && p.Broken[0].Err == "ESTALE"; got != want {
			t.Errorf("a pause of %s s: %+v, asked %v, moved %+v, call %+v", pause, p.Broken, asked, p.Moved, p.Syscall)
		}
		if !want && asked != nil {
			t.Errorf("a pause of %s s: asked %v", pause, asked)
		}
	}
	if _, _, ok := MainThread(os.Getpid()); !ok {
		t.Error("this process cannot be read")
	}
}

// File systems that do not answer are waited for once, not once for each rank.
func TestThePathsOfAllRanksAreAskedForAtOnce(t *testing.T) {
	if mountOf(mountPoints(readLine("/proc/self/mountinfo")), "/dev/shm") == "/" {
		t.Skip("needs a file system other than the root")
	}
	own, other := os.Getpid(), start(t, exec.Command("sleep", "600"))
	job := []*seen{{pid: own, argv: []string{"a", "/dev/shm/a"}}, {pid: other, argv: []string{"b", "/dev/shm/b"}}}
	var s Scene
	for _, p := range job {
		s.Procs = append(s.Procs, Proc{PID: p.pid, Role: Rank, Syscall: &Syscall{Name: "nanosleep"},
			Moved: Moved{Switches: 9}})
	}
	calls := 0
	s.ask(t.Context(), job, &moment{}, Options{Broken: func(_ context.Context, paths []string) map[string]string {
		calls++
		return map[string]string{procPath(other, "root/dev/shm/b"): "EIO", procPath(own, "root/dev/shm/b"): "ESTALE"}
	}})
	if calls != 1 {
		t.Errorf("%d questions", calls)
	}
	b := s.Procs[1].Broken
	if len(s.Procs[0].Broken) > 0 || len(b) != 1 || b[0].Path != "/dev/shm/b" || b[0].Err != "EIO" {
		t.Errorf("%+v", s.Procs)
	}
}

// A file system that is mounted at several places counts once, and one without a size not at all.
func TestWhereARankMayFailToWrite(t *testing.T) {
	const mounts = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 8:1 /etc/hosts /etc/hosts rw - ext4 /dev/sda1 rw
24 22 0:5 / /proc rw - proc proc rw
25 22 7:0 / /snap/core ro - squashfs /dev/loop0 ro
26 22 0:40 / /tmp/ckpt rw - tmpfs tmpfs rw
27 22 0:41 / /mnt/s3 rw - fuse.s3fs s3fs rw
`
	want := []Broken{{Path: "/", Mount: "/", Type: "ext4"}, {Path: "/tmp/ckpt", Mount: "/tmp/ckpt", Type: "tmpfs"}}
	if diff := cmp.Diff(want, writable(mountPoints(mounts))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		writes, written int64
		fails           bool
	}{{0, 0, false}, {1, 0, true}, {3, 8 << 20, true}, {3, 120, false}} {
		p := &Proc{Moved: Moved{Writes: tt.writes, Written: tt.written}}
		if p.failsToWrite() != tt.fails {
			t.Errorf("%+v", tt)
		}
	}
}
