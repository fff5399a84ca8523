package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"launch/internal/companion"
	"launch/internal/job"
	"launch/internal/meeting"
	"launch/internal/record"
	"launch/rendezvous"
)

const (
	// noteBudget bounds how long a node that is not fit puts its own end off to
	// tell the others why.
	noteBudget = 2 * time.Second
	// hostBudget is the same where this node would have hosted the store: only
	// another launch on this machine can have it then. With --fail-fast it hosts it
	// for a while (rendezvous.Linger).
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
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, noteBudget)
	defer cancel()
	if err := awaitName(ctx, s.Job); err != nil {
		return err
	}
	place, err := a.place(ctx, s, firstLook)
	if err != nil {
		return err
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
	note := rendezvous.Note{Name: self.Name(), Index: self.Index, Text: text}
	if len(place.Serve) > 0 {
		if a.o.failFast {
			return a.lastWords(whole, s.Job, place, store, note)
		}
		ctx, cancel = context.WithTimeout(ctx, hostBudget)
		defer cancel()
	}
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil {
		return err
	}
	defer cli.Close()
	return rendezvous.WriteNote(ctx, cli, s.Job.ID.V, note)
}

// lastWords hosts the store for as long as the others may take to come and read
// why this node, which was to host it, does not: with --fail-fast they then end, and
// would else wait for a store until their time is up.
func (a *app) lastWords(ctx context.Context, j job.Job, at meeting.Place, store rendezvous.Store, note rendezvous.Note) error {
	ctx, cancel := context.WithTimeout(ctx, rendezvous.Linger)
	defer cancel()
	server, err := rendezvous.Serve(ctx, j.ID.V, at.Serve, store.TLS)
	if err == nil {
		defer server.Drop()
		a.ui.Note("hosting the store for up to %s, so that the others hear of it", rendezvous.Linger)
	} else if !errors.Is(err, rendezvous.ErrPortTaken) {
		return err
	}
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil {
		return err
	}
	defer cli.Close()
	if err := rendezvous.WriteNote(ctx, cli, j.ID.V, note); err != nil || server == nil {
		return err
	}
	rendezvous.Told(ctx, cli, j.ID.V, note.Name, j.Nodes.V-1)
	return nil
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
