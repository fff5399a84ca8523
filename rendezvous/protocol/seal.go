package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// batch is how many places one transaction writes: etcd allows 128 operations
// (--max-txn-ops).
const batch = 120

// open opens an epoch after the present one, for the next run where this one's is
// over.
func (n *Node) open(why string) {
	if n.ep.runs() {
		n.reopen(Epoch{N: n.ep.N, Last: n.ep.Run}, why)
		return
	}
	n.reopen(n.ep, why)
}

// reopen opens an epoch of the run and the restart of ep.
func (n *Node) reopen(ep Epoch, why string) {
	next := Epoch{N: ep.N, State: Open, Size: n.ep.Size, Min: n.ep.Min, First: n.ep.First, Why: why, Run: ep.Run,
		Last: ep.Last, Restarts: n.ep.Restarts, Restart: ep.Restart}
	if n.ep.State != Open { // an open one that only learns its size stays the same
		next.N++
	}
	if next.Run == "" && next.Last == "" { // the store knows no run: it is new, or was emptied
		next.Run = n.claim()
	}
	for _, m := range n.lead.members {
		next.N = max(next.N, m.Epoch+1)
	}
	if first, ok := n.earliest(); ok {
		next.Size, next.Min, next.First, next.Restarts = first.Size, first.Min, first.Name(), first.Restarts
	}
	n.commit(Reopen, []Op{
		{Do: Put, Key: n.k.Epoch, Value: next},
		{Do: Delete, Key: n.k.Results, Prefix: true},
		{Do: Delete, Key: n.k.Progress},
	})
}

func (n *Node) reopened(e Event) {
	n.lead.attendance, n.lead.call = announcement{}, call{}
	if e.Ask.Then[0].Value.(Epoch).Why == "" { // there is nothing to announce yet
		n.lead.attendance.last = n.now
	}
	n.committed(e)
}

// draft is a world that is not sealed yet. A try that fails leaves it to the next one,
// which writes the difference: all of it each time would overload the store.
type draft struct {
	nonce  string
	create int64            // of c/leader, as it was written: no other leader since could have deleted it
	places map[string]Place // by key
}

// seal begins to make a world: first the places below a fresh nonce, then the epoch that
// names it. It deletes the places of other nonces before.
func (n *Node) seal() {
	l, list := n.lead, n.here()
	l.list = ranked(list, min(len(list), n.ep.Size))
	fresh := l.draft.nonce == "" || l.draft.create != n.leader.create
	if fresh {
		l.draft = draft{}
	}
	if fresh && len(l.places) > 0 {
		n.commit(Clear, []Op{{Do: Delete, Key: n.k.Worlds, Prefix: true}})
		return
	}
	n.writePlaces()
}

func (n *Node) cleared(e Event) {
	if n.wrote(e) {
		clear(n.lead.places)
		n.writePlaces()
	}
	n.pass(e)
}

// writePlaces writes what the draft lacks of the list.
func (n *Node) writePlaces() {
	l, last := n.lead, n.lead.draft
	if last.nonce == "" {
		last = draft{nonce: fmt.Sprintf("%016x", n.dice.Uint64()), create: n.leader.create}
	}
	now := make(map[string]Place, len(l.list))
	var ops []Op
	for rank, p := range Seated(l.list) {
		key := n.k.Place(last.nonce, l.list[rank])
		before, known := last.places[key]
		if now[key] = p; !known || !reflect.DeepEqual(before, p) {
			ops = append(ops, Op{Do: Put, Key: key, Value: p})
			p.Partners = nil
			l.places[key] = p
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last.places)) {
		if _, stays := now[key]; !stays {
			ops = append(ops, Op{Do: Delete, Key: key})
			delete(l.places, key)
		}
	}
	last.places = now
	l.draft, l.parts = last, slices.Collect(slices.Chunk(ops, batch))
	n.nextPart()
}

// nextPart writes the next places, and seals once all of them are written.
func (n *Node) nextPart() {
	if l := n.lead; len(l.parts) > 0 {
		n.commit(Seat, l.parts[0])
		l.parts = l.parts[1:]
		return
	}
	n.sealIt()
}

func (n *Node) seated(e Event) {
	if n.wrote(e) {
		n.nextPart()
	} else {
		n.lead.draft = draft{} // it is not whole
	}
	n.pass(e)
}

// sealIt makes the epoch true that names the nonce, if no node has joined, returned or
// changed since the leader read the members. A key that vanishes is a node lost just
// after the seal, which the next step finds.
func (n *Node) sealIt() {
	l, ep := n.lead, n.ep
	next := Epoch{N: ep.N, Nonce: l.draft.nonce, State: Sealed, Size: len(l.list), Min: ep.Min, First: ep.First,
		Run: cmp.Or(ep.Run, l.draft.nonce), Last: ep.Last, Master: &l.list[0], Restarts: ep.Restarts, Restart: ep.Restart}
	for _, m := range l.list {
		next.N = max(next.N, m.Epoch+1)
	}
	n.commit(Seal, []Op{
		{Do: Put, Key: n.k.Epoch, Value: next},
		{Do: Delete, Key: n.k.Notes, Prefix: true}, // no node waits for them any more
	}, n.unchanged())
}

func (n *Node) sealed(e Event) {
	if n.wrote(e) {
		clear(n.lead.notes)
		n.lead.draft = draft{}
	}
	n.pass(e)
}

// unchanged returns the guard that no member's key is newer than the newest that
// this leader has seen.
func (n *Node) unchanged() Cond {
	return Cond{Guard: NoNewMember, Of: Mod, Key: n.k.Members, Prefix: true, Is: '<', Rev: n.lead.newest + 1}
}

// asLeader does one thing that leaves the epoch alone, if this node still leads. A
// node that has lost the lead has nothing to report.
func (n *Node) asLeader(kind Kind, what string, op Op) {
	n.ask(Action{Kind: kind, What: what, If: n.leadIsMine(), Then: []Op{op}})
}

// leadIsMine returns the guards that this node still leads. The lease is one of them, since revisions
// repeat in an empty store, and since a store knows whose it is.
func (n *Node) leadIsMine() []Cond {
	return []Cond{{Guard: LeadCreate, Of: Create, Key: n.k.Leader, Is: '=', Rev: n.leader.create},
		{Guard: LeadLease, Of: Lease, Key: n.k.Leader, Is: '=', Rev: n.leadLease}}
}

// commit applies ops if this node still leads and the epoch is still the one that
// it knows. A lost race is no error: the watch reports the winner. An unknown outcome
// ends the life, and the next one reads back what became true.
func (n *Node) commit(kind Kind, ops []Op, extra ...Cond) {
	n.ask(
		Action{Kind: kind, What: "write the epoch", Then: ops, If: append(append(extra, n.leadIsMine()...), n.sameEpoch())},
	)
}

// wrote takes in what a commit has made true, before the watch repeats it, and
// returns whether it did.
func (n *Node) wrote(e Event) bool {
	if !e.OK {
		return false
	}
	n.lead.mine[e.Rev] = true
	for _, op := range e.Ask.Then {
		switch {
		case op.Do != Put:
		case op.Key == n.k.Epoch:
			n.ep, n.epMod = op.Value.(Epoch), e.Rev
		case strings.HasPrefix(op.Key, n.k.Results):
			n.results[op.Key], _ = op.Value.([]byte)
		}
	}
	return true
}

func (n *Node) committed(e Event) {
	n.wrote(e)
	n.pass(e)
}
