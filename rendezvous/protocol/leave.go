package protocol

import (
	"cmp"
	"time"
)

// start publishes that this node has read that it may start.
func (n *Node) start(e Event) {
	n.user, n.self.Phase = Running, PhaseStarted
	n.intact = false // the end of this world is not reported as the end of a wait
	n.posts[AckRound] = &post{value: []byte("{}")}
	n.until = time.Time{}
	n.wake(0)
	n.acked(e)
}

// acked returns once the acknowledgement is written, so that this node's key was still the
// sealed one. The store's host then waits for all, because the store ends with it.
func (n *Node) acked(Event) {
	switch ack := n.posts[AckRound]; {
	case n.fatal != nil:
		n.reply(Action{Err: n.fatal})
	case ack == nil || !ack.sent:
		n.wait(0)
	case n.self.First:
		n.reply(Action{Key: n.k.Round(n.joined.N, AckRound), Size: n.joined.Size})
	default:
		n.reply(Action{})
	}
}

// exit publishes that this node's command has ended.
func (n *Node) exit(e Event) {
	n.self.Phase, n.self.Status = PhaseEnded, e.Status
	n.edits++
	n.wake(0)
}

// exited remembers how this node's command ended, for Leave to write.
func (n *Node) exited(e Event) { n.status = &e.Status }

// follow returns the outcome of the run that this node started in. Once its own
// command has ended, it waits no longer than the budget for a lost store.
func (n *Node) follow(e Event) {
	if e.Start {
		n.until = time.Time{}
	}
	switch alone := !n.Up() && n.self.Phase == PhaseEnded; {
	case !alone:
		n.until = time.Time{}
	case n.until.IsZero():
		n.until = n.now.Add(e.Budget)
	}
	ep, over := n.ep, n.runOver()
	fate := Fate{Why: ep.Why, Restart: ep.Restart, Restarts: ep.Restarts}
	switch {
	case n.fatal != nil:
		n.reply(Action{Err: n.fatal})
	case ep.Nonce == n.joined.Nonce && ep.State == Over:
		n.reply(Action{Fate: &fate})
	case n.Up() && over != "":
		n.reply(Action{Err: &RunOverError{n.self, over}})
	case n.Up() && ep.Run != n.joined.Run && !n.sawEnd:
		n.awaitRun()
	case ep.Nonce != n.joined.Nonce && (ep.N != 0 || n.Up()):
		fate.Again, fate.Why = true, cmp.Or(ep.Why, "the store was started again")
		n.reply(Action{Fate: &fate})
	case !n.until.IsZero() && !n.now.Before(n.until):
		n.reply(Action{Err: n.lastKnown(nil)})
	default:
		n.wait(0)
	}
}

// runOver returns why the run that this node takes part in is over; "": it is not, as far
// as the store knows.
func (n *Node) runOver() string {
	switch ep, run := n.ep, n.joined.Run; {
	case run == "":
		return ""
	case ep.Run == run && ep.State == Over && ep.Nonce != n.joined.Nonce:
		return "it ended without this node"
	case ep.Run != run && (ep.Run != "" || ep.Last != ""):
		return "another run of the job has begun"
	}
	return ""
}

// runGrace is how long a node waits for others of its run to return to an emptied store: a
// few tries at a store that has just come back.
const runGrace = 5 * time.Second

// awaitRun waits until another node of the run has returned to an emptied store. A node goes
// on with its run there if it saw the end of the last store, and the run could not end without
// it in that one. This node does not know that. One that is started again anyway does not wait.
func (n *Node) awaitRun() {
	if n.emptied.IsZero() {
		n.emptied = n.now
	}
	if left := runGrace - n.now.Sub(n.emptied); left > 0 && !n.cfg.Renews {
		n.wait(left)
		return
	}
	n.user = Idle
	n.reply(Action{Err: &RunOverError{n.self, "the store was started again, and the run may have ended before"}})
}

// comeBack makes this node one that waits for a world again.
func (n *Node) comeBack(e Event) {
	n.user, n.self = Idle, *e.Member
	n.self.Phase, n.self.Status, n.self.Run = PhaseArrived, 0, n.joined.Run
	n.self.Claim = n.sawEnd
	n.edits++
	clear(n.posts)
	n.wake(0)
}

// leave takes this node out at once and publishes why.
func (n *Node) leave(e Event) {
	n.phase, n.lead = Ended, nil
	if n.lease == 0 {
		return
	}
	ops, self := n.remains(), n.self
	if n.ep.State == Sealed && n.ep.Nonce == n.joined.Nonce {
		ops = append(ops, Op{Do: Put, Key: n.k.Quit(n.ep.Nonce), Value: []byte(self.ID)})
	}
	if n.cfg.Hosted && self.First && self.Phase != PhaseArrived {
		last := Lateness{Nonce: n.joined.Nonce, Closing: true}
		if n.status != nil && *n.status != 0 {
			last.Failed = []string{Place{Partner: Partner{Rank: n.rank, Name: self.Name()}}.is(failure(*n.status))}
		}
		n.do(Action{Kind: Leave, Then: []Op{{Do: Put, Key: n.k.Late, Value: last}}})
	}
	if self.Left = e.Text; e.Text != "" {
		// The lead may be this node's without its knowledge: the leader before it has
		// just gone, and the answer is under way.
		ops = append(ops, Op{Do: Nest, If: []Cond{n.ownLease()}, Then: []Op{
			{Do: Put, Key: n.k.Member(self), Value: self, Lease: n.lease},
			{Do: Nest, If: []Cond{{Guard: LeadLease, Of: Lease, Key: n.k.Leader, Is: '=', Rev: n.lease}},
				Then: []Op{{Do: Put, Key: n.k.Leader, Value: self, Lease: n.lease}}}}})
	}
	if len(ops) > 0 {
		n.do(Action{Kind: Leave, Then: ops})
	}
	for _, lease := range n.leases {
		n.do(Action{Kind: Revoke, Lease: lease})
	}
}

// remains returns the writes of a node whose command has ended, or that leaves: its place reports
// so, also when its key is gone. A place that was removed is not made again.
func (n *Node) remains() []Op {
	if n.joined.Nonce == "" || n.self.Phase == PhaseArrived || n.self.Phase == PhaseStarted && n.phase != Ended {
		return nil
	}
	p := Place{Partner: Partner{Rank: n.rank, ID: n.self.ID, Name: n.self.Name()}, Over: true, Status: n.status}
	if n.self.Phase == PhaseEnded {
		p.Status = &n.self.Status
	}
	key := n.k.Place(n.joined.Nonce, n.self)
	return []Op{{Do: Nest, If: []Cond{{Guard: PlaceRemains, Of: Create, Key: key, Is: '>'}},
		Then: []Op{{Do: Put, Key: key, Value: p}}}}
}
