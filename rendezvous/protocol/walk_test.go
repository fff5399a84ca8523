package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// walk is one random history: a few processes, their store, and what may go wrong.
type walk struct {
	dice   *rand.Rand
	table  *Table
	store  *simStore
	keys   Keys
	now    time.Time
	procs  []*proc
	plan   plan
	faults int // that may still happen
	steps  int
	lease  int64
	wrong  string // the invariant that does not hold; "": all do
	story  []string
	logs   bool

	seats  map[string]*proc  // by run id and rank
	sealed int               // the highest number sealed in this store
	goes   map[string]string // the results of started worlds, by nonce
	voids  map[string]bool   // incarnations whose user knows that they do not start
	posts  map[string]int    // the posts that a world has, by nonce
	over   map[string]bool   // the runs that have ended, or that another one has replaced
}

// plan is what the nodes of a walk expect.
type plan struct {
	nodes, size, min, spares, restarts int
	vouch                              Vouch
	runs                               bool // commands end, and the next run begins
}

// proc is one process of a walk.
type proc struct {
	n              *Node
	id             string
	slot           int
	ask, want      *Action // requests of the session and of the user that the store has not seen
	answer, reply  *Event  // answers that the process has not seen
	lost           bool    // the session's answer is a failure
	down           bool    // its session waits before the next life
	leases         []int64
	control, job   int // positions in the log; -1: no watch
	own            int
	wakes          []time.Time
	waits          bool          // its user waits
	ahead          time.Duration // the time that it has spent in waits
	look           Event
	world          *World
	started, ended bool
	cut            bool          // nothing reaches it, and nothing that it sends arrives
	run            string        // the run that it started in
	pause          time.Duration // how long its user waits at most; 0: no matter
}

var errLost = errors.New("no answer")

func (w *walk) log(p *proc, format string, args ...any) {
	if w.logs {
		w.story = append(w.story, p.id+" "+fmt.Sprintf(format, args...))
	}
}

func (w *walk) fault(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// launch starts a process in a slot.
func (w *walk) launch(slot int) {
	p := &proc{slot: slot, id: string(rune('a'+len(w.procs))) + "0000000", control: -1, job: -1, own: -1, down: true}
	self := Member{ID: p.id, Index: -1, Vouch: w.plan.vouch, Size: w.plan.size, Min: w.plan.min, Spares: w.plan.spares,
		Restarts: w.plan.restarts, Host: p.id, Phase: PhaseArrived}
	if w.plan.vouch != ByArrival {
		self.Index = slot
	}
	p.n = New(Config{Job: "j", Self: self, TTL: 10 * time.Second, LastCall: time.Second,
		Seed: [2]uint64{w.dice.Uint64(), uint64(len(w.procs))}}, w.table)
	w.procs = append(w.procs, p)
	w.user(p, Event{Kind: Join, Budget: 1000 * time.Hour})
}

// session gives a process an event of its session.
func (w *walk) session(p *proc, e Event) {
	for _, a := range p.n.Step(w.clock(p), e) {
		switch a.Kind {
		case Notify:
		case Wake:
			p.wakeAt(w.clock(p).Add(a.After))
		case WatchControl:
			p.control = w.store.after(a.Rev)
			p.own = p.control
		case WatchJob:
			if p.job = -1; a.Rev > 0 {
				p.job = w.store.after(a.Rev)
			}
		case Revoke:
			w.store.expire(a.Lease)
		case Fail:
			w.end(p, Event{Err: a.Err})
		case Halt:
			p.ended = true
			w.log(p, "halts: %v", a.Err)
			w.relaunch(p.slot)
		default:
			p.ask = &a
		}
	}
	if p.waits {
		w.user(p, p.look)
	}
}

// clock returns the time of a process.
func (w *walk) clock(p *proc) time.Time { return w.now.Add(p.ahead) }

// wakeAt remembers a timer, in order of time.
func (p *proc) wakeAt(at time.Time) {
	i, _ := slices.BinarySearchFunc(p.wakes, at, time.Time.Compare)
	p.wakes = slices.Insert(p.wakes, i, at)
}

// end ends a life: its watches and requests are gone.
func (w *walk) end(p *proc, e Event) {
	p.control, p.job, p.own, p.down, p.ask, p.answer = -1, -1, -1, true, nil, nil
	p.wakes = p.wakes[:0]
	e.Kind, e.Err = Fail, cmp.Or(e.Err, errLost)
	w.session(p, e)
}

// user gives a process an event of its user.
func (w *walk) user(p *proc, e Event) {
	p.waits, p.pause = false, 0
	switch e.Kind {
	case Join:
		p.look = Event{Kind: Look}
	case Round:
		p.look = Event{Kind: Result, Name: "go"}
	case Start:
		p.look = Event{Kind: Acked}
	case Follow:
		p.look = Event{Kind: Follow, Budget: time.Hour}
	}
	actions := p.n.Step(w.clock(p), e)
	if len(actions) == 0 {
		p.waits = true
	}
	for _, a := range actions {
		switch a.Kind {
		case Notify, Linger:
		case Wake:
			p.wakeAt(w.clock(p))
		case Wait:
			p.waits, p.pause = true, a.After
		case Reply:
			w.replied(p, a)
		default:
			p.want = &a
		}
	}
}

// replied does what the user does next.
func (w *walk) replied(p *proc, a Action) {
	p.waits = false
	var broken *BrokenError
	var over *RunOverError
	switch {
	case errors.As(a.Err, &broken):
		w.user(p, Event{Kind: Join, Budget: 1000 * time.Hour})
	case a.Err != nil:
		w.log(p, "gives up: %v", a.Err)
		if errors.As(a.Err, &over) {
			w.turnedAway(p)
		}
		w.voids[p.id] = !p.cut // else the others cannot know
		w.leave(p, "it gave up")
		w.relaunch(p.slot)
	case a.World != nil:
		w.joins(p, a.World)
		w.user(p, Event{Kind: Round, Name: "go", Value: []byte(p.id), Reduces: true})
	case a.Value != nil:
		w.starts(p, string(a.Value))
		w.user(p, Event{Kind: Start})
	case a.Fate != nil && a.Fate.Again:
		self := p.n.Self()
		if run := p.n.Epoch().Run; p.n.Up() && run != "" && run != p.run {
			w.fault("%s returns to run %s, and knows of run %s", p.id, p.run, run)
		}
		p.started, p.world = false, nil
		w.user(p, Event{Kind: Return, Member: &self})
		w.user(p, Event{Kind: Join, Budget: 1000 * time.Hour})
	case a.Fate != nil:
		w.leave(p, "")
		if w.plan.runs {
			w.relaunch(p.slot)
		}
	default:
		p.started, p.run = true, p.n.Joined().Run
		w.log(p, "has started")
		if w.plan.restarts > 0 {
			w.user(p, Event{Kind: Follow, Budget: time.Hour, Start: true})
		}
	}
}

// step lets one random thing happen. It returns false where nothing can.
func (w *walk) step() bool {
	w.now = w.now.Add(time.Millisecond)
	for from, i := w.dice.IntN(len(w.procs)), 0; i < len(w.procs); i++ {
		p := w.procs[(from+i)%len(w.procs)]
		if !p.ended && w.act(p) {
			return true
		}
	}
	for from, i := w.dice.IntN(len(w.procs)), 0; i < len(w.procs); i++ { // time passes
		p := w.procs[(from+i)%len(w.procs)]
		switch {
		case p.ended:
		case p.sleeps():
			p.ahead += p.wakes[0].Sub(w.clock(p))
			w.wakes(p)
			return true
		case p.waits && 0 < p.pause && p.pause <= runGrace:
			p.ahead += p.pause
			w.user(p, p.look)
			return true
		}
	}
	return false
}

// sleeps returns whether a timer of a session runs, and nothing else keeps it busy.
func (p *proc) sleeps() bool { return len(p.wakes) > 0 && p.ask == nil && p.answer == nil }

// wakes ends the first timer of a process.
func (w *walk) wakes(p *proc) {
	p.wakes = slices.Delete(p.wakes, 0, 1)
	w.session(p, Event{Kind: Woken})
}

// act lets one thing happen to a process.
func (w *walk) act(p *proc) bool {
	for from, i := w.dice.IntN(6), 0; i < 6; i++ {
		switch (from + i) % 6 {
		case 0:
			if p.ask != nil {
				w.perform(p)
				return true
			}
		case 1:
			if e := p.answer; e != nil {
				if p.answer = nil; p.lost {
					w.end(p, Event{})
				} else {
					w.session(p, *e)
				}
				return true
			}
			if p.down && !p.cut {
				p.down, p.lost = false, false
				w.session(p, Event{Kind: Begin})
				return true
			}
		case 2:
			if w.deliver(p) {
				return true
			}
		case 3:
			if p.sleeps() && !p.wakes[0].After(w.clock(p)) {
				w.wakes(p)
				return true
			}
		case 4:
			if p.want != nil && p.cut {
				p.reply, p.want = &Event{Kind: p.want.Kind, Ask: p.want, Err: errLost}, nil
				return true
			}
			if p.want != nil {
				e, _ := w.execute(p, p.want)
				p.want, p.reply = nil, &e
				return true
			}
		case 5:
			if e := p.reply; e != nil {
				p.reply = nil
				w.user(p, *e)
				return true
			}
		}
	}
	return false
}

// deliver gives a process the next changes of one of its watches. A session hears
// nothing while it waits for an answer.
func (w *walk) deliver(p *proc) bool {
	if p.ask != nil || p.answer != nil || p.control < 0 || p.cut {
		return false
	}
	all := len(w.store.log)
	for from, i := w.dice.IntN(3), 0; i < 3; i++ {
		kind, at, prefix := Control, &p.control, w.keys.Control
		switch (from + i) % 3 {
		case 1:
			kind, at, prefix = Job, &p.job, w.keys.Root
		case 2:
			kind, at, prefix = Own, &p.own, w.keys.Member(p.n.Self())
		}
		if *at < 0 || *at >= all {
			continue
		}
		changes := w.store.since(*at, prefix)
		if *at = all; len(changes) > 0 {
			w.session(p, Event{Kind: kind, KVs: changes})
			return true
		}
	}
	return false
}

// perform carries out a request of a session; its answer follows later.
func (w *walk) perform(p *proc) {
	a := p.ask
	p.ask = nil
	e := Event{Kind: a.Kind, Ask: a}
	if p.cut && a.Kind != Reduce {
		p.answer, p.lost = &e, true
		return
	}
	switch a.Kind {
	case Grant:
		w.lease++
		w.store.leases[w.lease] = true
		p.leases = append(p.leases, w.lease)
		e.Lease, e.Rev = w.lease, w.store.rev
	case Await:
		p.ahead += a.After // longer than the lease of a dead holder
		w.expires()
	case Reduce:
		var all strings.Builder
		for _, post := range a.Posts {
			all.Write(post)
		}
		e.Value, e.Start = []byte(all.String()), true
	default:
		var ok bool
		e, ok = w.execute(p, a)
		p.lost = !ok
	}
	p.answer = &e
}

// execute carries out a transaction, and checks what it made true.
func (w *walk) execute(p *proc, a *Action) (Event, bool) {
	was := w.store.get(w.keys.Epoch)
	if err := cmp.Or(w.keys.Permits(a.If, a.Then), w.keys.Permits(nil, a.Else)); err != nil {
		w.fault("%s: kind %d: a store of launch refuses it: %v", p.id, a.Kind, err)
	}
	e, ok := w.store.transact(a)
	now := w.store.get(w.keys.Epoch)
	if w.logs {
		w.log(p, "kind %d %s: %v, lost lease: %v", a.Kind, a.What, e.OK, !ok)
	}
	if !ok || !e.OK {
		return e, ok
	}
	switch a.Kind {
	case Withdraw:
		ep, _ := now.Value.(Epoch)
		if _, went := w.goes[ep.Nonce]; went && ep.Nonce == p.n.Joined().Nonce { // else its result is deleted
			w.fault("%s gives up after the go", p.id)
		}
		w.voids[p.id] = true
	case Post:
		w.posted(p, a)
	}
	if was.Mod != now.Mod {
		w.moved(now.Value)
	}
	return e, ok
}
