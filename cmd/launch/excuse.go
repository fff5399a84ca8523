package main

import (
	"context"
	"fmt"
	"time"

	"launch/internal/companion"
	"launch/internal/job"
	"launch/internal/record"
	"launch/rendezvous"
)

const (
	// noteBudget bounds how long a node that is not fit puts its own end off to
	// tell the others why.
	noteBudget = 2 * time.Second
	// hostBudget is the same where this node would have hosted the store: only
	// another launch on this machine can have it then.
	hostBudget = 300 * time.Millisecond
)

// excused tells the nodes of the job, as far as their store answers, that this
// one is not fit and does not come. It returns err.
func (a *app) excused(ctx context.Context, s *record.Start, err error) error {
	if a.o.dryRun || !s.Job.Several() || a.caught() != nil {
		return err
	}
	f := failure(err, nil)
	switch f.Code {
	case exitUnfit, exitNotExec, exitNotFound:
		text := f.What
		if bad := s.Local.Failed(); len(bad) > 0 {
			text = bad[0].ID + ": " + bad[0].What
			if more := len(bad) - 1; more > 0 {
				text += fmt.Sprintf(", and %d more", more)
			}
		}
		_ = a.excuse(ctx, s, text) // nobody may be there to hear it
	}
	return err
}

// excuse writes a note for the other nodes.
func (a *app) excuse(ctx context.Context, s *record.Start, text string) error {
	ctx, cancel := context.WithTimeout(ctx, noteBudget)
	defer cancel()
	if err := awaitName(ctx, s.Job); err != nil {
		return err
	}
	place, err := a.place(ctx, s, firstLook)
	if err != nil {
		return err
	}
	if len(place.Serve) > 0 {
		ctx, cancel = context.WithTimeout(ctx, hostBudget)
		defer cancel()
	}
	self, err := a.self(s, place)
	if err != nil {
		return err
	}
	at := s.Job.Store.V
	store := rendezvous.Store{Endpoints: place.Endpoints, Nodes: s.Job.Nodes.V, Access: a.o.etcd(at), TLS: companion.TLS(a.keys, at.Embedded, place.Endpoints)}
	if at.Embedded {
		store.Job = s.Job.ID.V
	}
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil {
		return err
	}
	defer cli.Close()
	return rendezvous.Note{Name: self.Name(), Index: self.Index, Text: text}.Write(ctx, cli, s.Job.ID.V)
}

// awaitName lets podNameDelay pass where the store's name may be just appearing.
func awaitName(ctx context.Context, j job.Job) error {
	if !ofAPod(j) {
		return nil
	}
	select {
	case <-time.After(podNameDelay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
