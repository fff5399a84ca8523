package protocol

import (
	"fmt"
	"time"
)

// begin asks for a lease: a life is one lease.
func (n *Node) begin(Event) {
	n.phase, n.doubtful, n.contended = Entering, 0, time.Time{}
	n.ask(Action{Kind: Grant, What: "get a lease", Crowd: true})
}

// granted registers with the new lease. Leave gives it back, however far this
// life gets.
func (n *Node) granted(e Event) {
	n.lease, n.leases, n.doubtful = e.Lease, append(n.leases, e.Lease), e.Rev
	n.register(e)
}

// register creates this node's key. In the same transaction it takes the lead
// where it is free, and reads the control keys.
func (n *Node) register(Event) {
	key := n.k.Member(n.self)
	n.self.Epoch, n.self.Claim = max(n.self.Epoch, n.ep.N), n.sawEnd
	n.self.Stands = n.stands
	n.said = n.edits
	n.ask(Action{Kind: Register, What: "register", Crowd: true,
		If: []Cond{{Guard: FreeSlot, Of: Create, Key: key, Is: '='}}, Then: n.entering(), Else: []Op{{Key: key}}})
}

// entering returns the writes of a registration. Of N nodes that start at once all
// but the first see a leader that way, and do not ask for the lead.
func (n *Node) entering() []Op {
	ops := []Op{{Do: Put, Key: n.k.Member(n.self), Value: n.self, Lease: n.lease}}
	if !n.yields() {
		ops = append(ops, Op{Do: Nest,
			If:   []Cond{{Guard: FreeLead, Of: Create, Key: n.k.Leader, Is: '='}},
			Then: []Op{{Do: Put, Key: n.k.Leader, Value: n.self, Lease: n.lease}}})
	}
	return append(ops, Op{Key: n.k.Control, Prefix: true})
}

// registered takes in what a registration found: nothing, so that it is done; or
// another holder of the key. It replaces a holder of the same ID (an unknown
// outcome, or an earlier life), one that leaves or is dead, and any older one
// where a scheduler vouches for the index. It waits for any other.
func (n *Node) registered(e Event) {
	if e.OK {
		n.entered(e)
		n.pass(e)
		return
	}
	n.holder, n.holderMod = Member{}, 0
	for _, kv := range e.KVs {
		n.holder, _ = kv.Value.(Member)
		n.holderMod = kv.Mod
	}
	same := n.holder.ID == n.self.ID
	switch key := n.k.Member(n.self); {
	case !same && n.superseded():
		n.halt(&SupersededError{Self: n.self, Newer: n.holder})
	case same || n.self.Vouch == Scheduled || n.holder.Left != "" || e.Dead:
		if !same && n.holder.Left == "" && !e.Dead && n.holder.Machine != n.self.Machine {
			n.notify(Notice{Kind: Conflict, Member: new(n.holder), Text: "this node, which is newer, takes its place"})
		}
		n.ask(Action{Kind: Replace, What: "register", Then: n.entering(),
			If: []Cond{{Guard: SameHolder, Of: Mod, Key: key, Is: '=', Rev: n.holderMod}}})
	case n.contended.IsZero():
		n.contended, n.rival = n.now, &n.holder
		n.notify(Notice{Kind: Conflict, Member: new(n.holder),
			Text: fmt.Sprintf("waiting up to %s for its lease to run out", n.cfg.TTL+TypedGrace)})
		n.ask(Action{Kind: Contend, What: "report the conflict", Try: true, Rev: e.Rev,
			Then: []Op{{Do: Put, Key: n.k.Conflict, Value: n.self}}})
	default:
		n.await(e)
	}
}

// superseded returns whether another's key is newer than this node's: this node
// was registered before, or may have been, and the other joined since.
func (n *Node) superseded() bool { return n.wasUp || n.doubt > 0 && n.holderMod > n.doubt }

// await waits for the holder of a typed index to vanish, for its lease and a grace. The
// time begins with each life, since leases do not run out while a store is away.
func (n *Node) await(e Event) {
	rev := e.Rev
	if e.Kind == Contend {
		rev = e.Ask.Rev
	}
	left := n.cfg.TTL + TypedGrace - n.now.Sub(n.contended)
	if left <= 0 {
		n.halt(&DuplicateError{Self: n.self, Holder: n.holder})
		return
	}
	n.ask(Action{Kind: Await, What: "wait for the holder", Key: n.k.Member(n.self), Rev: rev, After: left})
}

// replaced ends the lead of the incarnation that this node has just replaced,
// instead of waiting for its lease. A key that has changed is read again.
func (n *Node) replaced(e Event) {
	if !e.OK {
		n.register(e)
		return
	}
	n.entered(e)
	if n.leader.ID != n.holder.ID || n.leader.ID == n.self.ID {
		n.pass(e)
		return
	}
	n.ask(Action{Kind: Depose, What: "replace the leader",
		If:   []Cond{n.ownLease(), {Guard: SameLead, Of: Mod, Key: n.k.Leader, Is: '=', Rev: n.leader.mod}},
		Then: []Op{{Do: Delete, Key: n.k.Leader}}})
}

// entered takes in that the registration is true, and the control keys as they
// were then.
func (n *Node) entered(e Event) {
	n.snapshot(e.KVs)
	n.emptied, n.rival, n.leases = time.Time{}, nil, []int64{n.lease}
	if e.Took {
		n.leadLease = n.lease
	}
	n.phase, n.turn, n.wasUp, n.trouble = Following, 0, true, nil
	for _, p := range n.posts {
		p.sent = false
	}
	if n.lost && (!n.goes() || n.self.Restarts > 0) {
		n.notify(Notice{Kind: Back})
	}
	if n.lost = false; n.closed && !n.ep.runs() { // another store, which does not know that run
		n.running = nil
	}
	n.closed = false
	n.do(Action{Kind: WatchControl, Rev: e.Rev})
}
