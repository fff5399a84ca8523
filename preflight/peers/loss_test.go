package peers

import (
	"strings"
	"testing"

	"launch/preflight/calls"
)

func TestPathsThatLoseDropOrAreSlow(t *testing.T) {
	long := func(c *calls.Call) { c.IfMTU = 1500 }
	lossy := func(c *calls.Call) { long(c); c.Lost, c.Late, c.Speed = 0.3, 9, 1e4 }
	for _, tc := range []struct {
		name string
		n    int
		call func(from, to int, c *calls.Call)
		id   string // "": no finding
		what string
	}{
		{"healthy", 3, func(_, _ int, c *calls.Call) { long(c); c.Lost, c.Late, c.Speed = 0.004, 2, 1e6 }, "", ""},
		{"loss to one of five", 5, func(_, to int, c *calls.Call) {
			if long(c); to == 4 {
				lossy(c)
			}
		}, "peer.loss", "packets to host4 are lost, about 30 % of them"},
		{"loss between two", 2, func(_, to int, c *calls.Call) {
			if long(c); to == 1 {
				lossy(c)
			}
		}, "peer.loss", "packets from host0 to host1 are lost"},
		{"a limit at one of three", 3, func(_, to int, c *calls.Call) {
			if long(c); to == 2 {
				c.Late = 7
			}
		}, "peer.connect", "new connections to host2 are dropped at first"},
		{"a slow link of one of three", 3, func(from, to int, c *calls.Call) {
			if long(c); from == 2 || to == 2 {
				c.Speed = 120e3
			}
		}, "peer.slow", "the network path to and from host2 is slow: 0.96 Mbit/s at most"},
		{"a device that takes window scaling from the answers of one", 3, func(_, to int, c *calls.Call) {
			long(c)
			if c.Unscaled = to == 1; c.Unscaled {
				c.Speed = 120e3
			}
		}, "peer.slow", "TCP's window scaling is lost on connections to host1"},
		{"window scaling is off", 3, func(_, _ int, c *calls.Call) { long(c); c.Unscaled = true }, "", ""},
		{"window scaling is off on one", 3, func(from, to int, c *calls.Call) {
			long(c)
			c.Unscaled = from == 1 || to == 1
			c.Offered = from != 1
		}, "", ""},
		{"a device that takes window scaling from two nodes", 3, func(from, to int, c *calls.Call) {
			long(c)
			c.Unscaled = from+to == 3
			c.Offered = c.Unscaled
		}, "peer.slow", "TCP's window scaling is lost on connections between host1 and host2, and both nodes offer it"},
		{"calls that were not measured", 3, func(_, _ int, c *calls.Call) { c.IfMTU, c.Late = 0, 12 }, "", ""},
		{"a call that failed", 3, func(_, _ int, c *calls.Call) { lossy(c); drop(c) }, "", ""},
	} {
		got := compareLoss(calling(tc.n, tc.call), nil)
		switch {
		case tc.id == "" && len(got) > 0:
			t.Errorf("%s: got %+v, want no finding", tc.name, got)
		case tc.id == "":
		case len(got) != 1 || got[0].ID != tc.id || !strings.Contains(got[0].What, tc.what) || len(got[0].unfit) > 0:
			t.Errorf("%s: got %+v, want %s %q", tc.name, got, tc.id, tc.what)
		}
	}
	if got := compareLoss(calling(2, func(_, _ int, c *calls.Call) { lossy(c) }), map[string]float64{"peer.loss": 0.5,
		"peer.slow": 0}); len(got) != 1 || got[0].ID != "peer.connect" {
		t.Errorf("thresholds: got %+v", got)
	}
}
