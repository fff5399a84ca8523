package protocol

import (
	"errors"
	"slices"
	"strings"
)

// snapshot takes in the control keys as they are at the beginning of a life. What
// they hold for people is not reported again.
func (n *Node) snapshot(kvs []KV) {
	n.ep, n.epMod, n.leader, n.seen, n.final = Epoch{}, 0, registered{}, nil, false
	clear(n.results)
	for _, kv := range kvs {
		switch kv.Key {
		case n.k.Conflict, n.k.Late:
		case n.k.Progress:
			p, _ := kv.Value.(Report)
			for _, m := range slices.Concat(p.Left, p.Waited) {
				n.reported[m.ID] = true
			}
		default:
			n.hearOne(kv)
		}
	}
}

// hear takes in changes of the control keys.
func (n *Node) hear(e Event) {
	for _, kv := range e.KVs {
		n.hearOne(kv)
	}
	n.again(e)
}

func (n *Node) hearOne(kv KV) {
	switch {
	case !kv.Gone && strings.HasPrefix(kv.Key, n.k.Worlds): // arrives before the epoch that makes it true
		n.seat = &kv
	case kv.Key == n.k.Epoch:
		n.hearEpoch(kv)
	case kv.Key == n.k.Leader:
		n.hearLeader(kv)
	case kv.Gone:
	case kv.Key == n.k.Progress:
		n.hearProgress(kv)
	case kv.Key == n.k.Late:
		l, _ := kv.Value.(Lateness)
		n.closing = n.closing || l.Closing && l.Nonce == n.joined.Nonce
		for _, who := range l.Who {
			n.warn(Late, l.Nonce, who)
		}
		for _, who := range l.Lost {
			n.warn(Gone, l.Nonce, who)
		}
		for _, who := range l.Failed {
			n.warn(Failed, l.Nonce, who)
		}
	case kv.Key == n.k.Conflict:
		m, ok := kv.Value.(Member)
		if ok && m.Index == n.self.Index && m.ID != n.self.ID {
			n.notify(Notice{Kind: Conflict, Member: &m, Text: "it is refused as long as this node is registered"})
		}
	case strings.HasPrefix(kv.Key, n.k.Results):
		n.results[kv.Key], _ = kv.Value.([]byte)
	}
}

// hearEpoch takes in a change of the epoch. A leader knows what it wrote before
// the watch repeats it: an older version changes nothing.
func (n *Node) hearEpoch(kv KV) {
	ep, readable := kv.Value.(Epoch)
	switch {
	case kv.Mod <= n.epMod:
	case kv.Gone:
		n.ep, n.epMod = Epoch{}, 0
	case readable:
		n.ep, n.epMod = ep, kv.Mod
		n.over = n.over || !ep.runs()
		n.spared()
	}
}

// spared remembers, for a standby node, that a world of this run does not need it: one
// that it saw before the start, or that may be started again. If it was away and finds another run
// in the store, then its own is over.
func (n *Node) spared() {
	ep := n.ep
	again := ep.State == Started && ep.Restarts > 0
	if n.self.Stands != "" && n.self.Stands == ep.Run {
		n.self.Stands = ""
		n.edits++
	}
	switch {
	case n.self.standsAside(ep):
		n.unneeded = &SpareError{Size: n.self.Size}
	case !n.self.extra() || ep.Nonce == n.joined.Nonce:
	case ep.State == Sealed || again:
		n.witnessed = ep.Nonce
		if again {
			n.stands = ep.Run
		}
	case ep.State != Open && n.witnessed == ep.Nonce && (n.self.Spares > 0 || ep.Restarts > 0):
		n.unneeded = &SpareError{Size: ep.Size, Why: ep.Why}
	}
}

// hearLeader takes in a change of the leader. Every node reports its departure,
// since no leader is left that could.
func (n *Node) hearLeader(kv KV) {
	if kv.Mod <= n.leader.mod {
		return
	}
	if !kv.Gone {
		m, _ := kv.Value.(Member)
		n.leader = registered{Member: m, create: kv.Create, mod: kv.Mod}
		return
	}
	gone, other := n.leader.Member, n.leader.ID != "" && n.leader.ID != n.self.ID
	n.leader = registered{}
	if other && !n.ep.runs() {
		n.departed(because(gone))
	}
}

// hearProgress takes in the attendance.
func (n *Node) hearProgress(kv KV) {
	p, ok := kv.Value.(Report)
	if !ok {
		return
	}
	if !n.final { // nothing follows the final one
		n.seen, n.final = &p.Attendance, p.Final
	}
	n.unfit = unfit{n.ep.N, p.Unfit, p.More}
	for _, m := range slices.Concat(p.Left, p.Waited) {
		n.departed(m)
	}
	if fresh := n.unreported(p.Unfit); len(fresh) > 0 {
		n.notify(Notice{Kind: Unfit, Unfit: fresh})
	}
	if !p.Final {
		n.notify(Notice{Kind: Progress, Attendance: &p.Attendance})
	}
}

// departed reports once that a member left before the start; Left says why.
func (n *Node) departed(m Member) {
	known := n.reported[m.ID] || m.ID == n.self.ID
	n.reported[m.ID] = true
	n.left[n.k.Member(m)] = m
	if !known {
		n.notify(Notice{Kind: Left, Member: &m, Text: m.Left})
	}
}

// because returns a member that is gone, with the reason.
func because(m Member) Member {
	if m.Left == "" {
		m.Left = "lost: its lease ran out"
	}
	return m
}

// warn reports once that a node of the joined world is late or lost.
func (n *Node) warn(kind NoticeKind, nonce, who string) {
	fresh := nonce == n.joined.Nonce && n.self.Restarts == 0 && !n.reported[who]
	n.reported[who] = true
	if fresh {
		n.notify(Notice{Kind: kind, Text: who})
	}
}

// hearOwn takes in changes of this node's own key: another incarnation that holds
// it ends the session, and a key that is gone ends the life.
func (n *Node) hearOwn(e Event) {
	for _, kv := range e.KVs {
		if kv.Gone {
			n.do(Action{Kind: Fail, Err: errors.New("this node's key is gone")})
			return
		}
		if m, ok := kv.Value.(Member); ok && m.ID != n.self.ID {
			n.halt(&SupersededError{Self: n.self, Newer: m})
			return
		}
	}
	n.again(e)
}
