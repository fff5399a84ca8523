// Package exit holds the one error type and the one table of exit statuses of
// launch. docs/exit-codes.md is generated from the table.
package exit

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// Exit statuses of launch itself. After the handoff the status is the command's own.
const (
	Usage       = 64
	Unfit       = 65
	PeerUnfit   = 66
	Unreachable = 69
	Bug         = 70
	Duplicate   = 73
	Unwritten   = 74
	Missing     = 75
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

// Status is one row of the table.
type Status struct {
	Code          int
	Meaning, ToDo string
}

// Table returns every exit status. A status is never reused for another meaning.
func Table() []Status {
	return []Status{
		{0, "the command ended well, or a standby node (--spares) was not needed. Once the command runs, each status " +
			"is the command's own, even 64 to 78: `launch` itself failed only if it printed `launch: error:` " +
			"(with --json: an `error` record)", ""},
		{Usage, "the command line of launch is wrong: an unknown flag, an invalid value, no command",
			"read the hint; nothing was started anywhere"},
		{Unfit, "this node is unfit: one of its checks failed, or `launch bench` found it slow",
			"fix what the finding names, or leave the check out with --skip ID; " +
				"the other nodes wait for this node or a replacement"},
		{PeerUnfit, "another node is unfit: with --fail-fast, or in `launch check` and `launch bench`. " +
			"For a standby node: the job failed, and this node was not needed",
			"look at the node that the message names"},
		{Unreachable, "the store does not answer, or another program has its port; " +
			"or the first task of this node, which the other tasks follow, has ended",
			"check that the store host runs launch, and that its port is open"},
		{Bug, "a bug in launch, or its companion process was killed",
			"report it with the output of the same line and --dry-run --json"},
		{Duplicate, "two processes claim the same node rank, or a newer process has replaced this one",
			"give each node its own --node-rank, or omit it everywhere"},
		{Unwritten, "a subcommand or a dry run could not write its output to stdout",
			"free some space, or write it elsewhere; the output is incomplete"},
		{Missing, "the time ran out before all nodes joined",
			"start launch on the nodes that the message names, or raise --join-timeout"},
		{Config, "the settings contradict each other, or are impossible",
			"drop or change what the message names; trying again does not help"},
		{NotExec, "the command was found but cannot be executed", "check its permissions and its first line"},
		{NotFound, "the command was not found", "check the spelling and PATH on this node"},
		{129, "hung up (SIGHUP) before the command ran", ""},
		{130, "interrupted (SIGINT, Ctrl-C) before the command ran; the other nodes see that this one has left", ""},
		{143, "terminated (SIGTERM) before the command ran; the other nodes see that this one has left", ""},
	}
}
