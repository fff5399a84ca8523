package peers

import (
	"slices"
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/preflight/calls"
)

func TestLongMessagesThatVanish(t *testing.T) {
	got := compareCalls(calling(5, func(from, to int, c *calls.Call) {
		if from == 3 || to == 3 {
			c.Stall, c.Hole, c.MTU, c.IfMTU = "there", true, 1500, 9000
		}
	}))
	if len(got) != 1 || got[0].ID != "peer.large" || got[0].Status != finding.Fail ||
		!slices.Equal(got[0].unfit, []int{3}) ||
		!strings.Contains(got[0].What, "long messages to and from host3") || !strings.Contains(got[0].Fix, "mtu 1500") {
		t.Errorf("got %+v", got)
	}
	got = compareCalls(calling(3, func(_, _ int, c *calls.Call) { c.Hole, c.MTU, c.IfMTU = true, 1500, 9000 }))
	if len(got) != 1 || got[0].ID != "peer.mtu" || got[0].Status != finding.Warn || len(got[0].unfit) > 0 {
		t.Errorf("TCP copes: got %+v", got)
	}
}

// A reset is no question of the size of packets: no size is proposed.
func TestLongMessagesThatAreCutOff(t *testing.T) {
	got := compareCalls(calling(3, func(from, to int, c *calls.Call) {
		if from == 2 && to == 0 {
			c.Cut = 20e3
		}
	}))
	if len(got) != 1 || got[0].ID != "peer.large" || !slices.Equal(got[0].unfit, []int{2}) ||
		!strings.Contains(got[0].What, "reset or closed once they carry data") || strings.Contains(got[0].Fix, "mtu") {
		t.Errorf("got %+v", got)
	}
}

// A size that no network has is the work of a rule, not of a tunnel.
func TestNoMTUIsProposedThatNoNetworkHas(t *testing.T) {
	for mtu, want := range map[int]bool{128: false, 576: true, 1400: true} {
		got := compareCalls(calling(3, func(_, _ int, c *calls.Call) { c.Hole, c.MTU, c.IfMTU = true, mtu, 1500 }))
		if len(got) != 1 || strings.Contains(got[0].Fix, "ip link set") != want {
			t.Errorf("%d: got %+v", mtu, got)
		}
	}
}
