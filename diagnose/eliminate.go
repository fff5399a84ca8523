package diagnose

import "slices"

// eliminate numbers processes whose environment cannot be read. On a node where as many processes have not called
// init_process_group as ranks have no key in the store, these are the same; one of each has one number.
func (v *view) eliminate() {
	if v.board == nil || !slices.ContainsFunc(v.seats, func(s *seat) bool { return s.rank < 0 }) {
		return
	}
	home := make([]*node, v.world)
	for r := range home {
		home[r] = v.nodeOf(r)
	}
	for _, n := range v.nodes {
		var early, later []*seat
		for _, s := range v.seats {
			switch {
			case s.node != n || s.rank >= 0:
			case s.phase == before:
				early = append(early, s)
			default:
				later = append(later, s)
			}
		}
		if len(early)+len(later) == 0 {
			continue
		}
		var absent, come []int
		for r, at := range home {
			switch {
			case v.seat(r) != nil || at != nil && at != n:
			case v.blob(r) == nil:
				absent = append(absent, r)
			default:
				come = append(come, r)
			}
		}
		if len(absent) != len(early) || len(come) != len(later) {
			continue
		}
		v.settle(early, absent)
		v.settle(later, come)
	}
}

// settle gives a rank its process, if there is one of both.
func (v *view) settle(seats []*seat, ranks []int) {
	if len(seats) == 1 {
		seats[0].rank = ranks[0]
		v.byRank[ranks[0]] = seats[0]
	}
}
