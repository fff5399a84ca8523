package flight

import (
	"fmt"
	"slices"

	"launch/diagnose/verdict"
)

// unpaired finds receives in which a rank waits, and for which the other rank has not called a send. It counts, so
// that it needs all records of both ranks, and no receive from any source.
func (g *group) unpaired() (out []wait) {
	if !g.known {
		return nil
	}
	for _, m := range g.sorted() {
		e := m.dump.pending()
		if e == nil || !e.IsP2P || e.kind() != "recv" || !slices.Contains(m.p2p, e) || m.dump.Wrapped || m.dump.Holes {
			continue
		}
		var to, from int
		if _, err := fmt.Sscanf(e.Op, "recv %d<-%d", &to, &from); err != nil || from < 0 || from >= len(g.ranks) {
			continue
		}
		peer := g.members[g.ranks[from]]
		if peer == nil || peer.dump.Wrapped || peer.dump.Holes || anySource(m.p2p) ||
			peer.dump.Changed.UnixNano() < e.Created {
			continue
		}
		if countOf(peer.p2p, fmt.Sprintf("send %d->%d", from, to)) >= countOf(m.p2p, e.Op) {
			continue
		}
		out = append(out, wait{g: g, entry: e, here: []int{m.rank}, late: []int{peer.rank}, sure: verdict.Certain})
	}
	return out
}

func anySource(all []*Entry) bool {
	return slices.ContainsFunc(all, func(e *Entry) bool {
		var to, from int
		_, err := fmt.Sscanf(e.Op, "recv %d<-%d", &to, &from)
		return e.kind() == "recv" && err != nil
	})
}

func countOf(all []*Entry, op string) (n int) {
	for _, e := range all {
		if e.Op == op {
			n++
		}
	}
	return n
}
