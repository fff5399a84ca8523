package fabric

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestToWhichHostAnOverlaySends(t *testing.T) {
	mac, other := net.HardwareAddr{2, 0, 0, 0, 0, 3}, net.HardwareAddr{2, 0, 0, 0, 0, 4}
	next := netip.MustParseAddr("10.244.0.3")
	near := []netlink.Neigh{{IP: net.ParseIP("10.244.0.4"), HardwareAddr: other}, {IP: net.ParseIP("10.244.0.3"),
		HardwareAddr: mac}}
	entries := []netlink.Neigh{{HardwareAddr: other, IP: net.ParseIP("10.66.0.4")},
		{HardwareAddr: mac, IP: net.ParseIP("10.66.0.77")}, {HardwareAddr: mac, IP: net.IPv4zero}, {HardwareAddr: mac}}
	got, hosts := forwarded(next, near, entries)
	if got != mac.String() || !slices.Equal(hosts, []netip.Addr{netip.MustParseAddr("10.66.0.77")}) {
		t.Errorf("got %s at %v", got, hosts)
	}
	if got, hosts := forwarded(next, near[:1], entries); got != "" || len(hosts) > 0 {
		t.Errorf("without a neighbour entry: %s at %v", got, hosts)
	}
}
