package ui

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	patience = 2 * time.Second
	pipeBuf  = 4096 // PIPE_BUF (linux/limits.h): a pipe that poll(2) calls writable takes as much without waiting
)

// patient writes to a pipe or a socket whose reader may have stopped: that must not stop the job. What finds no
// room in time is lost.
type patient struct {
	to   *os.File
	late bool // the last line found no room, so the next one does not wait
}

// unblocked returns a writer that does not wait for a reader without end.
func unblocked(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok {
		return w
	}
	if s, err := f.Stat(); err != nil || s.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return w
	}
	return &patient{to: f}
}

func (p *patient) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), pipeBuf)]
		if p.late = !p.room(); p.late {
			return len(b), nil
		}
		if n, err := p.to.Write(part); err != nil {
			return len(b) - len(rest) + n, err
		}
		rest = rest[len(part):]
	}
	return len(b), nil
}

// room waits until something can be written, or the reader has gone, which the write then reports.
func (p *patient) room() bool {
	end := time.Now().Add(patience)
	for {
		left := max(0, time.Until(end))
		if p.late {
			left = 0
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.to.Fd()), Events: unix.POLLOUT}}, int(left.Milliseconds()))
		if err != unix.EINTR {
			return n != 0 || err != nil
		}
	}
}
