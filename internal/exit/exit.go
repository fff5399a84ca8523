// Package exit holds the one error type and the exit statuses of launch. docs/exit-codes.md has
// what each means and what to do.
package exit

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// Exit statuses of launch itself, each with a row in docs/exit-codes.md. A status is never reused for
// another meaning. After the handoff the status is the command's own.
const (
	Usage       = 64
	Unfit       = 65
	PeerUnfit   = 66
	Unreachable = 69
	Bug         = 70
	Duplicate   = 73
	Unwritten   = 74
	Missing     = 75
	Hung        = 76
	Config      = 78
	NotExec     = 126
	NotFound    = 127
	Signal      = 128 // plus the signal's number
)

// Error is a failure with its exit status. Fix is what to do: a line to paste if there is one, or "".
type Error struct {
	Code int    `json:"code"`
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

func (e *Error) Error() string { return e.What }

// Errorf returns an Error without a fix.
func Errorf(code int, format string, a ...any) *Error {
	return &Error{Code: code, What: fmt.Sprintf(format, a...)}
}

// Do sets what to do.
func (e *Error) Do(format string, a ...any) *Error {
	e.Fix = fmt.Sprintf(format, a...)
	return e
}

// CannotWrite returns the error for a file that a flag names and that cannot be written.
func CannotWrite(flag, file string, err error) *Error {
	return Errorf(Usage, "%s %s: %v", flag, file, err).
		Do("ls -ld %s %s   # a file in a directory, both of which this user can write", filepath.Dir(file), file)
}

// SignalText says how a signal ended a process: "interrupted", "terminated".
func SignalText(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "interrupted"
	case syscall.SIGTERM:
		return "terminated"
	case syscall.SIGHUP:
		return "hung up"
	}
	return strings.ToLower(s.String())
}
