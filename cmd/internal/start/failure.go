package start

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/masterport"
	"launch/internal/taskgroup"
	"launch/preflight/hosts"
	"launch/rendezvous"
)

// advice is the exit status and the fix for an error that others wrap.
type advice struct {
	err  error
	code int
	fix  string
}

// advices returns the table of them; the first match counts.
func advices() []advice {
	const killed = "was it killed, or out of memory? dmesg | tail"
	return []advice{
		{handoff.ErrLimit, exit.Unfit, "ulimit -a   # shows the limits"},
		{masterport.ErrTaken, exit.Unfit,
			"end the process that uses it (ss -ltnp shows it), or choose another: --master-port or --port-range"},
		{rendezvous.ErrNoRoom, exit.Unfit, "give the store a folder with 12 MB: TMPDIR=/path, or host it elsewhere: --store"},
		{taskgroup.ErrAbsent, exit.Missing, "did it start? look at the output of the task with the lowest rank on this node"},
		{taskgroup.ErrSilent, exit.Missing, "did it start? look at the output of the task with the lowest rank on this node"},
		{taskgroup.ErrVanished, exit.Unreachable, killed},
		{taskgroup.ErrNoFolder, exit.Unfit, "remove what is in the way, or ask an administrator to"},
		{taskgroup.ErrTaken, exit.Duplicate, "start launch once in each task, not several times at once"},
		{errors.ErrUnsupported, exit.Unfit, "uname -r   # the kernel, or the container's seccomp profile, has no such call"},
		{companion.ErrSilent, exit.Bug, "ps -eo pid,stat,args | grep launch shows it; kill -CONT wakes a stopped one"},
		{companion.ErrTerminated, exit.Signal + int(syscall.SIGTERM),
			"start launch with the same line again; pkill, a cleanup script or systemd (KillUserProcesses) sends it"},
		{companion.ErrDied, exit.Bug, killed + "\nelse report it with the output of the same line and --dry-run --json"},
		{rendezvous.ErrAccess, exit.Config,
			"give what etcdctl needs: --store-ca, --store-cert with --store-key, --store-user\n" +
				"the user needs read and write below /launch/"},
		{rendezvous.ErrFull, exit.Unreachable, "launch store clean --store URL   # removes jobs that are over\n" +
			"then etcdctl compact, defrag and alarm disarm (etcdctl alarm list shows it)"},
		{rendezvous.ErrUnreachable, exit.Unreachable,
			"is --store right, does a store run there, and is its port open? on that host: ss -ltnp"},
	}
}

// Failure returns the exit status, text and advice for the error that ends a run.
func Failure(err error, caught os.Signal) exit.Error {
	if s, ok := caught.(syscall.Signal); ok {
		return *exit.Errorf(exit.Signal+int(s), "%s before the command ran", exit.SignalText(s))
	}
	for _, known := range []func(error) *exit.Error{ready, refused, stored} {
		if e := known(err); e != nil {
			return *e
		}
	}
	for _, a := range advices() {
		if !errors.Is(err, a.err) {
			continue
		}
		e := exit.Error{Code: a.code, What: err.Error(), Fix: a.fix}
		if cause := exhausted(err); cause != nil && a.err == rendezvous.ErrNoRoom {
			e.Fix += "\n" + cause.Fix
		}
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return *exit.Errorf(exit.Unreachable, "the store did not answer in time: %v", err).
			Do("is the store host overloaded, or out of reach? launch status --store HOST shows it")
	}
	if e := exhausted(err); e != nil {
		return *e
	}
	return *exit.Errorf(exit.Bug, "%v", err).Do("report it with the output of the same line and --dry-run --json")
}

// failure is Failure for this node. Of one that a signal ends it adds that the others see that, if it has joined them.
func (s *Start) failure(err error, caught os.Signal) exit.Error {
	e := Failure(err, caught)
	if caught != nil {
		e.What += s.seenToLeave()
	}
	return e
}

// seenToLeave says that the others see the end of this node; "": it has not reached them.
func (s *Start) seenToLeave() string {
	if !s.wait.hasAnswered() {
		return ""
	}
	return "; the other nodes see that this one has left"
}

// ready returns an error that has its status and advice already, or nil.
func ready(err error) *exit.Error {
	if e, ok := errors.AsType[*exit.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*storeaddr.NameError](err); ok {
		return exit.Errorf(exit.Unreachable, "the store host %v", e).
			Do("check the spelling; getent hosts %s asks this node's resolver\n"+
				"an address in its place, or a line in /etc/hosts, needs no name server", e.Host)
	}
	if e, ok := errors.AsType[*storeaddr.AddrError](err); ok {
		return exit.Errorf(exit.Config, "%v", e).
			Do("--addr takes an address, a network (10.0.0.0/16) or an interface of this node")
	}
	return nil
}

// refused returns the error of a node that the others refuse or replace, or nil.
func refused(err error) *exit.Error {
	if e, ok := errors.AsType[*rendezvous.DuplicateError](err); ok {
		return exit.Errorf(exit.Duplicate, "%v", e).
			Do("give each node its own --node-rank, or omit it on all: node ranks then go by arrival")
	}
	if e, ok := errors.AsType[*rendezvous.SupersededError](err); ok {
		return exit.Errorf(exit.Duplicate, "%v", e).Do("the newer process has taken this node's place: nothing to do here")
	}
	if e, ok := errors.AsType[*rendezvous.RunOverError](err); ok {
		return exit.Errorf(exit.Duplicate, "%v", e).
			Do("nothing runs here any more: start launch with the same line to take part in another run")
	}
	if e, ok := errors.AsType[*rendezvous.SizeError](err); ok {
		return exit.Errorf(exit.Config, "%v", e).Do("give the same number on every node: --nnodes %s", e.Want)
	}
	if e, ok := errors.AsType[*rendezvous.SpareError](err); ok {
		return exit.Errorf(exit.PeerUnfit, "the job failed and did not need this standby node: %s", e.Why)
	}
	if e, ok := errors.AsType[*rendezvous.UnfitError](err); ok {
		return exit.Errorf(exit.PeerUnfit, "%s", ui.Unfit(e.Notes, e.More)).
			Do("fix that node")
	}
	return nil
}

// stored returns the error of a store that is not the job's, or that long packets do not reach, or nil.
func stored(err error) *exit.Error {
	e, other := errors.AsType[*rendezvous.OtherStoreError](err)
	switch {
	case other && e.Job == "":
		return exit.Errorf(exit.Unreachable,
			"the store at %s is a `launch store`, not a store of this job: it needs a URL", e.Endpoint).
			Do("--store http://%s   # on every node", e.Endpoint)
	case other:
		return exit.Errorf(exit.Unreachable, "%v", e).
			Do("for the same job, give all nodes the same --job\n"+
				"for another job, choose another port on every node: --store %s", job.NextPort(e.Endpoint))
	case errors.Is(err, rendezvous.ErrUnreachable) && strings.Contains(err.Error(), rendezvous.LongPackets):
		return exit.Errorf(exit.Unreachable, "%v", err).Do("%s", hosts.FixMTU("HOST"))
	case errors.Is(err, rendezvous.ErrToken):
		return exit.Errorf(exit.Config, "%s", strings.Replace(err.Error(), "a secret", "a LAUNCH_TOKEN", 1)).
			Do("set the same LAUNCH_TOKEN on every node\nwithout one: --open-store on every node, if this network is trusted")
	case errors.Is(err, rendezvous.ErrForeign):
		return exit.Errorf(exit.Unreachable, "%v", err).
			Do("choose another port on every node: --store HOST:%d\n"+
				"where it is a colleague's and shall be: set the same LAUNCH_TOKEN on every node", job.DefaultStorePort+1)
	case errors.Is(err, rendezvous.ErrPortTaken):
		return exit.Errorf(exit.Unreachable, "%v by a program that is not this job's store", err).
			Do("give the store another port, on every node: --store HOST:%d", job.DefaultStorePort+1)
	}
	return nil
}
