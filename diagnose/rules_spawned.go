package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/internal/tcpstore"
)

// spawned reports whether scripts started all ranks that were seen.
func (v *view) spawned() bool {
	return len(v.seats) > 0 && !slices.ContainsFunc(v.seats, func(s *seat) bool { return !s.proc.Spawned })
}

// unnumbered gives ranks without a number in their environment the one that their script gives init_process_group,
// while they are in it, and later that of the address that they have published: they listen there. Only those count
// that use the store of the job: what the scripts of two nodes start may be two jobs. One store may have several
// worlds, each with a prefix of its own: where the numbers are not those of one world, none is taken.
func (v *view) unnumbered() {
	if v.prefixes() > 1 {
		return
	}
	worlds := map[int]int{}
	for _, s := range v.seats {
		if s.rank >= 0 {
			continue
		}
		if m := mainStack(s.proc); m != nil && hasFrame(m, "init_process_group") && v.usesHome(s) {
			s.rank, s.world = number(m.Values, "rank"), max(number(m.Values, "world_size"), 0)
		}
		if b := v.listensAs(s); s.rank < 0 && b != nil {
			s.rank, s.world = b.Index, b.World
		}
		s.read = s.rank >= 0
		worlds[s.world]++
	}
	if delete(worlds, 0); len(worlds) > 1 {
		for _, s := range v.seats {
			if s.read {
				s.rank, s.read = -1, false
			}
		}
		return
	}
	if v.world == 0 {
		v.world = min(most(worlds), maxListed)
	}
}

// prefixes returns how many worlds have published addresses for their default groups in the store.
func (v *view) prefixes() int {
	found := map[string]bool{}
	if v.board != nil {
		for _, b := range v.board.Blobs {
			if b.Group == 0 {
				before, _, _ := strings.Cut(b.Key, "default_pg/")
				found[before] = true
			}
		}
	}
	return len(found)
}

// usesHome reports whether a rank has a connection to the store whose keys are those of the job.
func (v *view) usesHome(s *seat) bool {
	at := netip.AddrPortFrom(v.home.At.Addr().Unmap(), v.home.At.Port())
	return v.board != nil && slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		to := netip.AddrPortFrom(k.Remote.Addr().Unmap(), k.Remote.Port())
		return k.PID == s.proc.PID && k.State == "established" && to == at &&
			(!at.Addr().IsLoopback() || s.node == v.home.from)
	})
}

// listensAs returns the address for the default group at which a rank listens; nil: none is known.
func (v *view) listensAs(s *seat) *tcpstore.Blob {
	if v.board == nil {
		return nil
	}
	i := slices.IndexFunc(v.board.Blobs, func(b tcpstore.Blob) bool {
		at := b.Addr.Addr().Unmap()
		here := s.node.isAt(at) || at.IsLoopback() && b.Host == s.node.name
		return b.Group == 0 && here && v.listens(s, b.Addr.Port())
	})
	if i < 0 {
		return nil
	}
	return &v.board.Blobs[i]
}

// nameless reports whether a rank is there whose number is not known although its environment could be read: it may be
// one that seems to be missing.
func (v *view) nameless() bool {
	return slices.ContainsFunc(v.seats, func(s *seat) bool { return s.rank < 0 && s.proc.Env != nil })
}

// allStart reports whether all ranks that were seen wait in init_process_group.
func (v *view) allStart() bool {
	return !slices.ContainsFunc(v.seats, func(s *seat) bool {
		return !slices.Contains([]phase{dialing, unanswered, counting, keys, mesh}, s.phase)
	})
}

// unlike finds nodes whose scripts started other numbers of ranks, where all ranks wait in init_process_group: a script
// that takes its own node's number for the number of all waits for ranks that no node starts.
func (v *view) unlike() []claim {
	if !v.spawned() || !v.allStart() {
		return nil
	}
	var nodes []*node
	count, world, all := map[*node]int{}, map[*node]int{}, map[int]bool{}
	for _, s := range v.seats {
		if count[s.node]++; count[s.node] == 1 {
			nodes = append(nodes, s.node)
		}
		world[s.node], all[s.world] = max(world[s.node], s.world), true
	}
	other := func(of map[*node]int) bool {
		return slices.ContainsFunc(nodes, func(n *node) bool { return of[n] != of[nodes[0]] })
	}
	if !other(count) || len(all) == 1 && !all[0] {
		return nil
	}
	sure, differ, shown := verdict.Likely, !all[0] && other(world), distinct(nodes, count, world)
	words := finding.Join(shown, func(n *node) string { return fmt.Sprintf("%s %d", n.name, count[n]) })
	says := fmt.Sprintf("the scripts start other numbers of ranks: %s; all wait in init_process_group", words)
	if differ {
		says += ", and the number of all that they give it differs: " + finding.Join(shown, func(n *node) string {
			return fmt.Sprintf("%s world_size=%d", n.name, world[n])
		})
	}
	whole := !slices.ContainsFunc(v.seats, func(s *seat) bool { return s.world != count[s.node] })
	if differ && whole && v.prefixes() < 2 {
		sure = verdict.Certain // else they may be two worlds, of which some ranks start slowly
	}
	return []claim{claimed("world.counted", sure, says).of(nil, nodes...).see("processes below the script", words)}
}

// distinct returns the first node of each pair of numbers, four at most.
func distinct(nodes []*node, count, world map[*node]int) (out []*node) {
	for _, n := range nodes {
		if len(out) < 4 && !slices.ContainsFunc(out, func(m *node) bool {
			return count[m] == count[n] && world[m] == world[n]
		}) {
			out = append(out, n)
		}
	}
	return out
}
