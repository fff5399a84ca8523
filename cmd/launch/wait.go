package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/preflight"
	"launch/rendezvous"
)

const (
	// storeWait bounds how long the other nodes of a torchrun job wait for
	// rank 0's store before they start all the same: torchrun then waits by
	// itself, for 15 minutes.
	storeWait = 60 * time.Second
	// reminder is how often a log is told that a wait goes on.
	reminder = time.Minute
)

// waiting keeps saying that the wait goes on, and for whom, and returns what
// ends it.
func (a *app) waiting(began time.Time) (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer a.ui.Status("")
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		next := time.Now().Add(reminder)
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				text := fmt.Sprintf("waiting %s of %s", now.Sub(began).Round(time.Second), a.o.joinTimeout)
				if a.spare.Load() {
					text = fmt.Sprintf("waiting %s", now.Sub(began).Round(time.Second))
				}
				if who := a.latest.Load(); who != nil {
					text += ": " + *who
				}
				a.ui.Status(text)
				if now.After(next) { // the longer it takes, the less often
					next = now.Add(max(reminder, now.Sub(began)/10))
					a.ui.Note("%s", text)
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// tell says what the companion saw during a wait.
func (a *app) tell(e rendezvous.Event) {
	if e.Kind == rendezvous.Anew { // what next asks for the world is told so, and says it
		if end := a.fell.Load(); end != nil {
			(*end)(e.Text)
		}
		return
	}
	text := ui.Event(e)
	switch e.Kind {
	case rendezvous.Back:
		a.latest.Store(nil)
	default:
		a.latest.Store(&text)
	}
	a.spare.Store(e.Kind == rendezvous.Spare)
	if e.Kind == rendezvous.Progress && (!e.Leader || a.joined.Load()) {
		return // one of them tells it, and what came before the world is old then
	}
	if e.Kind == rendezvous.Unfit && e.Leader && !a.ui.JSON() {
		return // the progress says it
	}
	if a.ui.JSON() {
		a.ui.Emit(false, "wait", e)
	} else if text != "" && !(e.Kind == rendezvous.Left && e.Text == notNeeded) { // that one left as the job ended
		a.ui.Note("%s", text)
	}
}

// missing puts names to what did not come, and turns it into an exit.
func (a *app) missing(err error, j job.Job) error {
	m, ok := errors.AsType[*rendezvous.MissingError](err)
	if !ok {
		return err
	}
	f := exit.Error{Code: exit.Missing, Fix: "start launch with the same line on the nodes that did not come, or raise --join-timeout"}
	came := m.Come
	left := ""
	for _, l := range m.Left {
		left += fmt.Sprintf("; %s came and left: %s", l.Name(), l.Left)
		if l.Index >= 0 { // without one it may have come back as another
			came++
		}
	}
	if len(m.Unfit) > 0 {
		left += "; " + ui.Unfit(m.Unfit, m.More)
		f.Fix = "mend what is named, and start launch with the same line on the nodes that did not come, or raise --join-timeout"
	}
	switch {
	case m.Running != "":
		f.What = fmt.Sprintf("the job still runs on %s; this node has no place in it", m.Running)
		f.Fix = "wait for its end, or give the new one another name: --job"
	case came >= cmp.Or(m.Min, m.Want):
		f.What = fmt.Sprintf("%s nodes came, but were not ready together within %s%s", ui.All(came, m.Want), a.o.joinTimeout, left)
		f.Fix = "look at the findings above, or raise --join-timeout"
	default:
		if h := j.Store.V.Host; h == "localhost" || strings.HasPrefix(h, "127.") {
			f.Fix += "\n--store " + h + " is each machine's own address: it only meets nodes of one machine"
		}
		f.What = fmt.Sprintf("only %d of %s nodes came within %s; missing: %s%s", came, ui.Wanted(m.Attendance), a.o.joinTimeout, ui.Missing(m.Attendance, j.Hosts), left)
	}
	return &f
}

// notNeeded is why a spare node leaves at the end of a job.
const notNeeded = "this spare node was not needed"

// spared ends a spare node that is not needed well, where the job did.
func (a *app) spared(err error) error {
	e, ok := errors.AsType[*rendezvous.SpareError](err)
	if !ok || e.Why != "" {
		return err
	}
	a.code = 0
	a.ui.Note("%v", e)
	return nil
}

// whileItStands is ctx for as long as the world is the one that was joined; then it
// ends with a *rendezvous.BrokenError.
func (a *app) whileItStands(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func(why string) { cancel(&rendezvous.BrokenError{Why: why}) }
	a.fell.Store(&end)
	return ctx, func() {
		a.fell.Store(nil)
		cancel(nil)
	}
}

// anew says that the world is no more. Who left it, and that it is waited for, is
// told as it happens.
func (a *app) anew(broken *rendezvous.BrokenError) {
	a.ui.Note("%s; the ranks are agreed anew", broken.Why)
}

// unfit ends this node where the decision says so; nil: wait for another in
// the place of the unfit.
func (a *app) unfit(d preflight.Decision, w rendezvous.World) error {
	if slices.Contains(d.Unfit, w.Rank) {
		return &exit.Error{Code: exit.Unfit, What: "this node is unfit: see the finding above"}
	}
	if a.o.failFast {
		return &exit.Error{Code: exit.PeerUnfit, What: "unfit: " + d.Who, Fix: "see the finding above; without --fail-fast the rest would wait for another node"}
	}
	a.ui.Note("unfit: %s; waiting for another in its place", d.Who)
	return nil
}

// farewell is what the others are told of why this node leaves.
func (a *app) farewell(ctx context.Context, err error) string {
	if s, ok := a.caught().(syscall.Signal); ok && ctx.Err() != nil {
		return signalWord(s)
	}
	if e, ok := errors.AsType[*exit.Error](err); ok && e.Code == exit.Missing {
		return "it waited for as long as its --join-timeout"
	}
	if _, ok := errors.AsType[*rendezvous.SpareError](err); ok {
		return notNeeded
	}
	if e, ok := errors.AsType[*rendezvous.SizeError](err); ok {
		return fmt.Sprintf("it was refused, since it was started with --nnodes %s and this job has %s", e.Self, e.Want)
	}
	return err.Error()
}

// awaitStore waits until the job's own store on rank 0 answers, rank 0 is
// gone, or the time is up.
func (a *app) awaitStore(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-time.After(storeWait):
	case <-ready:
	case <-ctx.Done():
	}
}
