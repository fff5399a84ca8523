// Package exit holds the one error type and the one table of exit statuses of
// launch. docs/exit-codes.md is generated from the table.
package exit

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// Exit statuses of launch itself. After the handoff the status is the
// command's own.
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

// Error is a failure with its exit status. Fix is what to do, a line to paste
// where there is one, or "".
type Error struct {
	Code int    `json:"code"`
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

func (e *Error) Error() string { return e.What }

// CannotWrite returns the error for a file that a flag names and that cannot be
// written.
func CannotWrite(flag, file string, err error) *Error {
	return &Error{Code: Usage, What: fmt.Sprintf("%s %s: %v", flag, file, err),
		Fix: "ls -ld " + filepath.Dir(file) + " " + file + "   # a file in a directory, both of which this user can write"}
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

// Table returns every exit status. A status is never reused for another meaning;
// new ones may be added, and an unknown one is a failure.
func Table() []Status {
	return []Status{
		{0, "the command's own status; once it runs any other is its own too, also one of 64 to 78 (`launch` then printed no line `launch: error:`, or with --json none of type `error`); 0 also of a node of --spares that was not needed", ""},
		{Usage, "the command line of launch is wrong: an unknown flag, a value that is none, no command", "read the hint; nothing was started anywhere"},
		{Unfit, "this node is unfit: one of its checks failed, or `launch bench` has found it slow", "mend what the finding names, or leave the check out with --skip ID; the other nodes wait for this node or another in its place"},
		{PeerUnfit, "another node is unfit, and --fail-fast was given or `launch check` or `launch bench` has found it; or, for a node of --spares that was not needed, the job failed", "look at the node that the message names"},
		{Unreachable, "the store could not be reached, or its port is taken by something else; or the first task of this node, which the others follow, is gone", "check that the node that hosts it runs launch, and that its port is open"},
		{Bug, "a bug in launch, or its companion process was killed", "report it with the output of the same line and --dry-run --json"},
		{Duplicate, "two processes claim the same node rank, or a newer one replaced this one", "give each node its own --node-rank, or none"},
		{Unwritten, "what a subcommand or a dry run prints could not be written to stdout", "make room, or write it elsewhere; what was written is not all"},
		{Missing, "the time ran out before all nodes were here", "start launch on the nodes that the message names, or raise --join-timeout"},
		{Config, "the settings contradict each other or cannot be", "drop or change what the message names; trying again does not help"},
		{NotExec, "the command was found but cannot be executed", "check its permissions and its first line"},
		{NotFound, "the command was not found", "check the spelling and PATH on this node"},
		{129, "hung up (SIGHUP) before the command ran", ""},
		{130, "interrupted (SIGINT, Ctrl-C) before the command ran; the other nodes are told", ""},
		{143, "terminated (SIGTERM) before the command ran; the other nodes are told", ""},
	}
}
