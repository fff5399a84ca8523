package start

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"launch/cmd/internal/ui"
	"launch/rendezvous"
)

// reminder is how often a log says that a wait goes on.
const reminder = time.Minute

// observer prints what happens while this node waits, and ends work for a world that breaks up.
type observer struct {
	ui      *ui.UI
	timeout time.Duration // --join-timeout

	// alone and claimed, if set, print what may keep the nodes apart, once each in a long wait: alone where no other
	// node has joined.
	alone, claimed func()
	// unhosted and twin, if set, return that, too; "": nothing is known. Each is printed once.
	unhosted func(rendezvous.Event) string
	twin     func(other string) string

	// silent, if set, returns once why a store may not answer for long, "": nothing is known; apart prints why nodes are
	// lost again and again.
	silent func(ctx context.Context, long bool) (said string)
	apart  func()
	// callers, if set, prints which nodes call the store here in vain.
	callers func(now time.Time)
	// deaf, if set, prints what this node drops of what others send.
	deaf func(now time.Time)

	mu       sync.Mutex
	latest   string           // the last event
	standby  bool             // this node has no place: the wait has no limit
	joined   bool             // this node has its world: earlier arrivals are no news
	broken   func(why string) // ends what is done for the joined world; nil: nothing
	lost     func(why string) // reports the loss of the store to a run with restarts; nil: it is a wait's
	away     bool             // the store is lost
	since    time.Time        // from then on
	looked   bool             // for the reason of that, before silentAfter
	why      string           // that reason, as far as it is known
	answered bool             // the store has answered
	losses   int              // how often it was lost
	breaks   int              // how many worlds broke up before their start
	over     bool             // this node has what it waited for: who leaves now is no news
	here     int              // how many nodes have joined, this one included; 0: not known
}

// begin prints events, a live line and reminders until the returned func is called.
func (o *observer) begin(began time.Time) (end func()) {
	o.setJoined(false)
	done, ended := make(chan struct{}), make(chan struct{})
	endLooks := o.looks()
	go func() {
		defer close(ended)
		defer o.ui.Status("")
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		next, lonely := time.Now().Add(reminder), time.Now().Add(aloneAfter)
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				text := o.text(now.Sub(began))
				o.ui.Status(text)
				for _, say := range []func(time.Time){o.callers, o.deaf} {
					if say != nil {
						say(now)
					}
				}
				if now.After(lonely) {
					o.sayAlone()
					o.sayClaimed()
				}
				if now.After(next) { // the longer the wait, the less often
					next = now.Add(max(reminder, now.Sub(began)/10))
					o.ui.Note("%s", text)
				}
			}
		}
	}()
	return func() {
		endLooks()
		close(done)
		<-ended
	}
}

// looks has this node look each second why a store may not answer, until the returned func is called. One look takes
// seconds.
func (o *observer) looks() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				o.saySilent(ctx, now)
			}
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// sayAlone says once what may keep the other nodes away, if none has joined.
func (o *observer) sayAlone() {
	o.mu.Lock()
	say := o.alone
	alone := say != nil && o.here == 1 && !o.standby && !o.away
	if alone || o.here > 1 {
		o.alone = nil
	}
	o.mu.Unlock()
	if alone {
		say()
	}
}

// sayClaimed says once whether another machine has an address of this node. Only the loop of begin uses claimed.
func (o *observer) sayClaimed() {
	if say := o.claimed; say != nil {
		o.claimed = nil
		say()
	}
}

// silentAfter is how long a store may be silent before this node says why that may be, and shortAfter before it looks
// for a reason that is certain.
const silentAfter, shortAfter = 10 * time.Second, 2 * time.Second

// saySilent says once why a store may not answer.
func (o *observer) saySilent(ctx context.Context, now time.Time) {
	o.mu.Lock()
	say, since := o.silent, now.Sub(o.since)
	long := since >= silentAfter
	due := say != nil && o.away && o.lost == nil && (long || (since >= shortAfter || o.losses > 1) && !o.looked)
	o.looked = o.looked || due
	o.mu.Unlock()
	if !due {
		return
	}
	text := say(ctx, long)
	if text != "" {
		o.ui.Note("%s", text)
	}
	if text == "" && !long || ctx.Err() != nil {
		return // where the wait is over, a later one looks again
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.silent, o.why = nil, cmp.Or(text, o.why)
}

// brokeUp counts the worlds that broke up, and returns what says why, at the second one.
func (o *observer) brokeUp(e rendezvous.Event) (say func()) {
	if e.Kind != rendezvous.Broken {
		return nil
	}
	if o.breaks++; o.breaks > 1 {
		say, o.apart = o.apart, nil
	}
	return say
}

// text describes the wait after some time.
func (o *observer) text(waited time.Duration) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := fmt.Sprintf("waiting %s", waited.Round(time.Second))
	if !o.standby {
		text += fmt.Sprintf(" of %s", o.timeout)
	}
	if o.latest != "" {
		text += ": " + o.latest
	}
	return text
}

func (o *observer) setJoined(joined bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.joined, o.answered = joined, o.answered || joined
}

// setOver ends the report of nodes that leave.
func (o *observer) setOver() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

// WhileJoined returns a context that ends with a *rendezvous.BrokenError when the joined world breaks
// up.
func (o *observer) WhileJoined(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	o.onBreak(func(why string) { cancel(&rendezvous.BrokenError{Why: why}) })
	return ctx, func() {
		o.onBreak(nil)
		cancel(nil)
	}
}

func (o *observer) onBreak(end func(why string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken = end
}

// whileRunning has the loss of the store reported by lost; nil: no longer.
func (o *observer) whileRunning(lost func(why string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = lost
}

// withoutStore reports whether the store is lost.
func (o *observer) withoutStore() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away
}

// reason returns why the store does not answer, as it was printed during the wait; "": it was not found, or the store
// has answered since.
func (o *observer) reason() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// hasAnswered returns whether the store has answered.
func (o *observer) hasAnswered() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answered
}

// hint returns what may keep the nodes apart, as an event shows it; "": nothing new.
func (o *observer) hint(e rendezvous.Event) (text string) {
	switch {
	case e.Kind == rendezvous.Lost && o.unhosted != nil && o.here == 0:
		if text = o.unhosted(e); text != "" {
			o.unhosted, o.why = nil, text
		}
	case e.Kind == rendezvous.Conflict && o.twin != nil:
		text = o.twin(e.Member.Name())
		o.alone, o.twin = nil, nil
	}
	return text
}

// event takes what the companion reports during a wait.
func (o *observer) event(e rendezvous.Event) {
	text := ui.Event(e)
	o.mu.Lock()
	joined, broken, lost, over := o.joined, o.broken, o.lost, o.over
	if e.Kind == rendezvous.Lost && !o.away {
		o.since = time.Now()
		o.losses++
	}
	o.away = e.Kind == rendezvous.Lost || o.away && e.Kind != rendezvous.Back
	if e.Kind != rendezvous.Broken {
		o.latest, o.standby = text, e.Kind == rendezvous.Spare
		if e.Kind == rendezvous.Back {
			o.latest, o.why, o.answered = "", "", true
		}
	}
	switch e.Kind {
	case rendezvous.Progress:
		o.here, o.answered = e.Attendance.Joined, true
	case rendezvous.Unfit, rendezvous.Left, rendezvous.Gone:
		o.alone = nil // another node has reached the store
	}
	hint, apart := o.hint(e), o.brokeUp(e)
	o.mu.Unlock()
	defer func() {
		if apart != nil {
			apart()
		}
		if hint != "" {
			o.ui.Note("%s", hint)
		}
	}()
	switch {
	case over && (e.Kind == rendezvous.Gone || e.Kind == rendezvous.Left):
	case e.Kind == rendezvous.Broken: // the next question to the world returns it, and prints it
		if broken != nil {
			broken(e.Text)
		}
	case e.Kind == rendezvous.Progress && (!e.Leader || joined): // the leader prints it, until there is a world
	case e.Kind == rendezvous.Lost && lost != nil:
		lost(e.Text)
	case o.ui.JSON():
		o.ui.Emit(false, "wait", e)
	case e.Kind == rendezvous.Unfit && e.Leader: // the progress says it
	case e.Kind == rendezvous.Left && e.Text == notNeeded: // that node left because the job ended
	case text != "":
		o.ui.Note("%s", text)
	}
}
