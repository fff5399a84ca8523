package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"launch/fabric"
	"launch/fabric/verbs"
	"launch/internal/companion"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/record"
	"launch/internal/ui"
	"launch/preflight"
	"launch/preflight/bench"
	"launch/rendezvous"
)

// The rounds of a bench, beside those of a check: who listens where, what was
// measured, and what was measured once more.
const offerRound, ratesRound, againRound = "offer", "rates", "again"

const (
	// glance is how long the counters of the ports are watched before anything is
	// sent: a job in its steps sends several times within it.
	glance = 200 * time.Millisecond
	// tardy is how long a node waits for the partner of its first round, and how
	// much longer in each that follows: one that is lost keeps its partners from
	// being in time for theirs. It ends at tardyMost.
	tardy, tardyMore, tardyMost = 2 * time.Second, time.Second, 6 * time.Second
	// surer is how much longer is measured what was in doubt.
	surer = 2
	// fullRounds is how many partners each node meets with --full.
	fullRounds = 7
)

// quickTest, handTest and fullTest are what a pair of ports does. The first keeps
// three rounds and a retest below 5 s.
func quickTest() bench.Test {
	return bench.Test{Streams: 4, Warm: 100 * time.Millisecond, Span: 250 * time.Millisecond, Pings: 500}
}

func handTest() bench.Test {
	return bench.Test{Streams: 4, Warm: 300 * time.Millisecond, Span: 2 * time.Second, Pings: 500}
}

func fullTest() bench.Test {
	return bench.Test{Streams: 8, Warm: 500 * time.Millisecond, Span: 5 * time.Second, Pings: 500}
}

// test is what was asked for.
func (a *app) test(t bench.Test) bench.Test {
	if a.o.full {
		t = fullTest()
	}
	if a.o.streams > 0 {
		t.Streams = a.o.streams
	}
	return t
}

// bench measures the rails between the nodes of a job, or between two by hand.
func (a *app) bench(c *cli.Context) error {
	began := time.Now()
	byHand := a.o.server || a.o.client != ""
	switch {
	case a.o.server && a.o.client != "":
		return &job.Error{Code: exitUsage, What: "--server and --client at once: this node is one of both", Fix: "launch bench --server   # on one node, and on the other: launch bench --client HOST"}
	case byHand && (a.o.NNodes.Set || a.o.Store.Set):
		return &job.Error{Code: exitUsage, What: "--server and --client are for two nodes by hand; --nnodes and --store are for all nodes of a job", Fix: "launch bench --store HOST --nnodes N   # the same line on each"}
	case a.o.streams < 0 || a.o.streams > 64:
		return &job.Error{Code: exitUsage, What: fmt.Sprintf("%s is %d: 1 to 64 connections for each rail", a.o.from("streams"), a.o.streams), Fix: "--streams 4"}
	}
	var ctx context.Context
	ctx, a.stop, a.caught = handoff.NotifyContext(c.Context)
	defer a.stop()
	var err error
	if byHand {
		err = a.benchHand(ctx, began)
	} else {
		err = a.benchNodes(ctx, c, began)
	}
	if sig := a.caught(); err != nil && ctx.Err() != nil {
		a.code = a.fail(err, sig)
		return nil
	}
	return err
}

// benchNodes has all nodes of a job meet, as launch check does.
func (a *app) benchNodes(ctx context.Context, c *cli.Context, began time.Time) error {
	s, err := a.look(c)
	if err != nil {
		return err
	}
	if !s.Job.Several() {
		return &job.Error{Code: exitUsage, What: "a bench needs two nodes, and this line speaks of one", Fix: "launch bench --store HOST --nnodes N   # the same line on each\nor by hand: launch bench --server   # on one, and on the other: launch bench --client HOST"}
	}
	if t := s.Job.Tasks; t.Local > 0 {
		a.ui.Note("task %d of this node: its first task measures", t.Local)
		return nil
	}
	a.ui.Findings(s.Job.Notes, false)
	s.Job.ID.V = "bench-" + s.Job.ID.V // it does not meet a start of the job
	a.o.startTimeout = 0               // nobody is awaited after it
	comp, err := a.meet(ctx, &s, began)
	if err != nil {
		return err
	}
	why := "its bench is over"
	defer func() { comp.Leave(why) }()
	deadline := began.Add(a.o.joinTimeout)
	for {
		if err = a.join(ctx, &s, comp, began, deadline); err == nil {
			err = a.rates(ctx, &s, comp, deadline)
		}
		if broken, ok := errors.AsType[*rendezvous.BrokenError](err); ok {
			a.ui.Note("%s; waiting for it or another in its place", broken.Why)
			continue
		}
		if err != nil {
			why = a.farewell(ctx, err)
			return a.missing(err, s.Job)
		}
		a.part(ctx, comp)
		return nil
	}
}

// rates measures with all other nodes, and reports the same on each.
func (a *app) rates(ctx context.Context, s *record.Start, comp *companion.Client, deadline time.Time) error {
	w := s.World
	r := runner{app: a, comp: comp, world: *w, test: a.test(quickTest()), deadline: deadline, began: time.Now(), offers: map[int]bench.Offer{}}
	if err := r.open(ctx, s); err != nil {
		return err
	}
	defer r.node.Close()
	if err := r.offer(ctx); err != nil {
		return err
	}
	most := bench.QuickRounds
	switch {
	case a.o.allPairs:
		most = 0
	case a.o.full:
		most = fullRounds
	}
	rounds := bench.Rounds(w.Size, w.RunID, most)
	a.ui.Note("measuring %s of %s with %s, about %s", ui.Plural(len(r.node.Ports), "rail", "rails"), w.Self.Name(), ui.Plural(len(rounds), "other node", "other nodes"),
		(time.Duration(len(rounds)) * r.test.Takes()).Round(100*time.Millisecond))
	most = len(rounds) + 2*surer // what is measured again counts twice, in two turns
	if end := time.Now().Add(time.Duration(most) * (r.test.Takes() + tardyMost)); end.After(r.deadline) {
		r.deadline = end // the time to join in is not that of measuring
	}
	if err := r.rounds(ctx, rounds); err != nil {
		return err
	}
	b, err := r.compare(ctx, ratesRound)
	if err != nil {
		return err
	}
	if len(b.Again) > 0 {
		if err := r.again(ctx, b.Again); err != nil {
			return err
		}
		if b, err = r.compare(ctx, againRound); err != nil {
			return err
		}
	}
	a.code = exitPeerUnfit
	if b.Again = nil; len(b.Named) == 0 {
		a.code = 0
	} else if slices.Contains(b.Named, w.Rank) {
		a.code = exitUnfit
	}
	return a.benched(s, ui.Benched{Bandwidth: b, Self: w.Rank, Took: time.Since(r.began)}, r.own)
}

// benched reports, and keeps what was asked for.
func (a *app) benched(s *record.Start, out ui.Benched, own []bench.Sample) error {
	out.At, out.Version, out.Node = time.Now(), versionText(), s.Node
	if s.Job.Several() {
		out.Job = ui.Identity(s.Job)
	}
	a.ui.Bench(out)
	if err := a.remember(preflight.PastOf(s.Node.Hostname, out.Self, out.Nodes, own, out.At)); err != nil {
		return err
	}
	if a.o.html == "" {
		return nil
	}
	page, err := ui.BenchHTML(out)
	if err == nil {
		err = os.WriteFile(a.o.html, page, 0o666)
	}
	if err != nil {
		return &job.Error{Code: exitUsage, What: fmt.Sprintf("%s: %v", a.o.from("html"), err), Fix: "--html names a file in a directory that can be written"}
	}
	return nil
}

// ratePorts are the rails to be measured, with what uses them.
func (a *app) ratePorts(ctx context.Context, n fabric.Node, addr netip.Addr, name string) ([]bench.Port, error) {
	ports, err := preflight.RatePorts(n, addr, a.o.rails)
	if err != nil {
		return nil, &job.Error{Code: exitUsage, What: fmt.Sprintf("%s: %v", a.o.from("rails"), err), Fix: "launch fabric   # on this node prints what it has"}
	}
	if a.o.force {
		return ports, nil
	}
	sys := fabric.Live().Sys
	before := make([]fabric.Traffic, len(ports))
	errs := make([]error, len(ports))
	for i, p := range ports {
		before[i], errs[i] = fabric.ReadTraffic(sys, p.Netdev, p.HCA, p.Num)
	}
	from := time.Now()
	select {
	case <-time.After(glance):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for i, p := range ports {
		if errs[i] != nil {
			continue // it cannot be told: as it is for everybody else
		}
		if now, err := fabric.ReadTraffic(sys, p.Netdev, p.HCA, p.Num); err == nil {
			took := time.Since(from).Seconds()
			ports[i].Busy = preflight.PortBusy(p, name, float64(now.Sent-before[i].Sent)/took, float64(now.Received-before[i].Received)/took)
		}
	}
	return ports, nil
}

// ways are what can measure here, the best first. Reliable connections, without a
// connection manager, are what node type 1 has: neither EFA nor iWARP.
func (a *app) ways(n fabric.Node) []bench.Measurer {
	if a.o.tcp {
		return []bench.Measurer{bench.TCP()}
	}
	const channelAdapter = 1
	opens := func(hca string) bool {
		return slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return h.Name == hca && h.NodeType == channelAdapter }) &&
			slices.ContainsFunc(n.Verbs.Devices, func(d verbs.Device) bool { return d.Name == hca && d.Opens })
	}
	return []bench.Measurer{bench.Verbs(opens), bench.TCP()}
}
