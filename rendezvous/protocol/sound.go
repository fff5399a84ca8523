package protocol

import "unicode/utf8"

// MaxNodes is more than any job has. A larger number in a value of the store is none of launch's, whose
// flags refuse it.
const MaxNodes = 1<<20 + 1

// The values of the store come from other nodes, and may come from anybody who reaches it. What is
// not sound is not readable: it is decoded to nothing.

// Sound returns whether a node can have written this about itself.
func (m Member) Sound() bool {
	port := func(p int) bool { return p >= 0 && p < 1<<16 }
	return m.Index >= -1 && m.Index < MaxNodes && m.Size > 0 && number(m.Size) && number(m.Min) && m.Min <= m.Size &&
		m.Spares >= 0 && m.Restarts >= 0 && m.Epoch >= 0 && port(m.Port) && port(m.Peer) && m.Patience >= 0 &&
		len(m.Role) <= maxRole
}

// maxRole is the length of the longest name of a role that is read, in bytes.
const maxRole = 64

func number(n int) bool { return n >= 0 && n < MaxNodes }

// nonceLength is the least length of a nonce, of which names have the beginning.
const nonceLength = 8

// Sound returns whether a leader can have written this epoch.
func (ep Epoch) Sound() bool {
	switch ep.State {
	case Open:
	case Sealed, Started, Over:
		if ep.Size == 0 || len(ep.Nonce) < nonceLength || ep.Master == nil || !ep.Master.Sound() {
			return false
		}
	default:
		return false
	}
	return ep.N >= 0 && number(ep.Size) && number(ep.Min) && ep.Restarts >= 0 && ep.Restart >= 0
}

// Sound returns whether a leader can have written this place.
func (p Place) Sound() bool {
	for _, other := range p.Partners {
		if !number(other.Rank) {
			return false
		}
	}
	return number(p.Rank) && p.Port >= 0 && p.Port < 1<<16 && len(p.Role) <= maxRole
}

// Sound returns whether a node can have written this note.
func (n Note) Sound() bool {
	short := func(s string, limit int) bool {
		return len(s) <= limit*utf8.UTFMax && utf8.RuneCountInString(s) <= limit
	}
	return n.Index >= -1 && n.Index < MaxNodes && short(n.Name, NoteName) && short(n.Text, NoteText)
}

// Sound returns whether a leader can have written this report.
func (r Report) Sound() bool {
	for _, note := range r.Unfit {
		if !note.Sound() {
			return false
		}
	}
	return len(r.Unfit) <= few && len(r.Left) <= few && len(r.Waited) <= few && number(r.Over) && len(r.Here) <= few
}
