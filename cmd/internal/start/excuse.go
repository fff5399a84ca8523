package start

import (
	"context"
	"errors"
	"fmt"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/rendezvous"
)

const (
	// noteBudget bounds how long a node that fails delays its own end to report why to the others.
	noteBudget = 2 * time.Second
	// lastNoteBudget is the same where no node waits for a replacement: without the note they would wait
	// for --join-timeout. The store's host may start later than this node.
	lastNoteBudget = 20 * time.Second
	// hostBudget is the same for the store's host where another launch on its machine hosts the store.
	hostBudget = 300 * time.Millisecond
)

// Excuse prints why a line is wrong, reports it to the other nodes as far as the line says who they are, and returns
// the exit status. At a terminal somebody has read it, and types the line again.
func (s *Start) Excuse(ctx context.Context, argv []string, err error) int {
	status := s.Fail(err, nil)
	if s.UI.Watched() {
		return status
	}
	s.argv = launcher.Assigned(argv)
	s.Opt.JoinTimeout = max(s.Opt.JoinTimeout, noteBudget) // it may be what is wrong
	s.excuse(ctx, err)
	return status
}

// excuse reports to the other nodes, if their store answers, why this node does not join.
func (s *Start) excuse(ctx context.Context, err error) {
	if s.reported || s.Subcommand != "" || s.Opt.DryRun || s.caught != nil && s.caught() != nil {
		return
	}
	text, ok := s.apology(err)
	if !ok {
		return
	}
	if !s.Job.Several() { // what fails may be the line itself
		s.Job = job.Known(s.jobInput())
	}
	if !s.Job.Several() || s.Job.Tasks.Local > 0 || len(s.Job.Store.V.Endpoints) == 0 {
		return
	}
	ctx, stop, _ := handoff.NotifyContext(context.WithoutCancel(ctx))
	defer stop()
	if s.Node.Hostname == "" {
		_ = s.detect(ctx)
	}
	_ = s.leaveNote(ctx, text, isDuplicate(err), exhausted(err) != nil) // there may be no node to read it
}

// apology returns what a note says of an error; false: the others need none.
func (s *Start) apology(err error) (text string, ok bool) {
	f := Failure(err, nil)
	switch f.Code {
	case exit.Unfit, exit.NotExec, exit.NotFound, exit.Config, exit.Usage, exit.Bug:
	case exit.Duplicate: // a second launch of one node is no loss, and a newer process takes part
		e, twin := errors.AsType[*rendezvous.DuplicateError](err)
		if !twin || e.Self.Machine == e.Holder.Machine && e.Self.Addr == e.Holder.Addr {
			return "", false
		}
	default:
		return "", false
	}
	text = f.What
	if bad := s.Local.Failed(); len(bad) > 0 {
		text = bad[0].ID + ": " + bad[0].What
		if more := len(bad) - 1; more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
	}
	return text, true
}

// isDuplicate reports whether another node holds this one's rank.
func isDuplicate(err error) bool {
	_, ok := errors.AsType[*rendezvous.DuplicateError](err)
	return ok
}

// noteTime returns how long this node tries to leave a note.
func (s *Start) noteTime() time.Duration {
	if s.noWait() {
		return min(lastNoteBudget, s.Opt.JoinTimeout)
	}
	return noteBudget
}

// leaveNote writes a note for the other nodes. The store's host hosts the store until they have read it. nameless
// leaves out the rank, which is another node's; a node that is lacking files or memory hosts nothing.
func (s *Start) leaveNote(ctx context.Context, text string, nameless, lacking bool) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, s.noteTime())
	defer cancel()
	if err := awaitName(ctx, s.Job); err != nil {
		return err
	}
	place, err := s.find(ctx, firstLook)
	if err != nil {
		return err
	}
	if place.Contested && len(place.Others(s.Node)) > 0 { // another node hosts the store
		place.Serve = nil
	}
	self, err := s.self(place)
	if err != nil {
		return err
	}
	if nameless {
		self.Index = -1
	}
	store := s.noteStore(ctx, place)
	note := rendezvous.Note{Name: self.Name(), Index: self.Index, Text: text, First: len(place.Serve) > 0}
	var server *rendezvous.Server // which the others wait for
	switch hosts := note.First && !lacking; {
	case note.First && lacking, // no store for the note, unless another launch of this machine hosts one
		hosts && s.UI.Watched() && !s.noWait(): // a person reads what fails here, and starts again
		ctx, cancel = context.WithTimeout(ctx, hostBudget)
		defer cancel()
	case hosts:
		ctx, cancel = context.WithTimeout(whole, rendezvous.Linger)
		defer cancel()
		if server, err = s.hostNote(ctx, place, &store); err != nil {
			return err
		}
		if server == nil && !s.noWait() {
			ctx, cancel = context.WithTimeout(ctx, hostBudget)
			defer cancel()
		} else if server != nil {
			defer server.Drop()
		}
	}
	if server != nil {
		return s.show(ctx, server, store, note)
	}
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil {
		return err
	}
	defer cli.Close()
	return rendezvous.WriteNote(ctx, cli, s.Job.ID.V, note)
}

// show writes a note into the store that this node hosts, and waits until the others have read it.
func (s *Start) show(ctx context.Context, server *rendezvous.Server, store rendezvous.Store, n rendezvous.Note) error {
	if err := server.WriteNote(ctx, s.Job.ID.V, n); err != nil {
		return err
	}
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil { // this node does not reach its own address; others may
		<-ctx.Done()
		return err
	}
	defer cli.Close()
	if s.noWait() {
		rendezvous.AwaitReaders(ctx, cli, s.Job.ID.V, n.Name, s.Job.Nodes.V-1)
	} else {
		rendezvous.AwaitTold(ctx, cli, s.Job.ID.V, n.Name, s.Job.Nodes.V-1)
	}
	return nil
}

// noteStore returns the store for a note.
func (s *Start) noteStore(ctx context.Context, place storeaddr.Place) rendezvous.Store {
	at := s.Job.Store.V
	store := rendezvous.Store{Endpoints: place.Endpoints, Nodes: s.Job.Nodes.V, Access: s.Opt.Etcd(at),
		TLS: companion.TLS(s.Opt.Token, s.Job.ID.V, at.Embedded, place.Endpoints)}
	if at.Embedded {
		store.Job = s.Job.ID.V
	}
	if s.munged(ctx) {
		store.TLS = companion.Learn(&s.Job.ID.V)
	}
	return store
}

// hostNote hosts the store for a note; nil: another launch on this machine does.
func (s *Start) hostNote(ctx context.Context, place storeaddr.Place, store *rendezvous.Store) (*rendezvous.Server,
	error) {
	if s.munged(ctx) {
		token, credential, err := companion.Hide(ctx)
		if err != nil {
			return nil, err
		}
		store.TLS = companion.Embedded(token, s.Job.ID.V, credential)
	}
	server, err := rendezvous.Serve(ctx, s.Job.ID.V, place.Serve, store.TLS)
	if errors.Is(err, rendezvous.ErrPortTaken) {
		return nil, nil
	}
	if err == nil {
		s.UI.Note("hosting the store for up to %s, so that the other nodes learn why this one does not join",
			rendezvous.Linger)
	}
	return server, err
}
