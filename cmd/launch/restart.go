package main

import (
	"context"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/internal/exit"
	"launch/internal/supervise"
	"launch/rendezvous"
)

// stopGrace is how long a command may take to end before it is killed, when
// all start again: torchrun gives its workers 30 s (its agent's
// shutdown timeout) and then kills them itself.
const stopGrace = 35 * time.Second

// supervise stays beside the command and starts it again, with all the others,
// when it fails on one node or a node is lost. It returns when there is nothing
// left to start; the exit status is the command's.
func (a *app) supervise(ctx context.Context, s *record.Start, comp *companion.Client) error {
	for {
		fate, err := a.attempt(ctx, s, comp)
		if err != nil || !fate.Again {
			why := fate.Why
			if sig, ok := a.caught().(syscall.Signal); ok {
				why = signalWord(sig)
			} else if why == "" {
				why = "its command has ended"
			}
			comp.Leave(why)
			return err
		}
		began := time.Now()
		a.ui.Note("%s; starting again on all nodes (restart %d of %d)", fate.Why, fate.Restart, fate.Restarts)
		s.Job.Notes = nil // said already
		if err = a.local(ctx, s); err == nil {
			if err = comp.Return(ctx); err == nil {
				err = a.agree(ctx, s, comp, began)
			}
		}
		if err != nil {
			comp.Leave(a.farewell(ctx, err))
			return a.spared(err)
		}
	}
}

// attempt runs the command once, until the run is over here and elsewhere.
func (a *app) attempt(ctx context.Context, s *record.Start, comp *companion.Client) (rendezvous.Fate, error) {
	if s.World.Rank == 0 {
		a.ui.Plan(s.Plan, s.Command.Notes)
	}
	a.ui.Emit(false, "start", s)
	run, err := a.spawn(s)
	if err != nil {
		return rendezvous.Fate{Why: "its command cannot be executed"}, err
	}
	type answer struct {
		fate rendezvous.Fate
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		f, err := comp.Fate(context.WithoutCancel(ctx))
		answers <- answer{f, err}
	}()
	done := run.Done()
	for {
		select {
		case <-done:
			done = nil
			if a.code = run.Status(); run.Interrupted() || comp.Ended(a.code) != nil {
				return rendezvous.Fate{Why: "its command was interrupted"}, nil
			}
			a.ui.Note("the command ended here with %d; waiting for the other nodes", a.code)
		case r := <-answers:
			if r.err != nil {
				return rendezvous.Fate{}, a.severed(run, r.err)
			}
			return a.obey(run, r.fate)
		case <-ctx.Done():
			a.pass(run)
			<-run.Done()
			a.code = run.Status()
			return rendezvous.Fate{}, nil
		}
	}
}

// severed ends a run whose place nobody keeps any more: the others start again
// without this node, and the command must not run beside that. Where it has
// ended already, its own status stands.
func (a *app) severed(run *supervise.Attempt, why error) error {
	select {
	case <-run.Done():
		a.code = run.Status()
		a.ui.Note("%v; ending with the command's own status", why)
		return nil
	default:
	}
	a.ui.Note("%v; ending the command here, since the others may start again without it", why)
	if err := run.Stop(stopGrace); err != nil {
		return stuck(err)
	}
	return why
}

// obey ends the command where the others start again, or have failed for good.
func (a *app) obey(run *supervise.Attempt, f rendezvous.Fate) (rendezvous.Fate, error) {
	select {
	case <-run.Done():
	default:
		a.ui.Note("%s; ending the command here", f.Why)
	}
	if !f.Again && f.Why == "" {
		return f, nil
	}
	if err := run.Stop(stopGrace); err != nil {
		return f, stuck(err)
	}
	a.code = run.Status()
	if !f.Again {
		a.ui.Note("%s; no restart is left (--restarts %d)", f.Why, f.Restarts)
	}
	return f, nil
}

// stuck is why nothing starts here again: the GPU memory and the ports of what
// does not end may still be taken.
func stuck(err error) error {
	return &exit.Error{Code: exit.Unfit, What: "what the command started here does not end: " + err.Error(),
		Fix: "it is stuck in the kernel, mostly in a driver: ps -eo pid,stat,wchan,args; reboot the node"}
}

// pass hands a signal on that reached launch alone. What a terminal sends, it
// sends to all of its foreground processes.
func (a *app) pass(run *supervise.Attempt) {
	sig, _ := a.caught().(syscall.Signal)
	if sig == 0 {
		return
	}
	if sig == unix.SIGINT {
		if front, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP); err == nil && front == unix.Getpgrp() {
			return
		}
	}
	run.Signal(sig)
}

// spawn starts the command as a child.
func (a *app) spawn(s *record.Start) (*supervise.Attempt, error) {
	path, env, err := a.prepared(s)
	if err != nil {
		return nil, err
	}
	run, err := supervise.Start(path, s.Command.Argv, env)
	if err != nil {
		return nil, notExecutable(path, err)
	}
	return run, nil
}

// repeat is supervise for a world of one node, which nobody else watches.
func (a *app) repeat(ctx context.Context, s *record.Start) error {
	if err := a.plan(s, single(s.Job), netip.Addr{}); err != nil {
		return err
	}
	a.ui.Emit(false, "start", s)
	for n := 1; ; n++ {
		run, err := a.spawn(s)
		if err != nil {
			return err
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
			a.pass(run)
			<-run.Done()
		}
		a.code = run.Status()
		if a.code == 0 || run.Interrupted() || ctx.Err() != nil {
			return nil
		}
		if n > a.o.restarts {
			a.ui.Note("the command ended with %d; no restart is left (--restarts %d)", a.code, a.o.restarts)
			return nil
		}
		if err := run.Stop(0); err != nil {
			return stuck(err)
		}
		a.ui.Note("the command ended with %d; starting it again (restart %d of %d)", a.code, n, a.o.restarts)
	}
}
