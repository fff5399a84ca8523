package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/ui"
	"launch/fabric"
	"launch/internal/exit"
	"launch/preflight"
	"launch/rendezvous"
)

// depart leaves the job, reports err to the other nodes, and returns how this node ends; nil: well.
func (s *Start) depart(ctx context.Context, err error) error {
	err = s.numberedTwice(s.blameWay(ctx, err))
	if s.comp == nil {
		s.excuse(ctx, err)
		return s.inPod(err)
	}
	s.leave(s.farewell(ctx, err))
	// the job needed no standby node, and ended well
	if e, ok := errors.AsType[*rendezvous.SpareError](err); ok && e.Why == "" {
		s.status = 0
		s.UI.Note("%v", e)
		return nil
	}
	return s.inPod(err)
}

// blameWay turns the error about a store that does not answer into one about this node's own link or route.
func (s *Start) blameWay(ctx context.Context, err error) error {
	if !errors.Is(err, rendezvous.ErrUnreachable) || s.store == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstLook)
	defer cancel()
	var addrs []netip.Addr
	for _, host := range storeNames(s.Job.Store.V) {
		more, _ := systemResolver(ctx, host)
		addrs = append(addrs, more...)
	}
	if why := fabric.Stuck(addrs); why != "" {
		return exit.Errorf(exit.Unreachable, "the store at %s is not reached, and the reason is here: %s",
			strings.Join(s.store.Endpoints, ", "), why).Do(preflight.FixStuck)
	}
	return err
}

// leave ends the companion; the other nodes learn why.
func (s *Start) leave(why string) {
	s.comp.Leave(why)
	s.comp = nil
}

// notNeeded is why a standby node leaves at the end of a job.
const notNeeded = "the job did not need this standby node"

// farewell returns why this node leaves, for the others.
func (s *Start) farewell(ctx context.Context, err error) string {
	if sig, ok := s.caught().(syscall.Signal); ok && ctx.Err() != nil {
		return exit.SignalText(sig)
	}
	switch e, _ := errors.AsType[*exit.Error](err); {
	case e != nil && e.Code == exit.Missing:
		return "its --join-timeout ran out"
	case e != nil && e.Code == exit.Unfit:
		return "it is unfit"
	}
	if _, ok := errors.AsType[*rendezvous.SpareError](err); ok {
		return notNeeded
	}
	if e, ok := errors.AsType[*rendezvous.SizeError](err); ok {
		return fmt.Sprintf("it was refused: it has --nnodes %s, this job has %s", e.Self, e.Want)
	}
	return err.Error()
}

// missing turns a wait that ran out into an error that names the missing nodes.
func (s *Start) missing(err error) error {
	m, ok := errors.AsType[*rendezvous.MissingError](err)
	if !ok {
		return err
	}
	joined, left := m.Joined, ""
	for _, l := range m.Left {
		left += fmt.Sprintf("; %s joined and left: %s", l.Name(), l.Left)
		if l.Index >= 0 { // without an index it may have joined again as another node
			joined++
		}
	}
	again := "start launch with the same line on the missing nodes, or raise --join-timeout"
	if len(m.Unfit) > 0 {
		left += "; " + ui.Unfit(m.Unfit, m.More)
		again = "fix the unfit node; " + again
	}
	if s.twins {
		again = numbered(s.Job.Index.From.Name) + "\n" + again
	}
	switch {
	case m.Running != "":
		return exit.Errorf(exit.Missing, "the job still runs on %s and has no place for this node", m.Running).
			Do("if this node belongs to it: --nnodes %d on all nodes\n"+
				"else wait until it ends, or give the new job another name: --job", m.Want+1)
	case joined >= cmp.Or(m.Min, m.Want):
		return exit.Errorf(exit.Missing, "%s nodes joined, but were not ready together within %s%s", ui.All(joined, m.Want),
			s.Opt.JoinTimeout, left).
			Do("see the findings above, or raise --join-timeout")
	}
	if h := s.Job.Store.V.Host; h == "localhost" || strings.HasPrefix(h, "127.") {
		again += "\n--store " + h + " is the address of each machine itself: it serves only nodes on one machine"
	}
	return exit.Errorf(exit.Missing, "only %d of %s nodes joined within %s; missing: %s%s", joined,
		ui.Wanted(m.Attendance), s.Opt.JoinTimeout,
		ui.Missing(m.Attendance, s.Job.Hosts), left).Do("%s", again)
}

const (
	// noteBudget bounds how long an unfit node delays its own end to report why to the others.
	noteBudget = 2 * time.Second
	// lastNoteBudget is the same where no node waits for a replacement: without the note they would wait
	// for --join-timeout. The store's host may start later than this node.
	lastNoteBudget = 20 * time.Second
	// hostBudget is the same for the store's host where the others wait on: only another launch on this
	// machine can host the store then.
	hostBudget = 300 * time.Millisecond
)

// excuse reports to the other nodes, if their store answers, that this node is unfit and does not join.
func (s *Start) excuse(ctx context.Context, err error) {
	if s.Subcommand != "" || s.Opt.DryRun || !s.Job.Several() || s.Job.Tasks.Local > 0 || s.caught() != nil {
		return
	}
	f := Failure(err, nil)
	switch f.Code {
	case exit.Unfit, exit.NotExec, exit.NotFound, exit.Config, exit.Usage, exit.Bug:
		text := f.What
		if bad := s.Local.Failed(); len(bad) > 0 {
			text = bad[0].ID + ": " + bad[0].What
			if more := len(bad) - 1; more > 0 {
				text += fmt.Sprintf(", and %d more", more)
			}
		}
		_ = s.leaveNote(ctx, text) // there may be no node to read it
	}
}

// noteTime returns how long this node tries to leave a note.
func (s *Start) noteTime() time.Duration {
	if s.noWait() {
		return min(lastNoteBudget, s.Opt.JoinTimeout)
	}
	return noteBudget
}

// leaveNote writes a note for the other nodes. Where they do not wait on, the store's host hosts the store until
// they have read it, and they end at once.
func (s *Start) leaveNote(ctx context.Context, text string) error {
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
	self, err := s.self(place)
	if err != nil {
		return err
	}
	at := s.Job.Store.V
	store := rendezvous.Store{Endpoints: place.Endpoints, Nodes: s.Job.Nodes.V, Access: s.Opt.Etcd(at),
		TLS: companion.TLS(s.Opt.Token, s.Job.ID.V, at.Embedded, place.Endpoints)}
	if at.Embedded {
		store.Job = s.Job.ID.V
	}
	if s.munged(ctx) {
		store.TLS = companion.Learn(&s.Job.ID.V)
	}
	note := rendezvous.Note{Name: self.Name(), Index: self.Index, Text: text}
	if len(place.Serve) > 0 && !s.noWait() {
		ctx, cancel = context.WithTimeout(ctx, hostBudget)
		defer cancel()
	}
	var server *rendezvous.Server // which the others wait for
	if len(place.Serve) > 0 && s.noWait() {
		ctx, cancel = context.WithTimeout(whole, rendezvous.Linger)
		defer cancel()
		if s.munged(ctx) {
			token, credential, err := companion.Hide(ctx)
			if err != nil {
				return err
			}
			store.TLS = companion.Embedded(token, s.Job.ID.V, credential)
		}
		server, err = rendezvous.Serve(ctx, s.Job.ID.V, place.Serve, store.TLS)
		if err == nil {
			defer server.Drop()
			s.UI.Note("hosting the store for up to %s, so that the other nodes learn why this one does not join",
				rendezvous.Linger)
		} else if !errors.Is(err, rendezvous.ErrPortTaken) {
			return err
		}
	}
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil {
		return err
	}
	defer cli.Close()
	if err := rendezvous.WriteNote(ctx, cli, s.Job.ID.V, note); err != nil || server == nil {
		return err
	}
	rendezvous.AwaitReaders(ctx, cli, s.Job.ID.V, note.Name, s.Job.Nodes.V-1)
	return nil
}
