package peers

import (
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

func TestConnectionsThatDoNotOpen(t *testing.T) {
	byPort := sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.Same}
	limit := sidechannel.Flows{Tried: 12, Late: 8, Never: 8, Again: sidechannel.Others}
	slow := sidechannel.Flows{Tried: 12, Late: 8, Never: 3, Again: sidechannel.Others}
	moment := sidechannel.Flows{Tried: 12, Late: 12, Never: 12, Again: sidechannel.All}
	refused := limit
	refused.Refused = 8
	for _, tc := range []struct {
		name  string
		n     int
		flows func(from, to int) sidechannel.Flows
		want  string // status, ID and the beginning of the text; "": no finding
		fix   string
		unfit int
	}{
		{"a dead path of several", 2, func(_, _ int) sidechannel.Flows { return byPort },
			"fail peer.flows connections between host0 and host1: some ports never get an answer", "one of several", 1},
		{"that pair of three", 3, func(from, to int) sidechannel.Flows {
			if from*to == 2 {
				return byPort
			}
			return sidechannel.Flows{Tried: 12}
		}, "fail peer.flows connections between host1 and host2", "one of several", 2},
		{"a limit at one of three", 3, func(_, to int) sidechannel.Flows {
			if to == 2 {
				return limit
			}
			return sidechannel.Flows{Tried: 12}
		}, "fail peer.connect new connections to host2 are dropped beyond a limit", "# on host2: is there a limit", 2},
		{"one that refuses, of two", 2, func(_, to int) sidechannel.Flows {
			if to == 0 {
				return refused
			}
			return sidechannel.Flows{Tried: 12}
		}, "fail peer.connect new connections from host1 to host0 are refused beyond a limit",
			"# on host0, else on host1 or a firewall between", 1},
		{"one that time lifts", 2, func(_, to int) sidechannel.Flows {
			if to == 0 {
				return slow
			}
			return sidechannel.Flows{Tried: 12}
		}, "warn peer.connect new connections from host1 to host0 are dropped at first", "# on host0", -1},
		{"one that time lifts for another caller", 3, func(from, to int) sidechannel.Flows {
			switch {
			case to != 2:
				return sidechannel.Flows{Tried: 12}
			case from == 0:
				return limit
			}
			return slow
		}, "warn peer.connect new connections to host2 are dropped at first", "# on host2", -1},
		{"a link that was dead for a moment", 2, func(_, to int) sidechannel.Flows {
			if to == 0 {
				return moment
			}
			return sidechannel.Flows{Tried: 12}
		}, "warn peer.connect", "# on host0", -1},
		{"healthy", 3, func(_, _ int) sidechannel.Flows { return sidechannel.Flows{Tried: 12, Late: 2} }, "", "", -1},
	} {
		got := compareLoss(calling(tc.n, func(from, to int, c *calls.Call) { c.Flows = tc.flows(from, to) }), nil)
		if tc.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: got %+v", tc.name, got)
			}
			continue
		}
		if len(got) != 1 || !strings.HasPrefix(said(got[0].Finding), tc.want) || !strings.Contains(got[0].Fix, tc.fix) {
			t.Errorf("%s: got %+v", tc.name, got)
			continue
		}
		if (tc.unfit < 0) != (len(got[0].unfit) == 0) || tc.unfit >= 0 && got[0].unfit[0] != tc.unfit {
			t.Errorf("%s: unfit are %v", tc.name, got[0].unfit)
		}
	}
}

// A leg of the caller's own route goes before what connections alone suggest, a limit on the called node.
func TestALegOfTheCallersOwnRoute(t *testing.T) {
	for _, flows := range []sidechannel.Flows{{Tried: 12, Late: 8, Never: 8, Again: sidechannel.Others},
		{Tried: 12, Late: 5, Never: 5, Again: sidechannel.Same}} {
		for _, failed := range []bool{false, true} {
			posts := calling(2, func(from, _ int, c *calls.Call) {
				if from == 1 {
					c.Flows, c.Here = flows, true
					c.Wrong = fabric.Fault{Why: "this node's route has several next hops", Do: "ip route"}
					if failed {
						drop(c)
					}
				}
			})
			got := append(compareCalls(posts), compareLoss(posts, nil)...)
			if len(got) != 1 || got[0].Status != finding.Fail || !slices.Equal(got[0].unfit, []int{1}) ||
				!strings.Contains(got[0].What, "host1: this node's route has several") ||
				!strings.Contains(got[0].Fix, "ip route   # on host1") {
				t.Errorf("%+v, failed %t: %+v", flows, failed, got)
			}
		}
	}
}

func said(f finding.Finding) string { return string(f.Status) + " " + f.ID + " " + f.What }

func TestACallThatFailsBecauseOfALimitOrLostPackets(t *testing.T) {
	lossy := sidechannel.Flows{Tried: 12, Late: 7, Never: 2, Again: sidechannel.Others}
	for _, tc := range []struct {
		name string
		make func(c *calls.Call)
		want string
	}{
		{"a limit, also at the store", func(c *calls.Call) { drop(c); c.Shut = true },
			"fail peer.connect calls from host1 to host0 do not get through, while those back do: node host0 answers no new"},
		{"lost packets", func(c *calls.Call) { drop(c); c.Flows = lossy },
			"fail peer.loss calls from host1 to host0 do not get through, while those back do: packets of any length are " +
				"lost (10 of 12 new connections opened, 5 of them only when"},
		{"lost packets of an open connection", func(c *calls.Call) { drop(c); c.Cause, c.Flows = sidechannel.Silent, lossy },
			"fail peer.loss"},
		{"one path of several", func(c *calls.Call) {
			drop(c)
			c.Flows = sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.Same}
		}, "fail peer.flows calls from host1 to host0 do not get through, while those back do: 7 of 12 new connections"},
		{"more than a limit", func(c *calls.Call) {
			drop(c)
			c.Flows = sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.Others}
		}, "fail peer.connect calls from host1 to host0 do not get through, while those back do: new connections are " +
			"dropped beyond a limit (7 of 12 new connections opened)"},
		{"a path that failed for a moment", func(c *calls.Call) {
			drop(c)
			c.Flows = sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.All}
		}, "fail peer.reach"},
		{"an inspecting firewall", func(c *calls.Call) {
			drop(c)
			c.Cause, c.Flows = sidechannel.Silent, sidechannel.Flows{Tried: 12}
		}, "fail peer.reach"},
		{"a firewall", func(c *calls.Call) { drop(c); c.Flows = sidechannel.Flows{Tried: 12, Late: 12, Never: 12} },
			"fail peer.reach"},
		{"a wrong neighbour entry", func(c *calls.Call) { drop(c); c.Here, c.Wrong.Why = true, "this node has an entry" },
			"fail peer.reach calls from host1 to host0 do not get through, while those back do: host1: this node has"},
	} {
		p := calling(2, func(_, to int, c *calls.Call) {
			if to == 0 {
				tc.make(c)
			}
		})
		got := compareCalls(p)
		if len(got) != 1 || !strings.HasPrefix(said(got[0].Finding), tc.want) {
			t.Errorf("%s: got %+v", tc.name, got)
		}
		if more := compareLoss(p, nil); len(more) > 0 {
			t.Errorf("%s: also %+v", tc.name, more)
		}
	}
}
