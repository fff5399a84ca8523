package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// reply answers the user.
func (n *Node) reply(a Action) {
	a.Kind = Reply
	n.do(a)
}

// wait lets the user wait for a change, and no longer than d; 0: no limit but its own.
func (n *Node) wait(d time.Duration) {
	if left := n.until.Sub(n.now); !n.until.IsZero() && (d == 0 || left < d) {
		d = max(left, 1)
	}
	n.do(Action{Kind: Wait, After: d})
}

// join begins a wait for a world.
func (n *Node) join(e Event) {
	n.user, n.outside, n.budget, n.until = Joining, "", e.Budget, n.now.Add(e.Budget)
	n.look(e)
}

// look decides what a wait for a world does next.
func (n *Node) look(e Event) {
	ep, self := n.ep, n.self
	n.patience()
	switch end := n.end(); {
	case end != nil:
		if self.First { // the store ends with this node, and the others need to know
			_, unfit := end.(*UnfitError)
			n.do(Action{Kind: Linger, Unfit: unfit})
		}
		n.user = Idle
		n.reply(Action{Err: end})
	case self.Run != "" && n.Up() && n.runOver() != "":
		n.user = Idle
		n.reply(Action{Err: &RunOverError{self, n.runOver()}})
	case self.Run != "" && n.Up() && ep.Run != self.Run && !n.sawEnd:
		n.awaitRun()
	case ep.Nonce != "" && (ep.Nonce == n.joined.Nonce || ep.Nonce == n.outside && !(ep.runs() && ep.Nonce == n.surplus)):
		n.rest(0)
	case ep.State == Sealed:
		n.findPlace()
	case ep.runs():
		a := Action{surplus: ep.Nonce == n.surplus}
		n.outside, n.surplus = ep.Nonce, ""
		if ep.State == Started && self.extra() {
			if ep.Restarts > 0 {
				n.look(e)
				return
			}
			a.missing = &MissingError{Attendance: Attendance{Want: self.Size, Min: self.Min}}
		}
		n.askRunning(a)
	case ep.Size > 0 && !self.wants(ep):
		n.ask(Action{Kind: ReadFirst, epoch: ep, Then: []Op{{Key: n.k.Members, Prefix: true, Limit: few, Oldest: true}}})
	default:
		n.rest(0)
	}
}

// patience suspends the limit of a wait while this node is a standby node of a
// complete world.
func (n *Node) patience() {
	spare := n.self.extra() && n.Up() && n.ep.Nonce != "" && n.ep.Nonce == n.outside
	switch {
	case !spare && n.until.IsZero():
		n.until = n.now.Add(n.budget)
	case spare && !n.until.IsZero():
		n.until = time.Time{}
		n.notify(Notice{Kind: Spare, Size: n.ep.Size})
	}
}

// rest waits for a change, or for d, unless the time is up.
func (n *Node) rest(d time.Duration) {
	if !n.until.IsZero() && !n.now.Before(n.until) {
		n.expire(Event{})
		return
	}
	n.wait(d)
}

// findPlace finds this node's place in the sealed world, which the store may have
// sent already.
func (n *Node) findPlace() {
	key := n.k.Place(n.ep.Nonce, n.self)
	a := Action{Kind: ReadPlace, Crowd: true, epoch: n.ep, Then: []Op{{Key: key}}}
	if n.seat != nil && n.seat.Key == key {
		n.placed(Event{Ask: &a, OK: true, KVs: []KV{*n.seat}})
		return
	}
	n.ask(a)
}

// placed takes in this node's place, and enters the world if there is one. A place of
// another incarnation does not count.
func (n *Node) placed(e Event) {
	var p Place
	readable := true
	for _, kv := range e.KVs {
		p, readable = kv.Value.(Place)
	}
	switch {
	case e.Err != nil || !readable:
		n.rest(RetryMax / 4)
	case p.ID != n.self.ID:
		n.outside = e.Ask.epoch.Nonce
		if !n.self.extra() {
			n.surplus = n.outside
		}
		n.look(e)
	default:
		n.enter(e.Ask.epoch, p)
	}
}

// enter takes this node into a sealed world.
func (n *Node) enter(ep Epoch, p Place) {
	n.user, n.joined, n.rank, n.intact = Inside, ep, p.Rank, true
	clear(n.posts)
	n.reply(Action{World: &World{
		Job: n.cfg.Job, Epoch: ep.N, Rank: p.Rank, Size: ep.Size, Self: n.self, Master: *ep.Master, Partners: p.Partners,
		RunID: fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(n.cfg.Job, "/", "-"), ep.N, ep.Nonce[:8]),
	}})
}

// sized ends a wait where the node that was first expects another size. An epoch
// of an earlier run may still say one that its leader is about to replace.
func (n *Node) sized(e Event) {
	ep := e.Ask.epoch
	for _, kv := range e.KVs {
		m, ok := kv.Value.(Member)
		if !ok || m.Left != "" || m.Phase != PhaseArrived {
			continue
		}
		if m.Size != n.self.Size || m.Min != n.self.Min {
			n.reply(Action{Err: &SizeError{
				Self: Count(n.self.Size, n.self.Min), Want: Count(ep.Size, ep.Min), First: ep.First}})
			return
		}
		break
	}
	n.rest(0) // a failed read is repeated at the next change
}

// askRunning reads which nodes of a started epoch are still registered.
func (n *Node) askRunning(a Action) {
	a.Kind, a.epoch, a.Then = ReadRunning, n.ep, []Op{{Key: n.k.Members, Prefix: true, Limit: 4 * few}}
	n.ask(a)
}

// ran takes in which nodes of the last run are left.
func (n *Node) ran(e Event) {
	var still []string
	if e.Err != nil {
		still = []string{e.Ask.epoch.Master.Name()}
	}
	for _, kv := range e.KVs {
		if m, ok := kv.Value.(Member); ok && m.Phase == PhaseStarted && len(still) < few {
			still = append(still, m.Name())
		}
	}
	if m := e.Ask.missing; m != nil {
		m.Running = some(still)
		n.lastNews(m, e.Ask.Last)
		return
	}
	if len(still) > 0 {
		n.running, n.over = still, false
		out := Notice{Kind: Waiting, Have: still}
		if e.Ask.surplus {
			out.Size = e.Ask.epoch.Size
		}
		n.notify(out)
	}
	n.look(e)
}

// expire ends a wait, because of an interruption or because its time is up. It
// reads the attendance; the answer only adds names.
func (n *Node) expire(e Event) {
	if e.Err != nil {
		n.reply(Action{Err: e.Err})
		return
	}
	n.ask(Action{Kind: ReadProgress, Last: true, Then: []Op{{Key: n.k.Progress}}})
}

// progressed ends a wait with the nodes that were missing when the time ran out.
func (n *Node) progressed(e Event) {
	if e.Err != nil || !n.Up() && n.trouble != nil { // in the second case this node could not register
		n.reply(Action{Err: n.lastKnown(e.Err)})
		return
	}
	var p Report
	for _, kv := range e.KVs {
		p, _ = kv.Value.(Report)
	}
	self := n.self
	if p.Want != self.Size || p.Min != self.Min {
		p.Attendance = Attendance{Joined: 1, Want: self.Size, Min: self.Min, Here: names([]Member{self}),
			Missing: Missing([]Member{self}, self.Size)}
	}
	m := &MissingError{Attendance: p.Attendance}
	switch {
	case n.ep.runs():
		n.askRunning(Action{Last: true, missing: m})
		return
	case n.ep.State == Sealed:
		m.Joined, m.Here, m.Missing = n.ep.Size, nil, nil
	}
	n.lastNews(m, true)
}

// lastNews ends a wait. The store host publishes first what was missing: the
// store ends with it, and the others are to end with names too.
func (n *Node) lastNews(m *MissingError, publish bool) {
	if !publish || !n.self.First {
		n.reply(Action{Err: m})
		return
	}
	n.ask(Action{Kind: Farewell, Try: true, Last: true, missing: m,
		Then: []Op{{Do: Put, Key: n.k.Progress, Value: Report{Attendance: m.Attendance, Final: true}}}})
}

func (n *Node) farewell(e Event) {
	n.do(Action{Kind: Linger})
	n.reply(Action{Err: e.Ask.missing})
}

// round posts a value to a round.
func (n *Node) round(e Event) {
	n.posts[e.Name] = &post{value: e.Value, reduces: e.Reduces}
	n.until = time.Time{}
	n.wake(0)
	n.result(e)
}

// say posts a value to a round that has no result.
func (n *Node) say(e Event) {
	n.posts[e.Name] = &post{value: e.Value}
	n.wake(0)
}

// result returns the result of a round, unless the world broke up before.
func (n *Node) result(e Event) {
	result, ok := n.Known(e.Name)
	broken := n.broken()
	switch {
	case n.fatal != nil:
		n.reply(Action{Err: n.fatal})
	case broken != "":
		n.reply(Action{Err: &BrokenError{Why: broken}})
	case ok:
		n.reply(Action{Value: result})
	default:
		n.wait(0)
	}
}

// giveUp withdraws from a round, unless the result exists already. The key below
// the nonce remains when the lease is given back.
func (n *Node) giveUp(e Event) {
	self, result := n.self, n.k.Result(n.joined.N, e.Name)
	self.Left = TimeUp
	n.ask(Action{Kind: Withdraw, Last: true, Name: e.Name, Err: e.Err, epoch: n.joined,
		If: []Cond{{Guard: NoResult, Of: Create, Key: result, Is: '='}},
		Then: []Op{{Do: Put, Key: n.k.Quit(n.joined.Nonce), Value: []byte(self.ID)},
			{Do: Nest, If: []Cond{n.ownLease()}, Then: []Op{{Do: Put, Key: n.k.Member(self), Value: self, Lease: n.lease}}}},
		Else: []Op{{Key: result}, {Key: n.k.Epoch}}})
}

// withdrew returns a result that exists already, which this node follows as the others
// do. Else its wait is over.
func (n *Node) withdrew(e Event) {
	var result []byte
	var now Epoch
	for _, kv := range e.KVs {
		if ep, ok := kv.Value.(Epoch); ok {
			now = ep
		} else {
			result, _ = kv.Value.([]byte)
		}
	}
	if e.Err != nil || e.OK || result == nil || now.Nonce != e.Ask.epoch.Nonce {
		n.expire(Event{Err: e.Ask.Err})
		return
	}
	n.reply(Action{Value: slices.Clone(result)})
}
