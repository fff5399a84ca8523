package start

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/masterport"
	"launch/internal/taskgroup"
	"launch/rendezvous"
)

// Failure says why launch ends: the one place that maps errors to exit
// statuses and gives advice.
func Failure(err error, caught os.Signal) exit.Error {
	if s, ok := caught.(syscall.Signal); ok {
		return exit.Error{Code: exit.Signal + int(s), What: fmt.Sprintf("%s before the command ran; the other nodes are told", exit.SignalText(s))}
	}
	if e, ok := errors.AsType[*exit.Error](err); ok {
		return exit.Error{Code: e.Code, What: e.What, Fix: e.Fix}
	}
	if f, ok := RendezvousFailure(err); ok {
		return f
	}
	if e, ok := errors.AsType[*storeaddr.NameError](err); ok {
		return exit.Error{Code: exit.Unreachable, What: "the store's host " + e.Error(), Fix: "check the spelling; getent hosts " + e.Host + " asks this node's resolver"}
	}
	if e, ok := errors.AsType[*storeaddr.AddrError](err); ok {
		return exit.Error{Code: exit.Config, What: e.Error(), Fix: "--addr takes an address, a network (10.0.0.0/16) or an interface of this node"}
	}
	switch {
	case errors.Is(err, masterport.ErrTaken):
		return exit.Error{Code: exit.Unfit, What: err.Error(), Fix: "end what holds it (ss -ltnp shows it), or give another: --master-port or --port-range"}
	case errors.Is(err, rendezvous.ErrNoRoom):
		return exit.Error{Code: exit.Unfit, What: err.Error(), Fix: "give the store a folder with 12 MB: TMPDIR=/path, or host it elsewhere: --store"}
	case errors.Is(err, taskgroup.ErrAbsent), errors.Is(err, taskgroup.ErrSilent):
		return exit.Error{Code: exit.Missing, What: err.Error(), Fix: "did it start? look at the output of the task with the lowest rank on this node"}
	case errors.Is(err, taskgroup.ErrVanished), errors.Is(err, taskgroup.ErrStranger):
		return exit.Error{Code: exit.Unreachable, What: err.Error(), Fix: "was it killed, or out of memory? dmesg | tail"}
	case errors.Is(err, taskgroup.ErrTaken):
		return exit.Error{Code: exit.Duplicate, What: err.Error(), Fix: "start launch once in each task, not several times at once"}
	case errors.Is(err, errors.ErrUnsupported):
		return exit.Error{Code: exit.Unfit, What: "this kernel, or the container's seccomp profile, has no pidfd_open: " + err.Error(), Fix: "a job of several nodes needs Linux 5.3 or newer, or a profile that allows pidfd_open"}
	case errors.Is(err, companion.ErrSilent):
		return exit.Error{Code: exit.Bug, What: err.Error(), Fix: "ps -eo pid,stat,args | grep launch shows it; kill -CONT wakes a stopped one"}
	case errors.Is(err, companion.ErrDied):
		return exit.Error{Code: exit.Bug, What: "the companion process of this node died", Fix: "was it killed, or out of memory? dmesg | tail; else report it with the output of --dry-run --json"}
	case errors.Is(err, context.DeadlineExceeded):
		return exit.Error{Code: exit.Unreachable, What: "no answer in time: " + err.Error()}
	}
	return exit.Error{Code: exit.Bug, What: err.Error(), Fix: "report it with the output of the same line and --dry-run --json"}
}

func RendezvousFailure(err error) (exit.Error, bool) {
	if e, ok := errors.AsType[*rendezvous.DuplicateError](err); ok {
		return exit.Error{Code: exit.Duplicate, What: e.Error(), Fix: "give each node its own --node-rank, or none: ranks then go by arrival"}, true
	}
	if e, ok := errors.AsType[*rendezvous.SupersededError](err); ok {
		return exit.Error{Code: exit.Duplicate, What: e.Error()}, true
	}
	if e, ok := errors.AsType[*rendezvous.SizeError](err); ok {
		return exit.Error{Code: exit.Config, What: e.Error(), Fix: fmt.Sprintf("type the same number on every node: --nnodes %s", e.Want)}, true
	}
	if e, ok := errors.AsType[*rendezvous.SpareError](err); ok {
		return exit.Error{Code: exit.PeerUnfit, What: fmt.Sprintf("the job failed, and this spare node was not needed: %s", e.Why)}, true
	}
	if e, ok := errors.AsType[*rendezvous.UnfitError](err); ok {
		return exit.Error{Code: exit.PeerUnfit, What: ui.Unfit(e.Notes, e.More), Fix: "mend it there; without --fail-fast the rest would wait for it, or another node in its place"}, true
	}
	if e, ok := errors.AsType[*rendezvous.OtherStoreError](err); ok && e.Job == "" {
		return exit.Error{Code: exit.Unreachable, What: "a `launch store` runs at " + e.Endpoint + ": it belongs to no job, and is reached as an etcd is",
			Fix: "--store http://" + e.Endpoint + "   # on every node"}, true
	} else if ok {
		return exit.Error{Code: exit.Unreachable, What: e.Error(), Fix: "is it meant to be this job? then give all nodes the same --job, or none\nelse give this job a port of its own, on every node: --store " + job.NextPort(e.Endpoint)}, true
	}
	switch {
	case errors.Is(err, rendezvous.ErrToken):
		return exit.Error{Code: exit.Config, What: tokenWords.Replace(err.Error()), Fix: "set the same LAUNCH_TOKEN on every node, or on none"}, true
	case errors.Is(err, rendezvous.ErrAccess):
		return exit.Error{Code: exit.Config, What: err.Error(), Fix: "give what etcdctl would need: --store-ca, --store-cert with --store-key, --store-user; the user needs read and write below /launch/"}, true
	case errors.Is(err, rendezvous.ErrPortTaken):
		return exit.Error{Code: exit.Unreachable, What: err.Error() + " by something that is not this job's store",
			Fix: fmt.Sprintf("give the store another port, on every node: --store HOST:%d", job.DefaultStorePort+1)}, true
	case errors.Is(err, rendezvous.ErrFull):
		return exit.Error{Code: exit.Unreachable, What: err.Error(), Fix: "launch store clean --store URL forgets jobs that are over; then etcdctl compact, defrag and alarm disarm (etcdctl alarm list shows it)"}, true
	case errors.Is(err, rendezvous.ErrUnreachable):
		return exit.Error{Code: exit.Unreachable, What: err.Error(), Fix: "is --store right, does something serve there, and is its port open? on that host: ss -ltnp"}, true
	}
	return exit.Error{}, false
}

// tokenWords put the variable's name into what rendezvous says of secrets, and
// who has which.
var tokenWords = strings.NewReplacer("a secret", "a LAUNCH_TOKEN",
	": it has another one", ": this node's is not the one of the store", ": it has none", ": this node has one, the store has none",
	": it asks for one", ": the store asks for one")
