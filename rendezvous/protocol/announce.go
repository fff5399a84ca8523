package protocol

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// announcement is when the leader last published the attendance.
type announcement struct {
	due  bool
	last time.Time
	text Attendance
	wake bool // a timer runs
}

// announce publishes the attendance where it has changed, and not more often than
// all nodes can read it.
func (n *Node) announce() {
	l, t := n.lead, &n.lead.attendance
	if !l.heard && n.now.Sub(l.since) >= NoteGrace {
		l.heard = true
		t.due = t.due || len(l.notes) > 0
	}
	if !t.due {
		return
	}
	every := min(progressEvery, time.Duration(n.ep.Size)*time.Millisecond)
	if wait := every - n.now.Sub(t.last); wait > 0 {
		if !t.wake {
			t.wake = true
			n.wake(wait + milli)
		}
		return
	}
	t.due, t.wake = false, false
	now := n.attendance()
	if reflect.DeepEqual(now, t.text) {
		return
	}
	t.last, t.text = n.now, now
	n.asLeader(Announce, "publish the attendance", Op{Do: Put, Key: n.k.Progress, Value: Report{Attendance: now}})
}

// attendance returns which nodes have joined and which have left.
func (n *Node) attendance() Attendance {
	here := n.here()
	have := make([]Member, len(here))
	for i, m := range here {
		have[i] = m.Member
	}
	left := n.leavers(have)
	waited, gone := n.timedOut(have, left)
	a := Attendance{
		Joined: len(have), Want: n.ep.Size, Min: n.ep.Min,
		Here: names(have[:min(few, len(have))]), Left: gone[max(0, len(gone)-few):],
		Waited: waited[max(0, len(waited)-few):], Over: len(waited),
	}
	a.Unfit, a.More = n.unfitNow()
	if n.self.Spares == 0 { // else any node may take any place
		a.Missing = Missing(append(slices.Clone(have), left...), n.ep.Size)
	}
	return a
}

// leavers returns the nodes that left while this one waited, and are not back.
func (n *Node) leavers(have []Member) []Member {
	for _, m := range have {
		delete(n.left, n.k.Member(m))
	}
	return slices.SortedFunc(maps.Values(n.left), func(a, b Member) int {
		return cmp.Or(a.Index-b.Index, a.Since.Compare(b.Since))
	})
}

// timedOut divides the nodes that left into those whose time ran out and the others. One of the first that has no index
// may have joined again, by another start on its host.
func (n *Node) timedOut(have, left []Member) (waited, gone []Member) {
	here := map[string]time.Time{}
	for _, m := range have {
		if name := m.Name(); m.Since.After(here[name]) {
			here[name] = m.Since
		}
	}
	for _, m := range left {
		switch {
		case m.Left != TimeUp:
			gone = append(gone, m)
		case !here[m.Name()].After(m.Since.Add(m.Patience)):
			waited = append(waited, m)
		}
	}
	return waited, gone
}

// noted is a note as the leader holds it.
type noted struct {
	Note
	mod   int64 // 0: as an earlier leader published it
	found bool  // it existed before this node led
}

// unfit is what the leader published last about unfit nodes.
type unfit struct {
	epoch int // in the wait for which
	notes []Note
	more  int
}

// unreported returns the notes that people have not read yet.
func (n *Node) unreported(all []Note) (fresh []Note) {
	for _, note := range all {
		if id := note.Name + ": " + note.Text; !n.reported[id] {
			n.reported[id] = true
			fresh = append(fresh, note)
		}
	}
	return fresh
}

// recalled returns what a leader before this one published of the same wait.
func (n *Node) recalled() map[string]noted {
	out := map[string]noted{}
	if n.ep.State == Open && n.unfit.epoch == n.ep.N {
		for _, note := range n.unfit.notes {
			out[n.k.Note(note.Index, note.Name)] = noted{Note: note}
		}
	}
	return out
}

// storeNote takes in a note; before the watch begins it is one that was found. A note
// that expires during a wait remains: its node is still missing.
func (n *Node) storeNote(kv KV) {
	l := n.lead
	if kv.Gone {
		if n.ep.State != Open {
			delete(l.notes, kv.Key)
		}
		return
	}
	note, ok := kv.Value.(Note)
	if !ok {
		return
	}
	now := noted{Note: note, mod: kv.Mod, found: !l.watches}
	if before, ok := l.notes[kv.Key]; ok && before.Note == note {
		now.found = now.found && before.found
	}
	l.notes[kv.Key] = now
	l.attendance.due = true
}

// unfitNow returns the last few notes, by index and name, and how many others
// there are. A note is obsolete once its node has joined.
func (n *Node) unfitNow() (last []Note, more int) {
	l := n.lead
	if len(l.notes) == 0 {
		return nil, 0
	}
	joined := map[string]int64{}
	for _, m := range l.members {
		if waits(m) {
			key := n.k.Note(m.Index, shortened(m.Name(), NoteName))
			joined[key] = max(joined[key], m.create)
			m.Index = -1 // a note about its index is of its host alone
			key = n.k.Note(-1, shortened(m.Name(), NoteName))
			joined[key] = max(joined[key], m.create)
		}
	}
	maps.DeleteFunc(l.notes, func(key string, note noted) bool { return joined[key] > note.mod })
	var all []noted
	for key, note := range l.notes {
		if held := note.Index >= 0 && joined[key] > 0; !held && (l.heard || !note.found) {
			all = append(all, note)
		}
	}
	slices.SortFunc(all, func(a, b noted) int { return cmp.Or(cmp.Compare(a.mod, b.mod), cmp.Compare(a.Name, b.Name)) })
	if more = len(all) - few; more > 0 {
		all = all[more:]
	}
	for _, note := range all {
		last = append(last, note.Note)
	}
	slices.SortFunc(last, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	return last, max(more, 0)
}
