package start

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/rendezvous"
)

// newGroup refuses a group of nixlbench in which processes of another run are counted: they would have the ranks of
// these. A group that launch names is new.
func (s *Start) newGroup(ctx context.Context) error {
	b, ok := s.Job.Line.NIXLBench()
	if !ok || b.Group == "" || !s.Job.Several() {
		return nil
	}
	if b.Endpoints = cmp.Or(b.Endpoints, strings.Join(s.Input.World.Store, ",")); b.Endpoints == "" {
		return nil
	}
	cli, err := s.benchStore(ctx, b)
	if err != nil {
		return err
	}
	defer cli.Close()
	n, err := rendezvous.Foreign(ctx, cli, b.Prefix()+"size")
	if err != nil || n == "" {
		return err
	}
	count, _ := strconv.Atoi(n)
	return exit.Errorf(exit.Unfit, "the etcd at %s has %s of another run of nixlbench in the group %q: it runs still, "+
		"or it was killed", b.Endpoints, finding.Plural(count, "process", "processes"), b.Group).
		Do("omit --benchmark_group: then launch names one of its own\n"+
			"if that run is over: launch store clean --store %s --prefix %s", b.Endpoints, b.Prefix())
}

// benchStore connects to the etcd of a nixlbench. The job's own one has its credentials.
func (s *Start) benchStore(ctx context.Context, b launcher.NIXLBench) (*rendezvous.Client, error) {
	at := rendezvous.Store{Endpoints: strings.Split(b.Endpoints, ",")}
	if slices.Equal(at.Endpoints, s.Job.Store.V.Endpoints) {
		at.Access = s.Opt.Etcd(s.Job.Store.V)
	}
	ctx, cancel := context.WithTimeout(ctx, etcdBudget)
	defer cancel()
	cli, err := rendezvous.Connect(ctx, at, nil)
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "the etcd of nixlbench at %s: %v", b.Endpoints, err).
			Do("start an etcd there, or correct --etcd_endpoints")
	}
	return cli, nil
}

// Limits of the wait for a turn: for the etcd to answer, between two looks, and for another process to be counted.
const (
	etcdBudget = 10 * time.Second
	turnPoll   = 100 * time.Millisecond
	turnWait   = 2 * time.Minute
)

// awaitTurn lets the processes of nixlbench count themselves one after the other, in rank order. Each reads how many
// there are and writes one more, and takes an answer that failed for none: two at a time may have one rank.
func (s *Start) awaitTurn(ctx context.Context) error {
	b, ok := s.Job.Line.NIXLBench()
	if b = b.In(s.world()); !ok || b.Endpoints == "" || s.World.Rank == 0 {
		return nil
	}
	cli, err := s.benchStore(ctx, b)
	if err != nil {
		return err
	}
	defer cli.Close()
	before := s.World.Rank
	began := time.Now()
	for say := began.Add(roleSay); ; {
		text, err := rendezvous.Foreign(ctx, cli, b.Prefix()+"size")
		if n, _ := strconv.Atoi(text); n >= before {
			return nil
		}
		seen := fmt.Sprintf("%q has counted %s of %d processes before this one", b.Prefix(), cmp.Or(text, "0"), before)
		if err != nil {
			seen = err.Error()
		}
		switch now := time.Now(); {
		case now.Sub(began) > turnWait:
			return exit.Errorf(exit.PeerUnfit, "nixlbench of node rank %d has not registered within %s: %s", before-1,
				turnWait, seen).Do("read what it printed on node rank %d", before-1)
		case now.After(say):
			s.UI.Note("waiting for nixlbench of node rank %d: %s", before-1, seen)
			say = now.Add(roleAgain)
		}
		select {
		case <-time.After(turnPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
