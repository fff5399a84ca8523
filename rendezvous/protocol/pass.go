package protocol

import (
	"slices"
	"strconv"
)

// again begins a pass, after a change.
func (n *Node) again(e Event) {
	n.turn = 0
	n.pass(e)
}

// pass makes the requests that are due, one after the other and each at most once; then
// the node waits for a change. It continues after the request that was answered last.
func (n *Node) pass(Event) {
	turns := []func(*Node){(*Node).elect, (*Node).fell, (*Node).describe, (*Node).survey, (*Node).step,
		(*Node).listUnsent, (*Node).send}
	for !n.asked && n.turn < len(turns) && n.Up() {
		n.turn++
		turns[n.turn-1](n)
	}
}

// elect tries to take the lead where it is free. To lose is fine: the watch reports
// the winner. A lead of an earlier life is bound to this life's lease.
func (n *Node) elect() {
	kind, guard := Elect, Cond{Guard: FreeLead, Of: Create, Key: n.k.Leader, Is: '='}
	switch {
	case n.leader.ID == "" && !n.yields():
	case n.leader.ID == n.self.ID && n.leadLease != n.lease:
		kind, guard = Rebind, Cond{Guard: SameLead, Of: Mod, Key: n.k.Leader, Is: '=', Rev: n.leader.mod}
	default:
		return
	}
	n.ask(Action{Kind: kind, What: "choose a leader", If: []Cond{guard}, Else: []Op{{Key: n.k.Leader}},
		Then: []Op{{Do: Put, Key: n.k.Leader, Value: n.self, Lease: n.lease}}})
}

// elected takes in whether this node leads now.
func (n *Node) elected(e Event) {
	switch {
	case e.OK:
		created := e.Rev
		if e.Kind == Rebind {
			created = n.leader.create
		}
		n.leader, n.leadLease = registered{Member: n.self, create: created, mod: e.Rev}, n.lease
	default:
		for _, kv := range e.KVs {
			n.hearLeader(kv)
		}
	}
	n.pass(e)
}

// yields returns whether this node has just left the lead to others.
func (n *Node) yields() bool {
	return !n.resignedAt.IsZero() && n.now.Sub(n.resignedAt) < resignPause
}

// fell reports, once, why the joined world no longer exists.
func (n *Node) fell() {
	if !n.intact {
		return
	}
	if why := n.broken(); why != "" {
		n.intact = false
		n.notify(Notice{Kind: Broken, Text: why})
	}
}

// describe writes this node's key again where it has changed.
func (n *Node) describe() {
	if n.said == n.edits {
		return
	}
	n.ask(Action{Kind: Describe, What: "update this node's key", edits: n.edits,
		If: []Cond{n.ownLease()}, Then: append(n.remains(), n.describes())})
}

func (n *Node) described(e Event) {
	n.said = e.Ask.edits
	n.pass(e)
}

// ownLease returns the guard that this node's key is still the one that it wrote.
func (n *Node) ownLease() Cond {
	return Cond{Guard: OwnLease, Of: Lease, Key: n.k.Member(n.self), Is: '=', Rev: n.lease}
}

// describes returns the write of this node's key.
func (n *Node) describes() Op {
	return Op{Do: Put, Key: n.k.Member(n.self), Value: n.self, Lease: n.lease}
}

// survey reads the whole job where this node has just taken the lead.
func (n *Node) survey() {
	switch {
	case n.Leads() && n.lead == nil:
		n.ask(Action{Kind: Survey, What: "read the members", Then: []Op{{Key: n.k.Root, Prefix: true}}})
	case !n.Leads() && n.lead != nil:
		n.lead, n.phase = nil, Following
		n.do(Action{Kind: WatchJob})
	}
}

// surveyed takes in the whole job, and watches it from there.
func (n *Node) surveyed(e Event) {
	n.phase = Leading
	n.lead = &lead{members: map[string]registered{}, places: map[string]Place{}, posts: map[string]map[int][]byte{},
		mine: map[int64]bool{}, moved: true, notes: n.recalled(), since: n.now}
	n.wake(NoteGrace + milli)
	for _, kv := range e.KVs {
		n.store(kv)
	}
	n.lead.watches = true
	n.do(Action{Kind: WatchJob, Rev: e.Rev})
	n.pass(e)
}

// listUnsent lists the rounds of the joined world for which this life has posted nothing.
func (n *Node) listUnsent() {
	n.unsent = nil
	if n.ep.Nonce != n.joined.Nonce || n.ep.Nonce == "" {
		return
	}
	for name, p := range n.posts {
		if !p.sent {
			n.unsent = append(n.unsent, name)
		}
	}
	slices.Sort(n.unsent)
}

// send posts to the next round. The own lease and the epoch's version guard it, so
// that this node posts nothing for a world that another incarnation has joined.
func (n *Node) send() {
	for len(n.unsent) > 0 && !n.asked {
		name := n.unsent[0]
		n.unsent = n.unsent[1:]
		p := n.posts[name]
		if p == nil || p.sent {
			continue
		}
		n.turn-- // again after the answer
		ops := []Op{{Do: Put, Key: n.k.Post(n.joined.N, name, n.rank), Value: p.value, Lease: n.lease}}
		if name == AckRound {
			ops = append(ops, n.describes())
		}
		n.ask(Action{Kind: Post, What: "post to round " + strconv.Quote(name), Name: name, post: p, Then: ops,
			If: []Cond{n.ownLease(), n.sameEpoch()}})
	}
}

func (n *Node) posted(e Event) {
	if e.OK {
		e.Ask.post.sent, e.Ask.post.acked = true, true
	}
	n.pass(e)
}

// sameEpoch returns the guard that the epoch is the version that this node read.
func (n *Node) sameEpoch() Cond {
	return Cond{Guard: SameEpoch, Of: Mod, Key: n.k.Epoch, Is: '=', Rev: n.epMod}
}
