package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SelfPidfd returns a descriptor that becomes readable when this process ends, also after an exec: a
// parent death signal fires at the exec if another thread than the first does it. The error is
// errors.ErrUnsupported if the kernel has no pidfd (before 5.3, gVisor).
func SelfPidfd() (*os.File, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("open pidfd of itself: %w", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// WaitPidfd returns nil when the process of f has ended, or the cause of ctx.
func WaitPidfd(ctx context.Context, f *os.File) error {
	defer runtime.KeepAlive(f)
	wake, waker, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("wait for pidfd: %w", err)
	}
	defer wake.Close()
	defer context.AfterFunc(ctx, func() { waker.Close() })()
	defer waker.Close()
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for pidfd: %w", err)
		case fds[0].Revents&unix.POLLIN != 0:
			return nil
		case fds[0].Revents != 0:
			return fmt.Errorf("wait for pidfd: poll returns %#x, so it is not a pidfd", fds[0].Revents)
		case fds[1].Revents != 0:
			return context.Cause(ctx)
		}
	}
}

// pidfdInfo is struct pidfd_info of linux/pidfd.h, in its first size.
type pidfdInfo struct {
	mask, cgroup uint64
	ids          [11]uint32 // pid, tgid, ppid, and eight user and group ids
	exit         int32      // as wait(2) has it
}

const (
	infoExit = 1 << 3 // PIDFD_INFO_EXIT, Linux 6.15
	// getInfo is PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info).
	getInfo = 3<<30 | uintptr(unsafe.Sizeof(pidfdInfo{}))<<16 | 0xFF<<8 | 11
)

// PidfdPID returns the PID of the process of a pidfd that another process, or this one ("self"), has
// open; 0: it has ended, or fd is no pidfd (proc_pid_fdinfo(5)).
func PidfdPID(process string, fd int) int {
	info, _ := os.ReadFile(fmt.Sprintf("/proc/%s/fdinfo/%d", process, fd))
	_, text, _ := strings.Cut(string(info), "\nPid:\t")
	text, _, _ = strings.Cut(text, "\n")
	pid, _ := strconv.Atoi(text)
	return max(pid, 0)
}

// PidfdStatus returns the exit status, as a shell has it, of a process that has ended and is not a
// child of this one. The kernel reports it from Linux 6.15 on, once the parent has reaped the
// process: wait bounds that. ok is false if the kernel does not report it.
func PidfdStatus(fd int, wait time.Duration) (status int, ok bool) {
	poll := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP is always reported: it was reaped
	for end := time.Now().Add(wait); ; {
		n, err := unix.Poll(poll, int(max(time.Until(end), 0)/time.Millisecond))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 || poll[0].Revents&unix.POLLHUP == 0 {
			return 0, false
		}
		break
	}
	info := pidfdInfo{mask: infoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&infoExit == 0 {
		return 0, false
	}
	return shellStatus(unix.WaitStatus(info.exit)), true
}

// ZombieStatus returns the exit status, as a shell has it, of a process that has ended and that its
// parent has not reaped. stat is its /proc/PID/stat, opened before. ok is false if it was reaped, and for
// 0: the kernel prints that to other users too (proc_pid_stat(5), field 52).
func ZombieStatus(stat *os.File) (status int, ok bool) {
	b := make([]byte, 4096)
	n, err := stat.ReadAt(b, 0)
	if n == 0 || err != nil && err != io.EOF {
		return 0, false
	}
	text := string(b[:n])
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from field 3 on
	if len(f) < 50 || f[0] != "Z" {
		return 0, false
	}
	code, err := strconv.Atoi(f[49])
	return shellStatus(unix.WaitStatus(code)), err == nil && code != 0
}

// shellStatus returns a status of wait(2) as a shell has it.
func shellStatus(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
