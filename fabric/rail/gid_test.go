package rail

import (
	"net/netip"
	"strings"
	"testing"

	"launch/fabric"
)

// A table that could not be read may have a usable entry, and an empty one has none.
func TestATableThatWasNotReadMakesTheFabricAGuess(t *testing.T) {
	for _, tt := range []struct {
		name, link string
		slots      int
		kind       Kind
		unread     bool
	}{
		{"not read", "Ethernet", 0, RoCE, true},
		{"read, and empty", "Ethernet", 16, TCP, false},
		{"InfiniBand needs none", "InfiniBand", 0, InfiniBand, false},
	} {
		h := hca("mlx5_0", tt.link, 100, "eth0")
		h.Ports[0].GIDSlots, h.Ports[0].GIDs = tt.slots, nil
		f := Of(fabric.Node{HCAs: []fabric.HCA{h}, Interfaces: []fabric.Interface{netif("eth0", "physical", "10.0.0.1/24")}},
			netip.Addr{})
		if f.Kind != tt.kind || f.Sure == tt.unread || f.Rails[0].GIDUnread != tt.unread || f.Rails[0].GID != -1 ||
			strings.Contains(f.Doubt, "GID table") != tt.unread {
			t.Errorf("%s: sure %v, doubt %q, %+v", tt.name, f.Sure, f.Doubt, f.Rails[0])
		}
	}
}

func TestTheGIDIsTheFirstRoCEv2AddressOfThisNamespace(t *testing.T) {
	const v1 = "IB/RoCE v1"
	entry := func(index int, addr, typ, netdev string) fabric.GID {
		return fabric.GID{Index: index, Addr: netip.MustParseAddr(addr), Type: typ, Netdev: netdev}
	}
	local := func(netdev string) []fabric.GID {
		return []fabric.GID{entry(0, "fe80::1", v1, netdev), entry(1, "fe80::1", RoCEv2, netdev)}
	}
	tests := []struct {
		name string
		link string
		gids []fabric.GID
		want int
	}{
		{"v1 and v2 of one address", "Ethernet", append(local("eth0"), entry(2, "10.0.0.1", v1, "eth0"),
			entry(3, "10.0.0.1", RoCEv2, "eth0")), 3},
		{"a driver of RoCE v2 alone", "Ethernet", []fabric.GID{entry(0, "fe80::1", RoCEv2, "eth0"),
			entry(1, "10.0.0.1", RoCEv2, "eth0")}, 1},
		{"IPv4 written as an IPv6 address", "Ethernet", []fabric.GID{entry(3, "::ffff:10.0.0.1", RoCEv2, "eth0")}, 3},
		{"IPv4 before an earlier IPv6", "Ethernet", append(local("eth0"), entry(3, "fd00::1", RoCEv2, "eth0"),
			entry(5, "10.0.0.1", RoCEv2, "eth0")), 5},
		{"IPv6 alone", "Ethernet", append(local("eth0"), entry(2, "fd00::1", v1, "eth0"),
			entry(3, "fd00::1", RoCEv2, "eth0")), 3},
		{"the first entries are of the host's interface", "Ethernet",
			append(local("host0"), entry(2, "10.0.0.1", v1, "host0"), entry(3, "10.0.0.1", RoCEv2, "host0"),
				entry(4, "10.0.0.2", v1, "eth0"), entry(5, "10.0.0.2", RoCEv2, "eth0")), 5},
		{"an unconfigured IPv4 counts, as in NCCL", "Ethernet",
			append(local("eth0"), entry(3, "169.254.3.4", RoCEv2, "eth0")), 3},
		{"no address", "Ethernet", local("eth0"), -1},
		{"RoCE v1 alone", "Ethernet", []fabric.GID{entry(0, "fe80::1", v1, "eth0"), entry(1, "10.0.0.1", v1, "eth0")}, -1},
		{"a table without names", "Ethernet", []fabric.GID{entry(3, "10.0.0.1", RoCEv2, "")}, 3},
		{"an empty table", "Ethernet", nil, -1},
		{"InfiniBand needs none", "InfiniBand", []fabric.GID{entry(0, "fe80::1", "IB/RoCE v1", "")}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := hca("mlx5_0", tt.link, 100, "eth0")
			h.Ports[0].GIDs = tt.gids
			f := Of(fabric.Node{HCAs: []fabric.HCA{h}, Interfaces: []fabric.Interface{
				netif("eth0", "physical", "10.0.0.1/24", "10.0.0.2/24", "fd00::1/64")}},
				netip.Addr{})
			if len(f.Rails) != 1 || f.Rails[0].GID != tt.want {
				t.Errorf("rails %+v, want one with GID %d", f.Rails, tt.want)
			}
		})
	}
}
