package rail

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
)

// The data may take the fastest network, and none of those between.
func TestOnlyTheFastestOtherNetworkMayCarryData(t *testing.T) {
	fast := func(name, addr string, mbits int) fabric.Interface {
		f := netif(name, "physical", addr)
		f.Speed = mbits
		return f
	}
	n := fabric.Node{Interfaces: []fabric.Interface{fast("eth0", "10.0.0.5/24", 25000), fast("eth1", "10.1.0.5/24", 50000),
		fast("eth2", "10.2.0.5/24", 100000), fast("eth3", "10.3.0.5/24", 25000)}}
	f := Of(n, netip.MustParseAddr("10.0.0.5"))
	want := map[string]Role{"eth0": Peer, "eth1": Management, "eth2": Compute, "eth3": Management}
	if diff := cmp.Diff(want, roles(f.NICs)); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	for _, nic := range f.NICs {
		if nic.Name == "eth2" && (nic.Sure || !strings.Contains(nic.Why, "may take it if all nodes reach each other")) {
			t.Errorf("got %+v", nic)
		}
	}
	if !strings.Contains(f.Doubt, "eth2 is faster than eth0") {
		t.Errorf("doubt %q", f.Doubt)
	}
}
