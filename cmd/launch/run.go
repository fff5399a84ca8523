package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"launch/envgen"
	"launch/internal/companion"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/peer"
	"launch/internal/record"
	"launch/internal/ui"
	"launch/preflight"
	"launch/rendezvous"
)

// launch is the order of a start, and the only place that knows it. It
// returns only if the command was not executed (or, for a dry run, after it).
func (a *app) launch(ctx context.Context, argv []string) error {
	began := time.Now()
	var s record.Start
	var err error
	if s.Job, err = a.job(argv); err != nil {
		return err
	}
	if err := a.local(ctx, &s); err != nil {
		return err
	}
	if a.o.dryRun {
		return a.dry(&s)
	}
	if !s.Job.Several() {
		if err := a.plan(&s, single(s.Job), netip.Addr{}); err != nil {
			return err
		}
		return a.become(&s)
	}
	comp, err := a.meet(ctx, &s)
	if err != nil {
		return err
	}
	if err := a.agree(ctx, &s, comp, began); err != nil {
		comp.Leave(a.farewell(ctx, err))
		return err
	}
	return a.become(&s)
}

// meet finds the store, hosts it where that falls to this node, and registers.
func (a *app) meet(ctx context.Context, s *record.Start) (*companion.Client, error) {
	j := s.Job
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
	if s.Job.ID.From.Tier == job.Derived {
		a.ui.Note("%s (the job's name is derived from store and command; --job names it)", ui.Identity(j))
	} else {
		a.ui.Note("%s", ui.Identity(j))
	}
	return companion.Start(ctx, companion.Spec{
		Job: j.ID.V, Self: self, Endpoints: place.Endpoints, Embedded: j.Store.V.Embedded, Serve: place.Serve,
		Budget: a.o.joinTimeout, Port: wanted(j), Fixed: j.MasterPort.From.Tier == job.Explicit && j.MasterPort.Set,
		Low: lo, High: hi, Listen: place.Listen, Secret: a.o.token,
	}, a.tell)
}

// agree waits for the others until all of them may start: join, look at each
// other, decide. Whoever is unfit leaves, and the rest wait for another.
func (a *app) agree(ctx context.Context, s *record.Start, comp *companion.Client, began time.Time) error {
	deadline := began.Add(a.o.joinTimeout)
	for {
		stop := a.waiting(s.Job, began, deadline)
		w, err := comp.Join(ctx, time.Until(deadline))
		stop()
		if err != nil {
			return a.missing(err, s.Job)
		}
		s.World = &w
		a.ui.Note("%s", ui.World(w, time.Since(began)))
		d, err := a.decide(ctx, s, comp, deadline)
		if broken, ok := errors.AsType[*rendezvous.BrokenError](err); ok {
			a.ui.Note("%s; waiting for it or another in its place", broken.Why)
			continue
		}
		if err != nil {
			return a.missing(err, s.Job)
		}
		s.Peer = d.Findings
		a.ui.Findings(d.Findings, false)
		if d.Go {
			break
		}
		if err := a.unfit(d, w); err != nil {
			return err
		}
	}
	// From here on no error may come that another node would have to know of.
	w := s.World
	if err := comp.Go(ctx, w.Master()); err != nil {
		return err
	}
	if s.Job.Line.Kind == launcher.Torchrun && w.Rank != 0 && !a.o.KeepRdzv {
		a.awaitStore(ctx, comp.StoreReady())
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return comp.Handoff(ctx, false)
}

// decide posts what this node has to say and returns the one decision. The
// plan is made before it, so that a line that cannot be run ends nobody else.
func (a *app) decide(ctx context.Context, s *record.Start, comp *companion.Client, deadline time.Time) (preflight.Decision, error) {
	w := s.World
	m := w.Master()
	if err := a.plan(s, a.world(s), w.Roster[w.Rank].Addr); err != nil {
		return preflight.Decision{}, err
	}
	post := preflight.Post{Rank: w.Rank, Name: w.Roster[w.Rank].Name(), NProc: s.Job.NProc.V, Version: versionText(), Command: commandOf(s.Job.Line)}
	if w.Rank != 0 {
		to := netip.AddrPortFrom(m.Addr, uint16(m.Peer))
		post.Reach = preflight.Reach(ctx, m.Name(), to.String(), func(ctx context.Context) (time.Duration, error) {
			return peer.Call(ctx, to, a.o.token)
		})
	}
	mine, err := json.Marshal(post)
	if err != nil {
		return preflight.Decision{}, err
	}
	out, err := comp.Round(ctx, "go", mine, time.Until(deadline), func(raw [][]byte) ([]byte, bool) {
		posts := make([]preflight.Post, len(raw))
		for i, b := range raw {
			if err := json.Unmarshal(b, &posts[i]); err != nil {
				posts[i] = preflight.Post{Rank: i, Name: w.Roster[i].Name(), Version: "unreadable"}
			}
		}
		d := preflight.Decide(posts)
		if a.o.warnOnly {
			d.Go, d.Unfit = true, nil
		}
		b, _ := json.Marshal(d)
		return b, d.Go
	})
	var d preflight.Decision
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	return d, err
}

// world is what the wrapped command needs of the agreed one.
func (a *app) world(s *record.Start) launcher.World {
	w, m := s.World, s.World.Master()
	return launcher.World{
		Job: w.Job, RunID: w.RunID, Nodes: len(w.Roster), NodeRank: w.Rank,
		MasterAddr: m.Addr.String(), MasterPort: m.Port, Addr: w.Roster[w.Rank].Addr.String(), KeepRdzv: a.o.KeepRdzv,
	}
}

// single is the world of one node, which is computed.
func single(j job.Job) launcher.World {
	return launcher.World{Job: j.ID.V, RunID: j.ID.V, Nodes: 1, MasterAddr: "127.0.0.1", MasterPort: wanted(j), Addr: "127.0.0.1", Single: j.Single}
}

// plan computes the variables and the command of this node.
func (a *app) plan(s *record.Start, w launcher.World, addr netip.Addr) (err error) {
	in := a.planInput(s.Job, s.Node)
	if in.Mpirun { // rank 0 runs on the first host of its list
		if len(in.World.Peers) > 0 {
			w.MasterAddr = in.World.Peers[0].String()
		}
	} else {
		in.World = envgen.World{Nodes: w.Nodes, Rank: w.NodeRank, Addr: addr}
	}
	if s.World != nil {
		for i, m := range s.World.Roster {
			if i != s.World.Rank {
				in.World.Peers = append(in.World.Peers, m.Addr)
			}
		}
	}
	s.Plan = envgen.Make(in)
	s.Command, err = s.Job.Line.Command(w, s.Plan, handoff.Environ())
	return err
}

// become hands over to the command; it returns only an error.
func (a *app) become(s *record.Start) error {
	if s.Job.Several() && s.World.Rank == 0 {
		a.ui.Plan(s.Plan, s.Command.Notes)
	}
	var set, unset []string
	for _, v := range slices.Concat(s.Command.Set, s.Plan) {
		if !v.Kept {
			set = append(set, v.Name+"="+v.Value)
		}
	}
	for _, v := range s.Command.Unset {
		unset = append(unset, v.Name)
	}
	if s.Job.Line.Kind == launcher.Mpirun {
		set = nil // forwarded by -x
	}
	path, err := lookPath(s.Command.Argv[0])
	if err != nil {
		return notExecutable(s.Command.Argv[0], err)
	}
	a.ui.Emit(false, "start", s)
	a.stop() // from here a signal is the command's; one that came before ends this start
	if a.caught() != nil {
		return context.Canceled
	}
	err = handoff.Exec(path, s.Command.Argv, handoff.Merge(handoff.Environ(), set, unset))
	return notExecutable(path, err)
}

// commandOf is the part of the line that should be alike on all nodes: the
// script and its arguments, with the program by its last name.
func commandOf(l launcher.Line) string {
	rest := l.Argv[l.Rest:]
	if len(rest) == 0 {
		return string(l.Kind)
	}
	text := strings.Join(append([]string{filepath.Base(rest[0])}, rest[1:]...), " ")
	if len(text) > 120 { // enough to see, and a sum to compare
		text = fmt.Sprintf("%s… (%x)", text[:100], sha256.Sum256([]byte(text)))[:130]
	}
	return text
}
