package peers

import (
	"strings"
	"testing"

	"launch/preflight/calls"
)

// Each call measures both directions, so that both nodes see a path that loses long messages one way.
func TestLongMessagesThatVanishOneWay(t *testing.T) {
	for _, tc := range []struct {
		n    int
		lost func(from, to int) bool
		what string
	}{
		{2, func(from, _ int) bool { return from == 0 }, "from host0 to host1 do not get through, while those back do"},
		{4, func(from, to int) bool { return from == 2 && to == 3 }, "from host2 to host3 do not get through, while"},
		{5, func(_, to int) bool { return to == 3 }, "to host3 do not get through (4 of 4 tried), while those from it"},
		{5, func(from, _ int) bool { return from == 3 }, "from host3 do not get through (4 of 4 tried), while those"},
		{2, func(_, _ int) bool { return true }, "between host0 and host1 do not get through in either direction"},
	} {
		got := compareCalls(calling(tc.n, func(from, to int, c *calls.Call) {
			switch {
			case tc.lost(from, to):
				c.Stall = "there"
			case tc.lost(to, from):
				c.Stall = "back"
			}
		}))
		if len(got) != 1 || got[0].ID != "peer.large" || !strings.Contains(got[0].What, "long messages "+tc.what) {
			t.Errorf("%d nodes: got %+v, want %q", tc.n, got, tc.what)
		}
	}
}
