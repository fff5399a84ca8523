package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight/peers"
	"launch/rendezvous"
)

// launch is the order of a start, and the only place that knows it. It
// returns only if the command was not executed (or, for a dry run, after it).
func (a *app) launch(ctx context.Context, argv []string) error {
	began := time.Now()
	var s record.Start
	var err error
	if s.Job, err = a.job(argv); err != nil {
		return a.alike(ctx, s.Job.Tasks, err)
	}
	if s.Job.Tasks.LocalSize > 1 && !a.o.dryRun {
		return a.task(ctx, &s, began)
	}
	return a.node(ctx, &s, began)
}

// node starts this node, from its checks on.
func (a *app) node(ctx context.Context, s *record.Start, began time.Time) error {
	if err := a.local(ctx, s); err != nil {
		return a.excused(ctx, s, err)
	}
	if a.o.dryRun {
		return a.dry(s, began)
	}
	if err := a.possible(s.Job); err != nil {
		return err
	}
	if !s.Job.Several() && a.o.given["bench"] {
		a.ui.Note("--bench measures between nodes, and this job has one: nothing is measured")
	}
	if !s.Job.Several() && a.o.restarts > 0 {
		return a.repeat(ctx, s)
	}
	if !s.Job.Several() {
		if err := a.plan(s, single(s.Job), netip.Addr{}); err != nil {
			return err
		}
		return a.become(ctx, s)
	}
	comp, err := a.meet(ctx, s, began)
	if err != nil {
		return a.excused(ctx, s, err)
	}
	if err := a.agree(ctx, s, comp, began); err != nil {
		comp.Leave(a.farewell(ctx, err))
		return a.spared(err)
	}
	if a.o.restarts > 0 {
		return a.supervise(ctx, s, comp)
	}
	return a.become(ctx, s)
}

// possible refuses what does not go together.
func (a *app) possible(j job.Job) error {
	what := ""
	switch {
	case a.o.restarts > 0:
		what = "--restarts"
	case j.Spares > 0:
		what = "--spares"
	case j.Min > 0:
		what = "--nnodes " + rendezvous.Count(j.Nodes.V, j.Min)
	}
	if what != "" && j.Tasks.LocalSize > 1 {
		return &exit.Error{Code: exit.Config, What: fmt.Sprintf("%s with %d tasks on a node (%s): launch must be the only one that starts processes here", what, j.Tasks.LocalSize, j.Tasks.From), Fix: "one task per node, or no " + what}
	}
	return nil
}

// meet finds the store, hosts it where that falls to this node, and registers.
func (a *app) meet(ctx context.Context, s *record.Start, began time.Time) (*companion.Client, error) {
	j := s.Job
	if err := awaitName(ctx, j); err != nil {
		return nil, err
	}
	place, err := a.place(ctx, s, a.o.joinTimeout)
	if err != nil {
		return nil, err
	}
	lo, hi, err := a.o.ports()
	if err != nil {
		return nil, err
	}
	self, err := a.self(s, place)
	if err != nil {
		return nil, err
	}
	if s.Job.ID.From.Tier == setting.Derived {
		a.ui.Note("%s (the job's name is derived from the %s; --job names it)", ui.Identity(j), j.ID.From.Name)
	} else {
		a.ui.Note("%s", ui.Identity(j))
	}
	a.ui.Note("waiting for %s, until %s (--join-timeout %s)", ui.Nodes(j.Nodes.V, j.Min), began.Add(a.o.joinTimeout).Format("15:04:05"), a.o.joinTimeout)
	return companion.Start(ctx, companion.Spec{
		Job: j.ID.V, Self: self, Endpoints: place.Endpoints, Embedded: j.Store.V.Embedded, Access: a.o.etcd(j.Store.V), Serve: place.Serve,
		Budget: a.o.joinTimeout, Port: wanted(j), Fixed: j.MasterPort.From.Tier == setting.Explicit && j.MasterPort.Set,
		Low: lo, High: hi, Listen: place.Listen, Guess: place.Guess, Secret: a.o.token, About: aboutOf(s.Node),
		LastCall: a.o.lastCall, StartTimeout: a.o.startTimeout, FailFast: a.o.failFast, JSON: a.ui.JSON(),
	}, a.tell)
}

// agree waits for the others until all of them may start: join, look at each
// other, decide. Whoever is unfit leaves, and the rest wait for another.
func (a *app) agree(ctx context.Context, s *record.Start, comp *companion.Client, began time.Time) error {
	deadline := began.Add(a.o.joinTimeout)
	for {
		if err := a.join(ctx, s, comp, began, deadline); err != nil {
			return a.missing(err, s.Job)
		}
		if s.Job.Spares > 0 { // it may have waited for hours
			deadline = time.Now().Add(a.o.joinTimeout)
		}
		a.ui.Note("%s", ui.World(*s.World, time.Since(began)))
		var d peers.Decision
		measured, err := a.benchFirst(ctx, s, comp, &deadline)
		if err == nil {
			d, err = a.decide(ctx, s, comp, deadline)
		}
		if broken, ok := errors.AsType[*rendezvous.BrokenError](err); ok {
			a.anew(broken)
			continue
		}
		if err != nil {
			return a.missing(err, s.Job)
		}
		if s.Peer = d.Findings; measured != nil {
			a.ui.Rails(*measured)
			s.Peer = slices.Concat(measured.Findings, d.Findings)
		}
		a.ui.Findings(s.Peer, false)
		if d.Go {
			break
		}
		if err := a.unfit(d, *s.World); err != nil {
			return err
		}
	}
	return a.release(ctx, s, comp)
}

// release follows the decision that all start. The others go by it already, so
// nothing but a signal, or a newer process in its place, keeps this node from
// starting too: not even the death of its companion.
func (a *app) release(ctx context.Context, s *record.Start, comp *companion.Client) error {
	err := comp.Go(ctx, s.World.Master)
	if sup, replaced := errors.AsType[*rendezvous.SupersededError](err); replaced {
		return sup
	}
	if err == nil && s.Job.Line.Kind == launcher.Torchrun && s.World.Rank != 0 && !a.o.KeepRdzv {
		a.awaitStore(ctx, comp.StoreReady())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && a.o.restarts == 0 {
		err = comp.Handoff(ctx)
	}
	if err != nil {
		a.ui.Note("%v; starting all the same, but launch status will not show this node", err)
	}
	return nil
}

// become hands over to the command; it returns only an error.
func (a *app) become(ctx context.Context, s *record.Start) error {
	if s.Job.Several() && s.World.Rank == 0 {
		a.ui.Plan(s.Plan, s.Command.Notes)
	}
	a.ui.Emit(false, "start", s)
	a.handOver(ctx, s)
	return a.execute(s)
}
