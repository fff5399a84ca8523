package start

import (
	"context"
	"errors"
	"slices"
	"time"

	"launch/cmd/internal/measure"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/rendezvous"
)

// join waits for a world.
func (s *Start) join(ctx context.Context) error {
	defer s.wait.begin(s.began)()
	w, err := s.comp.Join(ctx, time.Until(s.deadline))
	if err == nil {
		s.World = &w
		s.UI.Know(s.Job.ID.V, w.Rank)
		s.wait.setJoined(true)
	}
	return err
}

// welcome prints the world that this node has joined.
func (s *Start) welcome(context.Context) error {
	if s.Job.Spares > 0 { // it may have waited for hours
		s.deadline = time.Now().Add(s.Opt.JoinTimeout)
	}
	s.UI.Note("%s", ui.World(*s.World, time.Since(s.began)))
	if s.World.Rank == 0 {
		s.saySecret()
	}
	return nil
}

// Values of --bench. Rank 0's counts for all nodes, so they need no round to agree.
const (
	benchNo    = "no"
	benchShort = "short"
	benchFull  = "full"
)

// measureFirst has all nodes measure their rails before they decide, if rank 0 asks for it. A slow rail
// is a warning. The measurement does not count as waiting.
func (s *Start) measureFirst(ctx context.Context) error {
	s.measured = nil
	asks := func(level string) bool { return level == benchShort || level == benchFull }
	asked := s.World.Master.Bench
	if !asks(asked) {
		if own := s.Opt.Bench; asks(own) {
			s.UI.Note("%s is %s here, but not on node rank 0, %s: nothing is measured", s.Opt.From("bench"), own,
				s.World.Master.Name())
		}
		return nil
	}
	b := s.bench()
	b.Full = asked == benchFull
	b.Memory = measure.MemoryHost // CUDA takes longer to start than all rounds together
	out, err := b.Nodes(ctx, s.Node, *s.World, benchRounds{s.comp, &s.wait}, nil, s.deadline)
	if err != nil {
		return err
	}
	s.deadline = s.deadline.Add(out.Took)
	s.measured = &out
	return nil
}

// hearing is how long an unfit node stays, so that the others read why it leaves: once it has left, they join again
// without the decision.
const hearing = 500 * time.Millisecond

// obeyDecision prints the findings between the nodes; errAgain: another node is unfit and gets
// replaced.
func (s *Start) obeyDecision(ctx context.Context) error {
	d := s.decision
	if s.Peer = d.Findings; s.measured != nil {
		s.UI.Rails(s.benched(*s.measured))
		s.Peer = slices.Concat(s.measured.Findings, d.Findings)
	}
	s.UI.Findings(s.Peer, false)
	switch {
	case d.Go:
		return nil
	case slices.Contains(d.Unfit, s.World.Rank):
		select {
		case <-time.After(hearing):
		case <-ctx.Done():
		}
		return exit.Errorf(exit.Unfit, "this node is unfit: see the finding above")
	case s.noWait():
		return exit.Errorf(exit.PeerUnfit, "unfit: %s", d.Who).Do("see the finding above; %s", s.whyNoWait())
	}
	s.UI.Note("unfit: %s; waiting for a replacement", d.Who)
	return errAgain
}

// release follows the decision that all start. The other nodes follow it already, so only a signal or a
// newer process in its place stops this node.
func (s *Start) release(ctx context.Context) error {
	err := s.comp.Go(ctx, s.masterNode())
	if newer, replaced := errors.AsType[*rendezvous.SupersededError](err); replaced {
		return newer
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && s.Opt.Restarts == 0 {
		err = s.comp.Handoff(ctx)
	}
	if err != nil {
		s.UI.Note("%v; starting anyway, but launch status does not show this node", err)
	}
	if s.Opt.Restarts == 0 && !s.endsHung() {
		s.comp = nil // the companion continues alone
	}
	return nil
}
