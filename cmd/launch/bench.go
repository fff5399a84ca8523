package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/preflight/bandwidth"
	"launch/preflight/bench"
	"launch/preflight/checks"
	"launch/rendezvous"
)

// The rounds of a bench, beside those of a check: who listens where, what was
// measured, and what was measured once more.
const offerRound, ratesRound, againRound = "offer", "rates", "again"

const (
	// quickBudget is what a bench by default takes, from when all nodes are here to
	// its verdict: the rest of 5 s is for the join, and for a machine without a
	// processor to spare. What three rounds leave of it is for what is measured
	// again, less quickTalk for what is said meanwhile.
	quickBudget, quickTalk = 3600 * time.Millisecond, 100 * time.Millisecond
	// tardy is how long a node waits for the partner of its first round, and how
	// much longer in each that follows: one that is lost keeps its partners from
	// being in time for theirs. It ends at tardyMost.
	tardy, tardyMore, tardyMost = 2 * time.Second, time.Second, 6 * time.Second
	// surer is how much longer is measured what was in doubt, where there is time.
	surer = 2
	// fullRounds is how many partners each node meets with --full.
	fullRounds = 7
)

// quickTest, handTest and fullTest are what a pair of ports does. Three rounds of
// the first, and two turns of what is in doubt, fit into quickBudget.
func quickTest() bench.Test {
	return bench.Test{Streams: 4, Warm: 100 * time.Millisecond, Span: 200 * time.Millisecond, Pings: 500}
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
	if host, port, err := net.SplitHostPort(a.o.client); err == nil { // as --store is given
		if n, err := strconv.Atoi(port); err == nil {
			a.o.client, a.o.benchPort = host, n
		}
	}
	switch {
	case a.o.server && a.o.client != "":
		return &exit.Error{Code: exit.Usage, What: "--server and --client at once: this node is one of both", Fix: "launch bench --server   # on one node, and on the other: launch bench --client HOST"}
	case byHand && (a.o.NNodes.Set || a.o.Store.Set):
		return &exit.Error{Code: exit.Usage, What: "--server and --client are for two nodes by hand; --nnodes and --store are for all nodes of a job", Fix: "launch bench --store HOST --nnodes N   # the same line on each"}
	case a.o.streams < 0 || a.o.streams > 64 || a.o.streams == 0 && a.o.given["streams"]:
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %d: 1 to 64 connections for each rail", a.o.from("streams"), a.o.streams), Fix: "--streams 4"}
	case !slices.Contains([]string{memoryAuto, memoryHost, memoryGPU}, a.o.memory):
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is auto, host or gpu, not %q", a.o.from("memory"), a.o.memory), Fix: "--memory host   # leaves the GPUs alone"}
	case a.o.benchPort < 1 || a.o.benchPort > 65535:
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %d: a port from 1 to 65535", a.o.from("bench-port"), a.o.benchPort), Fix: fmt.Sprintf("--bench-port %d", defaultBenchPort)}
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
	if sig, ok := a.caught().(syscall.Signal); ok && err != nil && ctx.Err() != nil {
		a.code = a.fail(&exit.Error{Code: exit.Signal + int(sig), What: signalWord(sig) + " before anything was compared; the others see that this node has left"}, nil)
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
		return &exit.Error{Code: exit.Usage, What: "a bench needs two nodes, and this line speaks of one", Fix: "launch bench --store HOST --nnodes N   # the same line on each\nor by hand: launch bench --server   # on one, and on the other: launch bench --client HOST"}
	}
	if t := s.Job.Tasks; t.Local > 0 {
		a.ui.Note("task %d of this node: its first task measures", t.Local)
		return nil
	}
	if _, err = a.rails(s.Node, netip.Addr{}); err != nil { // before others wait for this node
		return err
	}
	was, err := a.history(s.Node.Hostname)
	if err != nil {
		return err
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
	var out ui.Benched
	var own []bench.Sample
	for {
		if err = a.join(ctx, &s, comp, began, deadline); err == nil {
			out, own, err = a.rates(ctx, &s, comp, was, deadline)
		}
		if broken, ok := errors.AsType[*rendezvous.BrokenError](err); ok {
			a.anew(broken)
			continue
		}
		if err != nil {
			why = a.farewell(ctx, err)
			return a.missing(err, s.Job)
		}
		a.code = slowCode(out)
		err = a.benched(&s, out, own)
		a.part(ctx, comp)
		return err
	}
}

// slowCode is how a bench ends by what it found.
func slowCode(out ui.Benched) int {
	switch {
	case len(out.Named) == 0:
		return 0
	case slices.Contains(out.Named, out.Self):
		return exit.Unfit
	}
	return exit.PeerUnfit
}

// rates measures with all other nodes, and judges the same on each. own is every
// sample of this node.
func (a *app) rates(ctx context.Context, s *record.Start, comp *companion.Client, was []bandwidth.PastRate, deadline time.Time) (out ui.Benched, own []bench.Sample, err error) {
	w := s.World
	r := runner{app: a, comp: comp, world: *w, test: a.test(quickTest()), deadline: deadline, began: time.Now(), offers: map[int]bench.Offer{}}
	r.rates.Was = was
	if err := r.open(ctx, s); err != nil {
		return out, nil, err
	}
	defer r.node.Close()
	if err := r.offer(ctx); err != nil {
		return out, nil, err
	}
	most := bench.QuickRounds
	switch {
	case a.o.allPairs:
		most = 0
	case a.o.full:
		most = fullRounds
	}
	r.plan = bench.Rounds(w.Size, w.RunID, most)
	partners := r.partners()
	a.ui.Note("measuring %s of %s with %s, about %s", ui.Plural(len(r.node.Ports), "rail", "rails"), w.Self.Name(), ui.Plural(len(partners), "other node", "other nodes"),
		(time.Duration(len(r.plan)) * r.test.Takes()).Round(100*time.Millisecond))
	// From here on it is measuring that takes time, and no longer the join.
	r.deadline = time.Now().Add(time.Duration(len(r.plan))*(r.test.Takes()+tardyMost) + 2*surer*r.test.Takes() + r.test.GPULimit())
	if err := r.rounds(ctx, partners); err != nil {
		return out, nil, err
	}
	b, err := r.compare(ctx, ratesRound)
	if err != nil {
		return out, nil, err
	}
	if len(b.Again) > 0 {
		if err := r.again(ctx, b.Again); err != nil {
			return out, nil, err
		}
		if b, err = r.compare(ctx, againRound); err != nil {
			return out, nil, err
		}
	}
	b.Again = nil
	return ui.Benched{Verdict: b, Self: w.Rank, Took: time.Since(r.began)}, undisturbed(r.own, w.Rank, r.rates.Disturbed), nil
}

// benched reports, and keeps what was asked for.
func (a *app) benched(s *record.Start, out ui.Benched, own []bench.Sample) error {
	out.At, out.Version, out.Node = time.Now(), versionText(), s.Node
	if s.Job.Several() {
		out.Job = ui.Identity(s.Job)
	}
	a.ui.Bench(out)
	if err := a.remember(bandwidth.PastOf(s.Node.Hostname, out.Self, out.Nodes, own, out.At)); err != nil {
		return err
	}
	if a.o.html == "" {
		return nil
	}
	return a.writePage(ui.BenchHTML(out, checks.Title))
}
