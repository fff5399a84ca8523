package handoff

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// SelfPidfd returns a descriptor that becomes readable when this process ends, also
// after an exec. The companion gets it in place of a parent death signal, which
// fires at the exec if another thread than the first does it.
//
// The error is errors.ErrUnsupported if the kernel has no pidfd (before 5.3, gVisor).
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
