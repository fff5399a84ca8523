package peers

import (
	"testing"

	"launch/fabric"
	"launch/preflight"
	"launch/preflight/checktest"
)

// Nodes whose rails mark packets or control congestion otherwise are named, and those that do not show it are not.
func TestNodesWithOtherQoS(t *testing.T) {
	qos := func(q fabric.QoS) string {
		return traitsOf(checktest.Railed(2, "Ethernet", func(in *preflight.Input) {
			for i := range in.Node.HCAs {
				in.Node.HCAs[i].Ports[0].QoS = q
			}
		})).QoS
	}
	right := qos(fabric.QoS{Trust: "dscp", Notify: "4", React: "4"})
	for name, tt := range map[string]struct {
		one  fabric.QoS
		want string
	}{
		"alike":               {fabric.QoS{Trust: "dscp", Notify: "4", React: "4"}, ""},
		"not known":           {fabric.QoS{}, ""},
		"a part is not known": {fabric.QoS{Trust: "pcp"}, ""},
		"another mark": {fabric.QoS{Trust: "pcp", Notify: "4", React: "4"},
			"different trust and congestion control of the rails: 2 of 3 nodes have trust dscp, DCQCN 4; host1 (node rank 1) " +
				"has trust pcp, DCQCN 4"},
		"more priorities": {fabric.QoS{Trust: "dscp", Notify: "0,1,2,3,4,5,6,7", React: "4,5"}, ""},
		"one side of DCQCN": {fabric.QoS{Trust: "dscp", Notify: "4", React: "none"},
			"different trust and congestion control of the rails: 2 of 3 nodes have trust dscp, DCQCN 4; host1 (node rank 1) " +
				"has trust dscp, DCQCN 4 to report, none to react"},
	} {
		ps := mix(3, func(t *Traits) { t.QoS = right }, 0, 2)
		ps[1].Traits.QoS = qos(tt.one)
		got := ""
		for _, f := range Decide(ps, nil).Findings {
			got += f.What
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
