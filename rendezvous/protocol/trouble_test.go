package protocol

import "slices"

// relaunch starts a process in a slot that has none.
func (w *walk) relaunch(slot int) {
	if w.plan.runs && len(w.procs) >= 12 {
		return
	}
	if !slices.ContainsFunc(w.procs, func(p *proc) bool { return p.slot == slot && !p.ended }) {
		w.launch(slot)
	}
}

// trouble lets something go wrong, rarely.
func (w *walk) trouble() {
	rare := 12
	if w.plan.runs {
		rare = 25
	}
	if w.faults == 0 || w.dice.IntN(rare) > 0 {
		return
	}
	w.faults--
	p := w.procs[w.dice.IntN(len(w.procs))]
	if p.ended {
		return
	}
	kind := w.dice.IntN(8)
	if w.plan.runs {
		kind = []int{0, 2, 3, 5, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8}[w.dice.IntN(14)]
	}
	w.log(p, "fault %d", kind)
	switch kind {
	case 0: // it dies, and its lease runs out some time
		w.dies(p)
	case 1: // it is started again while it still runs
		w.launch(p.slot)
	case 2: // its lease runs out
		w.store.expire(p.n.Lease())
	case 3: // a request is carried out, and its answer is lost
		if p.answer != nil {
			p.lost = true
		} else {
			w.end(p, Event{})
		}
	case 4: // its time runs out
		if p.waits && p.look.Kind == Result {
			w.user(p, Event{Kind: GiveUp, Name: "go"})
		} else if p.waits && p.look.Kind == Look {
			w.user(p, Event{Kind: Expire})
		} else {
			return
		}
	case 5: // it leaves
		w.voids[p.id] = !p.cut
		w.leave(p, "interrupted")
		w.launch(p.slot)
	case 7: // the store returns empty
		if len(w.goes) == 0 || w.plan.runs {
			w.wipe()
		}
	case 6: // its command ends
		if p.started && w.plan.restarts > 0 {
			w.session(p, Event{Kind: Exit, Status: w.dice.IntN(2)})
		}
	case 8: // it is cut off
		p.cut = true
	}
}

// wipe empties the store, which ends all lives. A node that is not cut off sees its end; one that
// was cut off for less than its lease may.
func (w *walk) wipe() {
	if slices.ContainsFunc(w.procs, func(p *proc) bool { return p.blind() }) {
		return
	}
	// What only the lost store knew is gone: a run is not over for a node of it that has not heard of the end.
	for _, p := range w.procs {
		ep := p.n.Epoch()
		if unheard := ep.Run == p.run && ep.State == Started; !p.ended && p.started && unheard && p.n.Up() && !p.cut {
			delete(w.over, p.run)
		}
	}
	was := w.store.leases
	w.store.keys, w.store.log, w.store.rev, w.sealed, w.store.leases = nil, nil, 0, 0, map[int64]bool{}
	for _, p := range w.procs {
		if !p.ended {
			w.end(p, Event{Ended: was[p.n.Lease()] && !p.down && (!p.cut || w.dice.IntN(2) == 0)})
		}
	}
}

// blind returns whether a process saw the end of the last store and knows nothing of this one: if
// it is cut off until this one has ended, too, it goes on with a run that may be over.
func (p *proc) blind() bool { return !p.ended && p.n.sawEnd && !p.n.Up() }

// runs lets a job of several runs go on: commands end, and what was cut off is connected again. It
// returns whether it did.
func (w *walk) runs() bool {
	p := w.procs[w.dice.IntN(len(w.procs))]
	switch {
	case !w.plan.runs || p.ended:
	case p.cut:
		w.log(p, "is connected again")
		if p.cut = false; !w.store.leases[p.n.Lease()] && !p.down {
			w.end(p, Event{})
		}
		return true
	case p.started && p.n.Self().Phase == PhaseStarted:
		status := 0
		if w.dice.IntN(6) == 0 {
			status = 1
		}
		w.log(p, "its command ends with %d", status)
		w.session(p, Event{Kind: Exit, Status: status})
		return true
	}
	return false
}

// goesOn lets a job of several runs go on where nothing else can happen.
func (w *walk) goesOn() bool {
	for range 20 * len(w.procs) {
		if w.runs() {
			return true
		}
	}
	return false
}

func (w *walk) dies(p *proc) {
	p.ended, p.ask, p.want, p.answer, p.reply, p.waits = true, nil, nil, nil, nil, false
	w.launch(p.slot)
}

// expires ends the leases of processes that are dead, and of earlier lives. It
// returns whether there were any.
func (w *walk) expires() (any bool) {
	for _, p := range w.procs {
		for _, lease := range p.leases {
			if (p.ended || p.cut || lease != p.leases[len(p.leases)-1]) && w.store.leases[lease] {
				any = true
				w.store.expire(lease)
			}
		}
	}
	return any
}

// leave ends a process with a goodbye.
func (w *walk) leave(p *proc, why string) {
	p.ended, p.waits, p.ask, p.want, p.answer, p.reply = true, false, nil, nil, nil, nil
	for _, a := range p.n.Step(w.clock(p), Event{Kind: Leave, Text: why}) {
		if p.cut {
			continue
		} else if a.Kind == Revoke {
			w.store.expire(a.Lease)
		} else {
			w.store.transact(&a)
		}
	}
}
