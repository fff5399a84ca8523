package start

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/rendezvous"
)

// ownGroup returns the nixlbench of a job of several nodes whose line names its group and so may share it with other
// runs, and where it counts. A group that launch names is new.
func (s *Start) ownGroup() (launcher.NIXLBench, bool) {
	b, ok := s.Job.Line.NIXLBench()
	b.Endpoints = cmp.Or(b.Endpoints, strings.Join(s.Input.World.Store, ","))
	return b, ok && b.Group != "" && b.Endpoints != "" && s.Job.Several()
}

// newGroup refuses a group of nixlbench with keys of another run: its processes would count with these.
func (s *Start) newGroup(ctx context.Context) error {
	b, ok := s.ownGroup()
	if !ok {
		return nil
	}
	cli, err := s.benchStore(ctx, b)
	if err != nil {
		return err
	}
	defer cli.Close()
	for began := time.Now(); ; {
		keys, err := rendezvous.Foreign(ctx, cli, b.Prefix())
		if err != nil || len(keys) == 0 {
			return err
		}
		if time.Since(began) > groupEnds {
			return exit.Errorf(exit.Unfit, "the etcd at %s has %s of another run of nixlbench in the group %q: it runs still, "+
				"or it was killed", b.Endpoints, finding.Plural(len(keys), "key", "keys"), b.Group).
				Do("omit --benchmark_group: then launch names one of its own\n"+
					"if that run is over: launch store clean --store %s --prefix %s", b.Endpoints, b.Prefix())
		}
		select {
		case <-time.After(groupPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// clearGroup removes what an attempt of this job has left in a group that its line names. Its processes have ended on
// all nodes that are not lost, and newGroup has seen that the group was empty before them.
func (s *Start) clearGroup(ctx context.Context) error {
	b, ok := s.ownGroup()
	if !ok {
		return nil
	}
	cli, err := s.benchStore(ctx, b)
	if err != nil {
		return err
	}
	defer cli.Close()
	_, err = rendezvous.Purge(ctx, cli, b.Prefix())
	return err
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

// Limits of the waits for a group and a turn: for the etcd to answer, for another process to be counted, and for a run
// before this one to end: its processes look at each other each 3 s (barrier in etcd_rt.cpp), and rank 0 removes the
// last keys once it has seen that all have finished.
const (
	etcdBudget = 10 * time.Second
	turnWait   = 2 * time.Minute
	groupEnds  = 5 * time.Second
	groupPoll  = 100 * time.Millisecond
)

// awaitTurn lets the processes of nixlbench count themselves in rank order. On their own, any of them may be the first.
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
	limited, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	turn := make(chan error, 1)
	go func() {
		turn <- rendezvous.AwaitForeign(limited, cli, b.Prefix(), func(key, value string) bool {
			return b.Counted(key, value) >= s.World.Rank
		})
	}()
	say := time.NewTimer(roleSay)
	defer say.Stop()
	for before := s.World.Rank - 1; ; {
		select {
		case err := <-turn:
			switch {
			case err == nil:
				return nil
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case limited.Err() != nil:
				return exit.Errorf(exit.PeerUnfit, "nixlbench of node rank %d has not registered below %q within %s", before,
					b.Prefix(), turnWait).Do("read what it printed on node rank %d", before)
			}
			return exit.Errorf(exit.Unreachable, "the etcd of nixlbench at %s: %v", b.Endpoints, err)
		case <-say.C:
			s.UI.Note("waiting for nixlbench of node rank %d to register below %q", before, b.Prefix())
			say.Reset(roleAgain)
		}
	}
}
