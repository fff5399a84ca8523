package scene

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"
)

// The file of a system call is found by the text in the memory of the process, or by its descriptor.
func TestTheFileOfASystemCall(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	name, pid := filepath.Join(dir, "ckpt"), os.Getpid()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := func(s string) uint64 {
		b := append([]byte(s), 0)
		t.Cleanup(func() { runtime.KeepAlive(b) })
		return uint64(uintptr(unsafe.Pointer(&b[0])))
	}
	const cwd = 0xffffffffffffff9c // AT_FDCWD
	for _, tt := range []struct {
		call Syscall
		args [6]uint64
		want string
	}{
		{Syscall{Name: "openat", FD: -1}, [6]uint64{cwd, text(name)}, name},
		{Syscall{Name: "openat", FD: -1}, [6]uint64{cwd, text("ckpt")}, name},
		{Syscall{Name: "unlink", FD: -1}, [6]uint64{text("a/../ckpt")}, name},
		{Syscall{Name: "fsync", FD: int(f.Fd())}, [6]uint64{}, name},
		{Syscall{Name: "openat", FD: -1}, [6]uint64{cwd, 0}, ""},
		{Syscall{Name: "openat", FD: -1}, [6]uint64{cwd, text("/proc/self/stat")}, ""},
		{Syscall{Name: "futex", FD: -1}, [6]uint64{}, ""},
	} {
		c := tt.call
		if c.place(pid, tt.args); c.Path != tt.want || (c.Mount == "") != (tt.want == "") {
			t.Errorf("%s: %+v, want %q", tt.call.Name, c, tt.want)
		}
	}
}

func TestWhatDisksHaveCompleted(t *testing.T) {
	const text = "   8       0 sda 100 0 800 5 20 0 160 9 0 7 14\n   8       1 sda1 1 0 8 0 2 0 16 0 0 0 0\n\n"
	got := disks(text)
	if len(got) != 2 || got["8:0"] != 120 || got["8:1"] != 3 {
		t.Errorf("%v", got)
	}
	const mounts = "22 1 0:20 / / rw - overlay overlay rw\n30 22 8:0 / /mnt rw - ext4 /dev/sda rw\n" +
		"31 22 8:1 / /mnt rw - xfs /dev/sda1 rw\n"
	for at, want := range map[string]string{"/": "0:20", "/mnt": "8:1", "/srv": ""} {
		if got := mountPoints(mounts)[at].device; got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}
