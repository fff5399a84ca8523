package handoff

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

func TestTheStatusOfAProcessIsKnownOnceItWasReaped(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137} {
		c := exec.Command("sh", "-c", "read x; "+script)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(c.Process.Pid, 0)
		if err != nil {
			t.Skipf("needs pidfd_open: %v", err)
		}
		defer unix.Close(fd)
		if got, ok := Status(fd, 10*time.Millisecond); ok {
			t.Errorf("%s: %d was reported while it runs", script, got)
		}
		in.Close()
		_ = c.Wait()
		got, ok := Status(fd, time.Second)
		if !ok {
			var u unix.Utsname
			_ = unix.Uname(&u)
			t.Skipf("this kernel does not report it (from 6.15 on): %s", unix.ByteSliceToString(u.Release[:]))
		}
		if got != want {
			t.Errorf("%s: got %d, want %d", script, got, want)
		}
	}
}

func TestTheStatusOfAZombieIsRead(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -KILL $$": 137, "exit 0": 0} {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stat, err := os.Open(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		defer stat.Close()
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := Wait(t.Context(), os.NewFile(uintptr(fd), "pidfd")); err != nil {
			t.Fatal(err)
		}
		if got, ok := ZombieStatus(stat); got != want || ok != (want != 0) {
			t.Errorf("%s: %d, %t", script, got, ok)
		}
		_ = cmd.Wait()
		if got, ok := ZombieStatus(stat); ok {
			t.Errorf("%s: %d after it was reaped", script, got)
		}
	}
}

func TestThePIDOfAPidfdIsKnownWhileTheProcessRuns(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if got := process.Held("self", fd); got != cmd.Process.Pid {
		t.Errorf("got %d, want %d", got, cmd.Process.Pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := process.Held("self", fd); got != 0 {
		t.Errorf("got %d after its end", got)
	}
	if got := process.Held("self", 0); got != 0 {
		t.Errorf("got %d of a descriptor that is no pidfd", got)
	}
}

// Where a pidfd is refused, the process' folder in /proc does what it does.
func TestAProcessIsKnownByItsFolder(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/" + strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	if got := process.Held("self", fd); got != cmd.Process.Pid {
		t.Errorf("got %d, want %d", got, cmd.Process.Pid)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(3*handlePoll, func() { cancel(why) })
	if err := Wait(ctx, f); !errors.Is(err, why) {
		t.Errorf("while it runs: %v", err)
	}
	if err := Signal(fd, unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := Wait(t.Context(), f); err != nil { // its parent has not asked for its status
		t.Error(err)
	}
	_ = cmd.Wait()
	if got := process.Held("self", fd); got != 0 {
		t.Errorf("got %d after its end", got)
	}
	if err := Signal(fd, unix.SIGTERM); !errors.Is(err, unix.ESRCH) {
		t.Errorf("after its end: %v", err)
	}
	if err := Wait(t.Context(), f); err != nil {
		t.Error(err)
	}
	if got, ok := Status(fd, time.Millisecond); ok {
		t.Errorf("status %d of a folder", got)
	}
}
