package handoff

import (
	"bytes"
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

// handlePoll is how often a process is looked at that has no pidfd.
const handlePoll = 20 * time.Millisecond

// Open returns a descriptor that means this process and no other one, also after an exec and in another process: a
// parent death signal fires at the exec if another thread than the first does it. It is a pidfd. Where that is refused
// (before Linux 5.3, by gVisor, by the seccomp profile of an older container runtime, which forbids what it does not
// know) it is the process' folder in /proc, whose files cannot be opened once the process has been reaped.
func Open(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		return os.NewFile(uintptr(fd), "pidfd"), nil
	}
	folder, second := os.Open("/proc/" + strconv.Itoa(pid))
	if second != nil {
		return nil, fmt.Errorf("open a descriptor of process %d: %w; %w", pid, err, second)
	}
	return folder, nil
}

// Wait returns nil when the process of a descriptor of Open has ended, or the cause of ctx.
func Wait(ctx context.Context, f *os.File) error {
	defer runtime.KeepAlive(f)
	if isFolder(int(f.Fd())) {
		return waitFolder(ctx, int(f.Fd()))
	}
	if ok, err := waitParked(ctx, int(f.Fd())); ok {
		return err
	}
	wake, waker, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("wait for a process: %w", err)
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
			return fmt.Errorf("wait for a process: %w", err)
		case fds[0].Revents&unix.POLLIN != 0:
			return nil
		case fds[0].Revents != 0:
			return fmt.Errorf("wait for a process: poll returns %#x, so it is not a pidfd", fds[0].Revents)
		case fds[1].Revents != 0:
			return context.Cause(ctx)
		}
	}
}

// waitParked is Wait without a thread of its own: Go's poller watches an epoll descriptor, which watches the pidfd. So
// the pidfd, which is not this process' alone, remains as it is. false: that cannot be.
func waitParked(ctx context.Context, fd int) (ok bool, err error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false, err
	}
	_ = unix.SetNonblock(ep, true)
	watch := os.NewFile(uintptr(ep), "epoll")
	defer watch.Close()
	event := unix.EpollEvent{Events: unix.EPOLLIN}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return false, err
	}
	raw, err := watch.SyscallConn()
	if err != nil || watch.SetReadDeadline(time.Time{}) != nil { // the poller does not take it
		return false, err
	}
	defer context.AfterFunc(ctx, func() { _ = watch.SetReadDeadline(time.Unix(1, 0)) })()
	got := make([]unix.EpollEvent, 1)
	n := 0
	err = raw.Read(func(ep uintptr) bool {
		n, _ = unix.EpollWait(int(ep), got, 0)
		return n > 0
	})
	switch {
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case err != nil:
		return false, err
	case got[0].Events&unix.EPOLLIN == 0:
		return true, fmt.Errorf("wait for a process: epoll returns %#x, so it is not a pidfd", got[0].Events)
	}
	return true, nil
}

// Signal sends a signal to the process of a descriptor of Open, if it has not ended.
func Signal(fd int, sig unix.Signal) error {
	if !isFolder(fd) {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	pid, _ := folderState(fd)
	if pid == 0 {
		return unix.ESRCH
	}
	return unix.Kill(pid, sig)
}

func isFolder(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// waitFolder waits until the process of a folder in /proc has ended, if only its parent does not know yet.
func waitFolder(ctx context.Context, fd int) error {
	tick := time.NewTicker(handlePoll)
	defer tick.Stop()
	for {
		if pid, ended := folderState(fd); pid == 0 || ended {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// folderState returns the PID of the process of a folder in /proc, 0 if it was reaped, and whether it has ended. A
// zombie with further threads has not: one of these is in execve, and takes its place (de_thread in fs/exec.c).
func folderState(fd int) (pid int, ended bool) {
	const threads = 20 - 3 // num_threads
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/stat", fd))
	f := statFields(string(text))
	if len(f) <= threads {
		return 0, false
	}
	number, _, _ := bytes.Cut(text, []byte(" "))
	pid, _ = strconv.Atoi(string(number))
	alive, _ := strconv.Atoi(f[threads])
	return pid, f[0] == "Z" && alive <= 1
}

// statFields returns the fields of a process' stat from field 3 on, its state (proc_pid_stat(5)).
func statFields(text string) []string {
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
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

// Status returns the exit status, as a shell has it, of a process that has ended and is not a child of this one. The
// kernel reports it for a pidfd from Linux 6.15 on, once the parent has reaped the process: wait bounds that. ok is
// false if the kernel does not report it.
func Status(fd int, wait time.Duration) (status int, ok bool) {
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
	f := statFields(string(b[:n]))
	if len(f) < 50 || f[0] != "Z" {
		return 0, false
	}
	code, err := strconv.Atoi(f[52-3])
	return shellStatus(unix.WaitStatus(code)), err == nil && code != 0
}

// shellStatus returns a status of wait(2) as a shell has it.
func shellStatus(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
