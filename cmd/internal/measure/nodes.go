package measure

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"launch/fabric"
	"launch/internal/exit"
	"launch/internal/finding"

	"launch/preflight/bandwidth"
	"launch/preflight/bench"
	"launch/rendezvous"
)

// Rounds is what a bench needs of the joined world.
type Rounds interface {
	// Round posts mine to a round and returns what reduce makes of all posts.
	Round(ctx context.Context, name string, mine []byte, budget time.Duration, reduce rendezvous.Reduce) ([]byte, error)
	// Posted returns what some ranks posted to a round.
	Posted(ctx context.Context, name string, ranks []int, budget time.Duration) ([][]byte, error)
	// WhileJoined returns a context that is cancelled when the joined world breaks up.
	WhileJoined(ctx context.Context) (context.Context, context.CancelFunc)
}

// The rounds of a bench: where each node listens, the first measurements, the second ones.
const offerRound, ratesRound, againRound = "offer", "rates", "again"

// runner is one bench of this node.
type runner struct {
	*Bench
	rounds   Rounds
	world    rendezvous.World
	node     *bench.Node
	offers   map[int]bench.Offer // of the partners, by rank
	plan     []int               // the rounds, by number
	meter    *meter              // of the ports, since the first of them
	rates    bandwidth.Rates     // what is posted
	own      []bench.Sample      // all of this node's, those that another node led included
	test     bench.Test
	began    time.Time
	deadline time.Time
}

// Nodes measures between all nodes of a world, which get the same verdict. deadline bounds what precedes.
func (b *Bench) Nodes(ctx context.Context, facts fabric.Node, w rendezvous.World, rounds Rounds,
	was []bandwidth.PastRate, deadline time.Time) (Result, error) {
	r := &runner{Bench: b, rounds: rounds, world: w, test: b.test(quickTest()), deadline: deadline, began: time.Now(),
		offers: map[int]bench.Offer{}}
	r.rates.Was = was
	if err := r.open(ctx, facts); err != nil {
		return Result{}, err
	}
	defer r.node.Close()
	if err := r.offer(ctx); err != nil {
		return Result{}, err
	}
	most := bench.QuickRounds
	switch {
	case b.AllPairs:
		most = 0
	case b.Full:
		most = fullRounds
	}
	r.plan = bench.Rounds(w.Size, w.RunID, most)
	partners := r.partners()
	b.UI.Note("measuring %s of %s with %s, about %s", finding.Plural(len(r.node.Ports), "rail", "rails"), w.Self.Name(),
		finding.Plural(len(partners), "other node", "other nodes"),
		(time.Duration(len(r.plan)) * r.test.Takes()).Round(100*time.Millisecond))
	// From here on the time is spent on measuring, not on the join.
	r.deadline = time.Now().Add(time.Duration(len(r.plan))*(r.test.Takes()+maxWait) + 2*againFactor*r.test.Takes() +
		r.test.GPULimit())
	if err := r.measureAll(ctx, partners); err != nil {
		return Result{}, err
	}
	judged, err := r.compare(ctx, ratesRound)
	if err != nil {
		return Result{}, err
	}
	if len(judged.Again) > 0 {
		if err := r.again(ctx, judged.Again); err != nil {
			return Result{}, err
		}
		if judged, err = r.compare(ctx, againRound); err != nil {
			return Result{}, err
		}
	}
	judged.Again = nil
	own := undisturbed(r.own, w.Rank, r.rates.Disturbed)
	return Result{Verdict: judged, Self: w.Rank, Own: own, Took: time.Since(r.began)}, nil
}

// open finds this node's rails and whether they are in use, and listens.
func (r *runner) open(ctx context.Context, facts fabric.Node) error {
	w := r.world
	ports, err := r.ratePorts(ctx, facts, w.Self.Addr, w.Self.Name())
	if err != nil {
		return err
	}
	r.rates.Rank, r.rates.Name = w.Rank, w.Self.Name()
	r.node = &bench.Node{Name: w.Self.Name(), Ports: ports, Ways: r.ways(facts)}
	var server *tls.Config
	if keys := r.Token.Keys(w.Job); keys != nil {
		server, r.node.Keys = keys.Server(), keys.Client()
	}
	at := w.Self.Addr
	if _, own := facts.InterfaceOf(at); !own { // behind NAT, or a virtual address
		at = netip.IPv6Unspecified()
	}
	if err := r.node.Open(netip.AddrPortFrom(at, 0), server); err != nil {
		return exit.Errorf(exit.Unfit, "%v", err).Do("--addr names another address of this node")
	}
	r.rates.Ports = r.node.Ports
	return nil
}

// offer publishes where this node listens, and waits until all nodes have done so.
func (r *runner) offer(ctx context.Context) error {
	mine, err := json.Marshal(bench.Offer{Name: r.node.Name,
		At: netip.AddrPortFrom(r.world.Self.Addr, uint16(r.node.Port())), Ports: r.node.Ports})
	if err != nil {
		return err
	}
	_, err = r.rounds.Round(ctx, offerRound, mine, time.Until(r.deadline),
		func([][]byte) ([]byte, bool) { return []byte("{}"), false })
	return err
}

// readOffers reads the offers of some ranks that are not known yet.
func (r *runner) readOffers(ctx context.Context, ranks []int) error {
	ranks = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ranks))),
		func(rank int) bool { _, known := r.offers[rank]; return known })
	if len(ranks) == 0 {
		return nil
	}
	posts, err := r.rounds.Posted(ctx, offerRound, ranks, time.Until(r.deadline))
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

// partners returns the rank that this node measures with, by the number of the round.
func (r *runner) partners() map[int]int {
	out := map[int]int{}
	for i, round := range r.plan {
		if other, ok := bench.Partner(r.world.Rank, r.world.Size, round); ok {
			out[i] = other
		}
	}
	return out
}

// measureAll measures with one partner after the other.
func (r *runner) measureAll(ctx context.Context, partners map[int]int) error {
	joined, done := r.rounds.WhileJoined(ctx)
	defer done()
	if err := r.readOffers(ctx, slices.Collect(maps.Values(partners))); err != nil {
		return err
	}
	r.meter = r.Bench.meter(r.node.Ports)
	for i := range r.plan {
		other, ok := partners[i]
		offer, known := r.offers[other]
		if !ok || !known { // idle, or gone: the world breaks up at the next round of the store
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
			// In the last round, so that no other node waits while CUDA starts.
			meeting.Test.GPU = i == len(r.plan)-1 && r.Memory != MemoryHost
			all = append(all, meeting)
		}
		if err := r.measure(joined, all, len(r.plan), i); err != nil {
			return err
		}
	}
	return nil
}

// meeting returns the meeting of one pair of ports in a round. Second measurements
// count their rounds from -1 down; a node that is idle before one arrives earlier.
func (r *runner) meeting(round, other int, p bench.Port, with string) bench.Meeting {
	wait := r.test.Takes() + min(firstWait+time.Duration(max(round, 0))*waitStep, maxWait)
	if round < 0 {
		wait += time.Duration(-1-round) * r.test.Takes()
	}
	return bench.Meeting{Round: round, Self: r.world.Rank, Other: other, Port: p, PeerPort: with, At: r.offers[other].At,
		Lead: r.world.Rank < other, Wait: wait, Test: r.test}
}

// measure takes the samples of one round. It returns why the round was cut off, or nil.
func (r *runner) measure(ctx context.Context, all []bench.Meeting, of, i int) error {
	r.UI.Status(fmt.Sprintf("measuring, round %d of %d", i+1, of))
	defer r.UI.Status("")
	samples := r.node.Round(ctx, all)
	r.own = append(r.own, samples...)
	for i, m := range all {
		if m.Lead {
			r.rates.Samples = append(r.rates.Samples, samples[i])
		}
	}
	return context.Cause(ctx)
}

// compare returns the verdict about the samples of all nodes.
func (r *runner) compare(ctx context.Context, round string) (b bandwidth.Verdict, err error) {
	r.rates.Disturbed = r.meter.disturbed(r.rates.Name, r.world.Rank, r.own)
	mine, err := json.Marshal(r.rates)
	if err != nil {
		return b, err
	}
	out, err := r.rounds.Round(ctx, round, mine, time.Until(r.deadline), func(raw [][]byte) ([]byte, bool) {
		b, _ := json.Marshal(bandwidth.Compare(bandwidth.Read(raw), r.Thresholds))
		return b, false
	})
	if err == nil {
		err = json.Unmarshal(out, &b)
	}
	return b, err
}

// again measures this node's part of the doubtful pairs.
func (r *runner) again(ctx context.Context, doubted []bandwidth.Meeting) error {
	r.UI.Note("measuring %s again, which seemed slow", finding.Plural(len(doubted), "pair of ports", "pairs of ports"))
	turns := bandwidth.Turns(doubted)
	left := againFactor * r.test.Takes()
	if !r.Full && !r.AllPairs {
		left = (quickBudget - quickTalk - time.Since(r.began)) / time.Duration(len(turns))
	}
	r.test = r.test.Within(left, againFactor)
	var others []int
	for _, m := range doubted {
		switch r.world.Rank {
		case m.A:
			others = append(others, m.B)
		case m.B:
			others = append(others, m.A)
		}
	}
	joined, done := r.rounds.WhileJoined(ctx)
	defer done()
	if err := r.readOffers(ctx, others); err != nil {
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
			if k := slices.IndexFunc(r.node.Ports, func(p bench.Port) bool { return p.Name == rail }); k >= 0 &&
				r.offers[other].At.IsValid() {
				all = append(all, r.meeting(-1-i, other, r.node.Ports[k], with))
			}
		}
		if err := r.measure(joined, all, len(turns), i); err != nil {
			return err
		}
	}
	return nil
}
