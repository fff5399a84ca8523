package rendezvous

import (
	"errors"
	"fmt"
	"runtime"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// failure hears why an etcd cannot go on. By itself it would end the process,
// without a word where its log goes nowhere.
type failure struct {
	dir string
	why chan error
}

// OnWrite takes the last entry of etcd's log. It ends the goroutine that wrote
// it: that one does not expect to live.
func (f failure) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(e.Message)
	for _, x := range fields {
		if cause, ok := x.Interface.(error); ok && x.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", e.Message, cause)
		}
	}
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%w: the one in %s has filled up", ErrNoRoom, f.dir)
	}
	select {
	case f.why <- err:
	default: // the first counts
	}
	runtime.Goexit()
}

// Failed tells why the store cannot go on; nothing is sent where it can.
func (s *Server) Failed() <-chan error { return s.failed }
