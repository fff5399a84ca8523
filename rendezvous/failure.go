package rendezvous

import (
	"errors"
	"fmt"
	"runtime"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// failure receives the reason why an etcd cannot continue. Without it etcd ends the
// process, silently where its log is discarded.
type failure struct {
	dir string
	why chan error
}

// OnWrite reports the last entry of etcd's log. It ends the goroutine that wrote it,
// which does not expect to continue.
func (f failure) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(e.Message)
	for _, x := range fields {
		if cause, ok := x.Interface.(error); ok && x.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", e.Message, cause)
		}
	}
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%w: the disk of %s has filled up", ErrNoRoom, f.dir)
	}
	select {
	case f.why <- err:
	default: // the first counts
	}
	runtime.Goexit()
}

// Failed returns a channel that receives the reason why the store cannot continue.
func (s *Server) Failed() <-chan error { return s.failed }
