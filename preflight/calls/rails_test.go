package calls

import (
	"net/netip"
	"testing"

	"launch/fabric"
	"launch/fabric/machine/machinetest"
)

func TestTheAddressesOfRails(t *testing.T) {
	at := netip.MustParseAddr("10.0.0.5")
	if got := RailAddrs(machinetest.Node(t, "h100-roce-8"), at); len(got) != 8 ||
		got[3] != netip.MustParseAddr("10.224.3.6") {
		t.Errorf("got %v, want eight, the fourth 10.224.3.6", got)
	}
	for _, name := range []string{"h100-ib-ndr-bond", "aws-p5-48xlarge", "cpu-workstation", "pod-sriov-vf"} {
		got := RailAddrs(machinetest.Node(t, name), at)
		for _, a := range got {
			if a.IsValid() && a.IsLinkLocalUnicast() {
				t.Errorf("%s: %v is not routed", name, a)
			}
		}
		if name != "pod-sriov-vf" && len(got) > 0 {
			t.Errorf("%s has no RoCE rails, got %v", name, got)
		}
	}
	if got := RailAddrs(fabric.Node{}, at); got != nil {
		t.Errorf("no rails: %v", got)
	}
}

func TestANodeWithManyRailsSaysWhatFits(t *testing.T) {
	n := machinetest.Node(t, "h100-roce-8")
	if said := About(n, netip.MustParseAddr("10.0.0.5")); len(said) > 1024 {
		t.Errorf("%d bytes", len(said))
	}
}
