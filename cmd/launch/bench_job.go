package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/preflight/bandwidth"
	"launch/preflight/bench"
	"launch/rendezvous"
)

// runner is one bench of this node.
type runner struct {
	app      *app
	comp     *companion.Client
	world    rendezvous.World
	node     *bench.Node
	offers   map[int]bench.Offer // of the partners, by rank
	plan     []int               // the rounds that are played
	meter    *meter              // of the ports, since the first of them
	rates    bandwidth.Rates     // what is posted
	own      []bench.Sample      // all of this node's, also those that another one led
	test     bench.Test
	began    time.Time
	deadline time.Time
}

// open finds this node's rails, whether they are in use, and listens.
func (r *runner) open(ctx context.Context, s *record.Start) error {
	a, w := r.app, r.world
	ports, err := a.ratePorts(ctx, s.Node, w.Self.Addr, w.Self.Name())
	if err != nil {
		return err
	}
	r.rates.Rank, r.rates.Name = w.Rank, w.Self.Name()
	r.node = &bench.Node{Name: w.Self.Name(), Ports: ports, Ways: a.ways(s.Node)}
	var server *tls.Config
	if a.keys != nil {
		server, r.node.Keys = a.keys.Server(), a.keys.Client()
	}
	at := w.Self.Addr
	if _, own := s.Node.InterfaceOf(at); !own { // behind NAT, or a virtual address
		at = netip.IPv6Unspecified()
	}
	if err := r.node.Open(netip.AddrPortFrom(at, 0), server); err != nil {
		return &exit.Error{Code: exit.Unfit, What: err.Error(), Fix: "--addr names another address of this node"}
	}
	r.rates.Ports = r.node.Ports
	return nil
}

// offer says where this node listens, and waits until all have.
func (r *runner) offer(ctx context.Context) error {
	mine, err := json.Marshal(bench.Offer{Name: r.node.Name, At: netip.AddrPortFrom(r.world.Self.Addr, uint16(r.node.Port())), Ports: r.node.Ports})
	if err != nil {
		return err
	}
	_, err = r.comp.Round(ctx, offerRound, mine, time.Until(r.deadline), func([][]byte) ([]byte, bool) { return []byte("{}"), false })
	return err
}

// learn reads what some ranks offer.
func (r *runner) learn(ctx context.Context, ranks []int) error {
	ranks = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ranks))), func(rank int) bool { _, known := r.offers[rank]; return known })
	if len(ranks) == 0 {
		return nil
	}
	posts, err := r.comp.Posted(ctx, offerRound, ranks, time.Until(r.deadline))
	if err != nil {
		return err
	}
	for i, b := range posts {
		var o bench.Offer
		if json.Unmarshal(b, &o) == nil && o.At.IsValid() {
			r.offers[ranks[i]] = o
		}
	}
	return nil
}

// partners are whom this node meets, by the number of the round.
func (r *runner) partners() map[int]int {
	out := map[int]int{}
	for i, round := range r.plan {
		if other, ok := bench.Partner(r.world.Rank, r.world.Size, round); ok {
			out[i] = other
		}
	}
	return out
}

// rounds meets one partner after the other.
func (r *runner) rounds(ctx context.Context, partners map[int]int) error {
	stands, done := r.app.whileItStands(ctx)
	defer done()
	if err := r.learn(ctx, slices.Collect(maps.Values(partners))); err != nil {
		return err
	}
	r.meter = r.app.meter(r.node.Ports)
	for i := range r.plan {
		other, ok := partners[i]
		offer, known := r.offers[other]
		if !ok || !known { // idle, or gone: the world breaks at the next round of the store
			continue
		}
		var all []bench.Meeting
		lead, answer := r.node.Ports, offer.Ports
		if r.world.Rank > other {
			lead, answer = answer, lead
		}
		for _, m := range bench.Match(lead, answer) {
			own, theirs := m[0], m[1]
			if r.world.Rank > other {
				own, theirs = theirs, own
			}
			meeting := r.meeting(i, other, r.node.Ports[own], offer.Ports[theirs].Name)
			// In the last one, so that nobody waits where CUDA takes its time.
			meeting.Test.GPU = i == len(r.plan)-1 && r.app.o.memory != memoryHost
			all = append(all, meeting)
		}
		if err := r.measure(stands, all, len(r.plan), i); err != nil {
			return err
		}
	}
	return nil
}

// meeting is one of a round; of what is measured again the rounds count from -1
// down. Who had nothing to do in the rounds before it comes as much earlier.
func (r *runner) meeting(round, other int, p bench.Port, with string) bench.Meeting {
	wait := r.test.Takes() + min(tardy+time.Duration(max(round, 0))*tardyMore, tardyMost)
	if round < 0 {
		wait += time.Duration(-1-round) * r.test.Takes()
	}
	return bench.Meeting{Round: round, Self: r.world.Rank, Other: other, Port: p, PeerPort: with, At: r.offers[other].At, Lead: r.world.Rank < other, Wait: wait, Test: r.test}
}

// measure takes the samples of one round; the error is why it was cut off.
func (r *runner) measure(ctx context.Context, all []bench.Meeting, of, i int) error {
	r.app.ui.Status(fmt.Sprintf("measuring, round %d of %d", i+1, of))
	defer r.app.ui.Status("")
	samples := r.node.Round(ctx, all)
	r.own = append(r.own, samples...)
	for i, m := range all {
		if m.Lead {
			r.rates.Samples = append(r.rates.Samples, samples[i])
		}
	}
	return context.Cause(ctx)
}

// compare has all samples judged.
func (r *runner) compare(ctx context.Context, round string) (b bandwidth.Verdict, err error) {
	r.rates.Disturbed = r.meter.disturbed(r.rates.Name, r.world.Rank, r.own)
	mine, err := json.Marshal(r.rates)
	if err != nil {
		return b, err
	}
	out, err := r.comp.Round(ctx, round, mine, time.Until(r.deadline), func(raw [][]byte) ([]byte, bool) {
		posts := make([]bandwidth.Rates, len(raw))
		for i, b := range raw {
			if json.Unmarshal(b, &posts[i]) != nil {
				posts[i] = bandwidth.Rates{Rank: i, Name: fmt.Sprintf("rank %d", i)}
			}
		}
		b, _ := json.Marshal(bandwidth.Compare(posts, r.app.o.thresholds))
		return b, false
	})
	if err == nil {
		err = json.Unmarshal(out, &b)
	}
	return b, err
}

// again measures this node's part of what is in doubt.
func (r *runner) again(ctx context.Context, doubted []bandwidth.Meeting) error {
	r.app.ui.Note("%s once more, of what seems slow", ui.Plural(len(doubted), "pair of ports", "pairs of ports"))
	turns := bandwidth.Turns(doubted)
	left := surer * r.test.Takes()
	if !r.app.o.full && !r.app.o.allPairs {
		left = (quickBudget - quickTalk - time.Since(r.began)) / time.Duration(len(turns))
	}
	r.test = r.test.Within(left, surer)
	var others []int
	for _, m := range doubted {
		switch r.world.Rank {
		case m.A:
			others = append(others, m.B)
		case m.B:
			others = append(others, m.A)
		}
	}
	stands, done := r.app.whileItStands(ctx)
	defer done()
	if err := r.learn(ctx, others); err != nil {
		return err
	}
	for i, turn := range turns {
		var all []bench.Meeting
		for _, m := range turn {
			rail, with, other := m.Rail, m.With, m.B
			switch r.world.Rank {
			case m.A:
			case m.B:
				rail, with, other = m.With, m.Rail, m.A
			default:
				continue
			}
			if k := slices.IndexFunc(r.node.Ports, func(p bench.Port) bool { return p.Name == rail }); k >= 0 && r.offers[other].At.IsValid() {
				all = append(all, r.meeting(-1-i, other, r.node.Ports[k], with))
			}
		}
		if err := r.measure(stands, all, len(turns), i); err != nil {
			return err
		}
	}
	return nil
}
