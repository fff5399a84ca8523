package start

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/companion"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/supervise"
	"launch/rendezvous"
)

// supervise runs the command as a child, and starts it again with all other nodes when it fails on one
// or a node is lost. The exit status is the command's.
func (s *Start) supervise(ctx context.Context) error {
	for {
		fate, err := s.attempt(ctx)
		if err != nil || !fate.Again {
			why := fate.Why
			if sig, ok := s.caught().(syscall.Signal); ok {
				why = endedBy(sig)
			} else if why == "" {
				why = "its command has ended"
			}
			s.leave(why)
			return err
		}
		s.began = time.Now()
		s.UI.Note("%s; starting again on all nodes (restart %d of %d)", fate.Why, fate.Restart, fate.Restarts)
		s.Job.Notes = nil // printed already
		s.deadline = s.began.Add(s.Opt.JoinTimeout)
		comeBack := func(s *Start, ctx context.Context) error { return s.comp.Return(ctx) }
		if err := s.do(ctx, (*Start).detect, (*Start).check, (*Start).verdict, (*Start).clearGroup, comeBack, agree,
			begin); err != nil {
			return err
		}
	}
}

// attempt runs the command once, until it has ended on all nodes.
func (s *Start) attempt(ctx context.Context) (rendezvous.Fate, error) {
	s.announce()
	run, err := s.spawn()
	if err != nil {
		return rendezvous.Fate{Why: "its command cannot be executed"}, err
	}
	type answer struct {
		fate rendezvous.Fate
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		f, err := s.comp.Fate(context.WithoutCancel(ctx), run.PID())
		answers <- answer{f, err}
	}()
	s.wait.whileRunning(func(why string) { s.storeLost(run, why) })
	defer s.wait.whileRunning(nil)
	done, hung := run.Done(), s.hung(ctx, run)
	for {
		select {
		case h := <-hung:
			return rendezvous.Fate{}, s.endHung(ctx, run, h)
		case <-done:
			done = nil
			if s.status = run.Status(); run.Interrupted() {
				return rendezvous.Fate{Why: "its command was interrupted"}, s.end(run)
			}
			go s.comp.Ended(s.status) // a companion that is stopped hears of it later
			awaits := "the other nodes"
			if s.wait.withoutStore() {
				awaits = s.forStore()
			}
			s.UI.Note("the command ended on this node with %d; waiting for %s", s.status, awaits)
		case r := <-answers:
			if r.err != nil {
				return rendezvous.Fate{}, s.severed(run, r.err)
			}
			return s.obeyFate(run, r.fate)
		case <-ctx.Done():
			return rendezvous.Fate{}, s.end(run)
		}
	}
}

// forStore returns until when a node waits for a lost store once its command has ended.
func (s *Start) forStore() string {
	return fmt.Sprintf("the store until %s (--join-timeout %s)", time.Now().Add(s.Opt.JoinTimeout).Format("15:04:05"),
		s.Opt.JoinTimeout)
}

// storeLost reports that no node can start again, and until when this one waits.
func (s *Start) storeLost(run *supervise.Attempt, why string) {
	wait := fmt.Sprintf("the command runs on, and once it has ended, this node waits up to %s for the store "+
		"(--join-timeout)", s.Opt.JoinTimeout)
	select {
	case <-run.Done():
		wait = "this node waits for " + s.forStore()
	default:
	}
	f := finding.Warnf("the store is lost (%s): without it the nodes cannot start again; %s", why, wait).
		Named("store.lost")
	switch at := s.Job.Store.V; {
	case ofAPod(s.Job):
		f = f.Do("%s   # a new pod %s starts all again\nof a lost machine: kubectl taint node NODE "+
			"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", getPods(*s.Job.Pod), at.Host)
	case at.Embedded:
		host := at.Host
		if s.store.At.IsValid() {
			host = s.store.At.String()
		}
		f = f.Do("start the same line on %s again: then all nodes start again\n"+
			"a store that outlives its nodes: launch store, on a machine that stays", host)
	}
	s.UI.Findings(finding.Report{f}, false)
}

// severed ends the command of a node that has lost its place: the others start again without it. If the
// command has ended already, its own status counts, unless only the store prevents a restart.
func (s *Start) severed(run *supervise.Attempt, why error) error {
	_, over := errors.AsType[*rendezvous.RunOverError](why)
	select {
	case <-run.Done():
		s.status = run.Status()
		if over && s.renews() && s.status != 0 {
			break // it may have failed because the node was lost
		}
		if s.status != 0 && errors.Is(why, rendezvous.ErrUnreachable) {
			return exit.Errorf(exit.Unreachable, "the command ended on this node with %d, and without the store it cannot "+
				"start again: %v", s.status, why).Do("start the same line again on all nodes")
		}
		s.UI.Note("%v; the exit status is the command's own", why)
		return nil
	default:
		s.UI.Note("%v; ending the command on this node: the other nodes may start again without it", why)
	}
	if err := run.Stop(companion.StopGrace); err != nil {
		return stuck(err)
	}
	return why
}

// obeyFate ends the command if the nodes start again, or have failed for good.
func (s *Start) obeyFate(run *supervise.Attempt, f rendezvous.Fate) (rendezvous.Fate, error) {
	select {
	case <-run.Done():
	default:
		s.UI.Note("%s; ending the command on this node", f.Why)
	}
	if !f.Again && f.Why == "" {
		return f, nil
	}
	if err := run.Stop(companion.StopGrace); err != nil {
		return f, stuck(err)
	}
	s.status = run.Status()
	if !f.Again {
		s.UI.Note("%s; no restarts left (--restarts %d)", f.Why, f.Restarts)
	}
	return f, nil
}

// stuck returns the error for processes that do not end: they may hold GPU memory and ports.
func stuck(err error) error {
	return exit.Errorf(exit.Unfit, "processes of the command do not end: %v", err).
		Do("they hang in the kernel, mostly in a driver: ps -eo pid,stat,wchan,args; reboot the node")
}

// endNotice is how long a command may take to end before a line says how to end it at once.
const endNotice = 3 * time.Second

// end passes on the signal that ends launch, waits for the command, and ends what it has left. A second signal kills
// the command and all that it has started.
func (s *Start) end(run *supervise.Attempt) error {
	again, stop := handoff.Again()
	defer stop()
	s.pass(run)
	ended := make(chan error, 1)
	go func() {
		<-run.Done()
		ended <- run.Clear(companion.StopGrace)
	}()
	notice := time.After(endNotice)
	for {
		var err error
		select {
		case <-notice:
			s.UI.Note("the command and what it has started have not ended; the same signal once more kills them")
			continue
		case <-again:
			s.UI.Note("a second signal: killing the command and what it has started")
			err = run.Stop(0)
		case err = <-ended:
		}
		if err != nil {
			return stuck(err)
		}
		s.status = run.Status()
		return nil
	}
}

// pass forwards a signal that reached launch alone; a terminal signals all foreground processes.
func (s *Start) pass(run *supervise.Attempt) {
	sig, _ := s.caught().(syscall.Signal)
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
func (s *Start) spawn() (*supervise.Attempt, error) {
	path, env, err := s.prepared()
	if err != nil {
		return nil, err
	}
	if s.comp != nil {
		env = append(env, companion.Mark(s.comp.Self.ID))
	}
	run, err := supervise.Start(path, s.Command.Argv, env)
	if err != nil {
		return nil, notExecutable(path, err)
	}
	return run, nil
}

// repeat runs the command of a world of one node, and starts it again when it fails.
func (s *Start) repeat(ctx context.Context) error {
	s.announce()
	for n := 1; ; n++ {
		run, err := s.spawn()
		if err != nil {
			return err
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
			return s.end(run)
		}
		s.status = run.Status()
		switch {
		case s.status == 0:
			return nil
		case run.Interrupted():
			return s.end(run)
		}
		if n > s.Opt.Restarts {
			s.UI.Note("the command ended with %d; no restarts left (--restarts %d)", s.status, s.Opt.Restarts)
			return nil
		}
		if err := run.Stop(0); err != nil {
			return stuck(err)
		}
		s.UI.Note("the command ended with %d; starting it again (restart %d of %d)", s.status, n, s.Opt.Restarts)
	}
}
