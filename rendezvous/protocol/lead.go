package protocol

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// milli is added to a timer, so that it ends after the time that it waits for.
const milli = time.Millisecond

// lead is what only the leader holds: all members, places and posts.
type lead struct {
	members    map[string]registered     // by key
	places     map[string]Place          // by key
	posts      map[string]map[int][]byte // by the round's prefix and rank
	first      string                    // the key of the member that waits for longest, if known
	newest     int64                     // the newest revision of a member's key
	mine       map[int64]bool            // the revisions that this leader made, which its watch repeats
	watches    bool                      // what arrives now is a change
	draft      draft
	list       []Member // the world that this leader is sealing, in rank order
	parts      [][]Op   // and what is to be written for it
	due        []string // the rounds that this pass has still to reduce
	moved      bool     // a member joined, changed or went since the last look
	looked     int64    // the revision of the epoch at that look
	attendance announcement
	call       call
	guess      call // ends when the leader no longer waits for the address of the store's host
	roll       roll
	notes      map[string]noted // by key
	since      time.Time        // when this node took the lead
	heard      bool             // the notes that it found then are old enough to be published
}

// hearJob takes in changes of all keys of the job.
func (n *Node) hearJob(e Event) {
	l := n.lead
	for _, kv := range e.KVs {
		before, known := l.members[kv.Key]
		n.store(kv)
		now, stays := l.members[kv.Key]
		// A departure before the start is progress; later it is the end of a run. A node that does
		// not return for a restart was lost when the others failed.
		if known && before.Left == "" && (!stays || now.Left != "") && n.ep.State != Started &&
			before.ID != n.self.ID && (before.Phase == PhaseArrived || n.ep.State == Open && n.ep.Restart > 0) {
			before.Left = now.Left
			if before.Left == "" && before.Phase != PhaseArrived {
				before.Left = "it was lost, which is the likely cause of the restart"
			}
			n.departed(because(before.Member))
		}
	}
	n.again(e)
}

// store takes in one key of the job.
func (n *Node) store(kv KV) {
	l, key := n.lead, kv.Key
	switch {
	case strings.HasPrefix(key, n.k.Members):
		n.storeMember(kv)
	case strings.HasPrefix(key, n.k.Worlds):
		if p, ok := kv.Value.(Place); ok && !kv.Gone {
			p.Partners = nil
			l.places[key] = p
		} else if kv.Gone {
			delete(l.places, key)
		}
	case strings.HasPrefix(key, n.k.Notes):
		n.storeNote(kv)
	case strings.HasPrefix(key, n.k.Posts):
		n.storePost(kv)
	}
}

func (n *Node) storeMember(kv KV) {
	l, key := n.lead, kv.Key
	if kv.Gone {
		delete(l.members, key)
		l.moved = true
		return
	}
	m, ok := kv.Value.(Member)
	if !ok {
		return
	}
	now := registered{m, kv.Create, kv.Mod, n.now}
	if before := l.members[key]; before.ID == m.ID && waits(before) {
		now.seen = before.seen
	}
	l.members[key] = now
	if kv.Create < l.members[l.first].create {
		l.first = ""
	}
	l.newest = max(l.newest, kv.Mod)
	l.moved = true
}

func (n *Node) storePost(kv KV) {
	l := n.lead
	round, rank, ok := n.k.Posted(kv.Key)
	if !ok {
		return
	}
	if kv.Gone {
		if delete(l.posts[round], rank); len(l.posts[round]) == 0 {
			delete(l.posts, round)
		}
		return
	}
	if l.posts[round] == nil {
		l.posts[round] = map[int][]byte{}
	}
	l.posts[round][rank], _ = kv.Value.([]byte)
}

// step does the one thing that the epoch's state asks of its leader.
func (n *Node) step() {
	l := n.lead
	if l == nil {
		return
	}
	if n.epMod != l.looked {
		l.moved, l.looked = true, n.epMod
	}
	switch n.ep.State {
	case Sealed:
		n.stepSealed()
	case Started, Over:
		if n.begins(); n.ep.Restarts > 0 || !n.report() {
			n.watchOver(l)
		}
	default:
		n.gather()
	}
}

// stepSealed opens the next epoch where a node of the world is gone, resigns where
// this leader is not of the world, and else reduces its rounds.
func (n *Node) stepSealed() {
	l := n.lead
	if l.moved {
		if gone := n.gone(); len(gone) > 0 {
			n.open(some(gone) + " left after the ranks were agreed")
			return
		}
		if !n.inside() {
			n.resign()
			return
		}
		l.moved = false
	}
	l.due = n.reducible()
	n.reduce()
}

// watchOver ends a run with restarts that is over, and opens the next epoch once
// all members of the last run have left.
func (n *Node) watchOver(l *lead) {
	if !l.moved && !l.roll.waited(n.now) {
		return
	}
	if n.ep.State == Started && n.ep.Restarts > 0 {
		if over, why := n.verdict(); over {
			n.finish(why)
			return
		}
	}
	if n.inside() || len(n.gone()) < n.ep.Size {
		l.moved = false
		return
	}
	n.open("")
}

// resign gives the lead to a node of the sealed world: only they can reduce.
func (n *Node) resign() {
	n.resignedAt = n.now
	n.asLeader(Resign, "resign", Op{Do: Delete, Key: n.k.Leader})
}

func (n *Node) resigned(e Event) {
	n.leader = registered{mod: n.leader.mod}
	n.wake(resignPause) // in case no node took the lead
	n.pass(e)
}

// seats returns the places of the sealed world, each with the member that was
// sealed there; nil: it is gone, or another incarnation has its key.
func (n *Node) seats() iter.Seq2[Place, *Member] {
	return func(yield func(Place, *Member) bool) {
		world := n.k.World(n.ep.Nonce)
		for key, p := range n.lead.places {
			slot, ours := strings.CutPrefix(key, world)
			if !ours {
				continue
			}
			var now *Member
			if m, ok := n.lead.members[n.k.Members+slot]; ok && m.ID == p.ID {
				now = &m.Member
			}
			if !yield(p, now) {
				return
			}
		}
	}
}

// gone returns the names of the sealed world's members that are no longer what
// was sealed, in rank order.
func (n *Node) gone() []string {
	var out []Place
	for p, now := range n.seats() {
		if now == nil || now.Left != "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return cmp.Compare(a.Rank, b.Rank) })
	names := make([]string, len(out))
	for i, p := range out {
		names[i] = p.Name
	}
	return names
}

// inside returns whether this leader is of the sealed world.
func (n *Node) inside() bool { return n.lead.places[n.k.Place(n.ep.Nonce, n.self)].ID == n.self.ID }

// some returns the first few of many names.
func some(names []string) string {
	if len(names) > few {
		names = append(slices.Clone(names[:few]), fmt.Sprintf("%d more", len(names)-few))
	}
	return strings.Join(names, ", ")
}

// names returns the names of members.
func names(ms []Member) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Name()
	}
	return out
}
