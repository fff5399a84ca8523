package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"launch/internal/companion"
	"launch/internal/follow"
	"launch/internal/job"
	"launch/internal/meeting"
	"launch/internal/port"
	"launch/internal/ui"
	"launch/rendezvous"
)

// Exit statuses of launch itself; after the handoff the status is the
// command's own. docs/exit-codes.md is generated from exitCodes.
const (
	exitUsage       = 64
	exitUnfit       = 65
	exitPeerUnfit   = 66
	exitUnreachable = 69
	exitBug         = 70
	exitDuplicate   = 73
	exitUnwritten   = 74
	exitMissing     = 75
	exitConfig      = 78
	exitNotExec     = 126
	exitNotFound    = 127
	exitSignal      = 128
)

// exitCode is one row of the table.
type exitCode struct {
	code          int
	meaning, todo string
}

// exitCodes is the table. Codes are never reused for another meaning; new ones
// may be added, and one that is not known is a failure.
func exitCodes() []exitCode {
	return []exitCode{
		{0, "the command's own status; once it runs any other is its own too, also one of 64 to 78 (`launch` then printed no line `launch: error:`, or with --json none of type `error`); 0 also of a node of --spares that was not needed", ""},
		{exitUsage, "the command line of launch is wrong: an unknown flag, a value that is none, no command", "read the hint; nothing was started anywhere"},
		{exitUnfit, "this node is unfit: one of its checks failed, or `launch bench` has found it slow", "mend what the finding names, or leave the check out with --skip ID; the other nodes wait for this node or another in its place"},
		{exitPeerUnfit, "another node is unfit, and --fail-fast was given or `launch check` or `launch bench` has found it; or, for a node of --spares that was not needed, the job failed", "look at the node that the message names"},
		{exitUnreachable, "the store could not be reached, or its port is taken by something else; or the first task of this node, which the others follow, is gone", "check that the node that hosts it runs launch, and that its port is open"},
		{exitBug, "a bug in launch, or its companion process was killed", "report it with the output of the same line and --dry-run --json"},
		{exitDuplicate, "two processes claim the same node rank, or a newer one replaced this one", "give each node its own --node-rank, or none"},
		{exitUnwritten, "what a subcommand or a dry run prints could not be written to stdout", "make room, or write it elsewhere; what was written is not all"},
		{exitMissing, "the time ran out before all nodes were here", "start launch on the nodes that the message names, or raise --join-timeout"},
		{exitConfig, "the settings contradict each other or cannot be", "drop or change what the message names; trying again does not help"},
		{exitNotExec, "the command was found but cannot be executed", "check its permissions and its first line"},
		{exitNotFound, "the command was not found", "check the spelling and PATH on this node"},
		{129, "hung up (SIGHUP) before the command ran", ""},
		{130, "interrupted (SIGINT, Ctrl-C) before the command ran; the other nodes are told", ""},
		{143, "terminated (SIGTERM) before the command ran; the other nodes are told", ""},
	}
}

// failure says why launch ends: the one place that maps errors to exit
// statuses and gives advice.
func failure(err error, caught os.Signal) ui.Failure {
	if s, ok := caught.(syscall.Signal); ok {
		return ui.Failure{Code: exitSignal + int(s), What: fmt.Sprintf("%s before the command ran; the other nodes are told", signalWord(s))}
	}
	if f, ok := errors.AsType[*ended](err); ok {
		return f.Failure
	}
	if e, ok := errors.AsType[*job.Error](err); ok {
		return ui.Failure{Code: e.Code, What: e.What, Fix: e.Fix}
	}
	if f, ok := rendezvousFailure(err); ok {
		return f
	}
	if e, ok := errors.AsType[*meeting.NameError](err); ok {
		return ui.Failure{Code: exitUnreachable, What: "the store's host " + e.Error(), Fix: "check the spelling; getent hosts " + e.Host + " asks this node's resolver"}
	}
	if e, ok := errors.AsType[*meeting.AddrError](err); ok {
		return ui.Failure{Code: exitConfig, What: e.Error(), Fix: "--addr takes an address, a network (10.0.0.0/16) or an interface of this node"}
	}
	switch {
	case errors.Is(err, port.ErrTaken):
		return ui.Failure{Code: exitUnfit, What: err.Error(), Fix: "end what holds it (ss -ltnp shows it), or give another: --master-port or --port-range"}
	case errors.Is(err, rendezvous.ErrNoRoom):
		return ui.Failure{Code: exitUnfit, What: err.Error(), Fix: "give the store a folder with 12 MB: TMPDIR=/path, or host it elsewhere: --store"}
	case errors.Is(err, follow.ErrAbsent), errors.Is(err, follow.ErrSilent):
		return ui.Failure{Code: exitMissing, What: err.Error(), Fix: "did it start? look at the output of the task with the lowest rank on this node"}
	case errors.Is(err, follow.ErrVanished), errors.Is(err, follow.ErrStranger):
		return ui.Failure{Code: exitUnreachable, What: err.Error(), Fix: "was it killed, or out of memory? dmesg | tail"}
	case errors.Is(err, follow.ErrTaken):
		return ui.Failure{Code: exitDuplicate, What: err.Error(), Fix: "start launch once in each task, not several times at once"}
	case errors.Is(err, errors.ErrUnsupported):
		return ui.Failure{Code: exitUnfit, What: "this kernel, or the container's seccomp profile, has no pidfd_open: " + err.Error(), Fix: "a job of several nodes needs Linux 5.3 or newer, or a profile that allows pidfd_open"}
	case errors.Is(err, companion.ErrSilent):
		return ui.Failure{Code: exitBug, What: err.Error(), Fix: "ps -eo pid,stat,args | grep launch shows it; kill -CONT wakes a stopped one"}
	case errors.Is(err, companion.ErrDied):
		return ui.Failure{Code: exitBug, What: "the companion process of this node died", Fix: "was it killed, or out of memory? dmesg | tail; else report it with the output of --dry-run --json"}
	case errors.Is(err, context.DeadlineExceeded):
		return ui.Failure{Code: exitUnreachable, What: "no answer in time: " + err.Error()}
	}
	return ui.Failure{Code: exitBug, What: err.Error(), Fix: "report it with the output of the same line and --dry-run --json"}
}

func rendezvousFailure(err error) (ui.Failure, bool) {
	if e, ok := errors.AsType[*rendezvous.DuplicateError](err); ok {
		return ui.Failure{Code: exitDuplicate, What: e.Error(), Fix: "give each node its own --node-rank, or none: ranks then go by arrival"}, true
	}
	if e, ok := errors.AsType[*rendezvous.SupersededError](err); ok {
		return ui.Failure{Code: exitDuplicate, What: e.Error()}, true
	}
	if e, ok := errors.AsType[*rendezvous.SizeError](err); ok {
		return ui.Failure{Code: exitConfig, What: e.Error(), Fix: fmt.Sprintf("type the same number on every node: --nnodes %s", e.Want)}, true
	}
	if e, ok := errors.AsType[*rendezvous.SpareError](err); ok {
		return ui.Failure{Code: exitPeerUnfit, What: fmt.Sprintf("the job failed, and this spare node was not needed: %s", e.Why)}, true
	}
	if e, ok := errors.AsType[*rendezvous.UnfitError](err); ok {
		return ui.Failure{Code: exitPeerUnfit, What: ui.Unfit(e.Notes, e.More), Fix: "mend it there; without --fail-fast the rest would wait for it, or another node in its place"}, true
	}
	if e, ok := errors.AsType[*rendezvous.OtherStoreError](err); ok && e.Job == "" {
		return ui.Failure{Code: exitUnreachable, What: "a `launch store` runs at " + e.Endpoint + ": it belongs to no job, and is reached as an etcd is",
			Fix: "--store http://" + e.Endpoint + "   # on every node"}, true
	} else if ok {
		return ui.Failure{Code: exitUnreachable, What: e.Error(), Fix: "is it meant to be this job? then give all nodes the same --job, or none\nelse give this job a port of its own, on every node: --store " + job.NextPort(e.Endpoint)}, true
	}
	switch {
	case errors.Is(err, rendezvous.ErrToken):
		return ui.Failure{Code: exitConfig, What: tokenWords.Replace(err.Error()), Fix: "set the same LAUNCH_TOKEN on every node, or on none"}, true
	case errors.Is(err, rendezvous.ErrAccess):
		return ui.Failure{Code: exitConfig, What: err.Error(), Fix: "give what etcdctl would need: --store-ca, --store-cert with --store-key, --store-user; the user needs read and write below /launch/"}, true
	case errors.Is(err, rendezvous.ErrPortTaken):
		return ui.Failure{Code: exitUnreachable, What: err.Error() + " by something that is not this job's store",
			Fix: fmt.Sprintf("give the store another port, on every node: --store HOST:%d", job.DefaultStorePort+1)}, true
	case errors.Is(err, rendezvous.ErrFull):
		return ui.Failure{Code: exitUnreachable, What: err.Error(), Fix: "launch store clean --store URL forgets jobs that are over; then etcdctl compact, defrag and alarm disarm (etcdctl alarm list shows it)"}, true
	case errors.Is(err, rendezvous.ErrUnreachable):
		return ui.Failure{Code: exitUnreachable, What: err.Error(), Fix: "is --store right, does something serve there, and is its port open? on that host: ss -ltnp"}, true
	}
	return ui.Failure{}, false
}

// tokenWords put the variable's name into what rendezvous says of secrets, and
// who has which.
var tokenWords = strings.NewReplacer("a secret", "a LAUNCH_TOKEN",
	": it has another one", ": this node's is not the one of the store", ": it has none", ": this node has one, the store has none",
	": it asks for one", ": the store asks for one")

// ended is an error that says itself how launch ends.
type ended struct{ ui.Failure }

func (e *ended) Error() string { return e.What }

func signalWord(s syscall.Signal) string {
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
