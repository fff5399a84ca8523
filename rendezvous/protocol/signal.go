package protocol

import (
	"fmt"
	"syscall"
)

// Ender returns what ended a process by a signal, by its exit status, as in "SIGINT (Ctrl-C, or kill -INT)"; "": the
// status is not one of a signal by which people and schedulers end a job.
func Ender(status int) string {
	switch syscall.Signal(status - 128) {
	case syscall.SIGINT:
		return "SIGINT (Ctrl-C, or kill -INT)"
	case syscall.SIGTERM:
		return "SIGTERM (kill, kubectl delete, a scheduler, or launch --fail-fast there)"
	case syscall.SIGHUP:
		return "SIGHUP (its terminal was closed)"
	}
	return ""
}

// failure is the statement about a command that ended with a status other than 0.
func failure(status int) string {
	if by := Ender(status); by != "" {
		return fmt.Sprintf("was ended by %s: status %d", by, status)
	}
	return "failed: its command ended with " + StatusText(status)
}
