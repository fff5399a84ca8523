package rdma

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"launch/fabric"
	"launch/preflight"
	"launch/preflight/checktest"
)

// Addresses of one node that contradict each other, and plans that are in order.
func TestAddressesThatContradictEachOther(t *testing.T) {
	const ib, roce = "InfiniBand", "Ethernet"
	// addresses gives the RoCE rails addresses, in turn.
	addresses := func(format string, n ...int) func(*preflight.Input) {
		return func(in *preflight.Input) {
			for i := range in.Node.HCAs {
				p := &in.Node.HCAs[i].Ports[0]
				for j := range in.Node.Interfaces {
					if f := &in.Node.Interfaces[j]; f.Name == p.Netdev {
						a := netip.MustParsePrefix(fmt.Sprintf(format, n[i%len(n)], i+1))
						f.Addrs, p.GIDs[1].Addr = []netip.Prefix{a}, a.Addr()
					}
				}
			}
		}
	}
	give := func(rail int, addr string) func(*preflight.Input) {
		return func(in *preflight.Input) {
			p := &in.Node.HCAs[rail].Ports[0]
			for j := range in.Node.Interfaces {
				if f := &in.Node.Interfaces[j]; f.Name == p.Netdev {
					a := netip.MustParsePrefix(addr)
					f.Addrs, p.GIDs[1].Addr = []netip.Prefix{a}, a.Addr()
				}
			}
		}
	}
	other := func(i fabric.Interface, addr string) func(*preflight.Input) {
		return func(in *preflight.Input) {
			i.Addrs = []netip.Prefix{netip.MustParsePrefix(addr)}
			in.Node.Interfaces = append(in.Node.Interfaces, i)
		}
	}
	port := func(rail int, edit func(p *fabric.Port)) func(*preflight.Input) {
		return checktest.OfHCA(rail, func(_ *fabric.HCA, p *fabric.Port) { edit(p) })
	}
	guid := func(rail, of int) func(*preflight.Input) {
		return func(in *preflight.Input) { in.Node.HCAs[rail].GUID = in.Node.HCAs[of].GUID }
	}
	lid := func(n int) func(p *fabric.Port) { return func(p *fabric.Port) { p.LID = n } }
	subnet := func(sm int, gid string) func(p *fabric.Port) {
		return func(p *fabric.Port) { p.SMLID, p.GIDs = sm, []fabric.GID{{Addr: netip.MustParseAddr(gid)}} }
	}
	own := addresses("10.80.%d.%d/24", 1, 2, 3, 4, 5, 6, 7, 8)
	one := addresses("10.80.%d.%d/20", 0)
	shared := func(in *preflight.Input) { in.Node.HCAs[1].Ports[0].LID = in.Node.HCAs[0].Ports[0].LID }
	planes := func(in *preflight.Input) { // two fabrics, whose managers have one LID and the default prefix
		for i := range in.Node.HCAs {
			in.Node.HCAs[i].Ports[0].LID = 7 + i/2
		}
	}
	functions := func(in *preflight.Input) {
		for i := range in.Node.HCAs {
			in.Node.HCAs[i].VF = true
		}
	}
	in4 := func(in preflight.Input) preflight.Input { return checktest.GPUs(in, 4) }
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"a network for each", checktest.Railed(8, roce, own), "ok 8 rails without a contradiction"},
		{"one network for all", checktest.Railed(8, roce, one), "ok 8 rails"},
		{"two networks", checktest.Railed(8, roce, addresses("10.80.%d.%d/24", 1, 2)), "ok 8 rails"},
		{"addresses of one host", checktest.Railed(8, roce, addresses("10.80.%d.%d/32", 1)), "ok 8 rails"},
		{"links of two hosts", checktest.Railed(8, roce), "ok 8 rails"},
		{"by IPv6", checktest.Railed(8, roce, addresses("2001:db8:%d::%d/64", 1, 2, 3, 4, 5, 6, 7, 8)), "ok 8 rails"},

		{"two have one address", checktest.Railed(6, roce, own, give(4, "10.80.2.2/24")),
			"warn 10.80.2.2 is the address of 2 interfaces of this node: eth11, eth14"},
		{"two have one address by IPv6", checktest.Railed(2, roce, give(0, "2001:db8::1/64"), give(1,
			"2001:db8::1/64")),
			"warn 2001:db8::1 is the address of 2 interfaces"},
		{"the frontend has a rail's address", checktest.Railed(4, roce, own,
			other(fabric.Interface{Name: "front0", Kind: "bond", Up: true, Running: true}, "10.80.3.3/24")),
			"warn 10.80.3.3 is the address of 2 interfaces of this node: eth12, front0"},
		{"a rail's address on an interface that is down", checktest.Railed(4, roce, own,
			other(fabric.Interface{Name: "old0", Kind: "physical"}, "10.80.3.3/24")), "ok 4 rails"},
		{"all rails borrow one address of a host", checktest.Railed(2, roce, give(0, "10.80.0.9/32"), give(1,
			"10.80.0.9/32")),
			"ok 2 rails"},

		{"one without a network", checktest.Railed(5, roce, own, give(3, "10.80.4.4/32")),
			"warn mlx5_3 has 10.80.4.4/32, while the networks of the other 4 rails are /24"},
		{"one with a wider network", checktest.Railed(5, roce, own, give(3, "10.80.4.4/12")),
			"warn mlx5_3 has 10.80.4.4/12, while the networks of the other 4 rails are /24"},
		{"one is the way out", checktest.Railed(8, roce, own, give(3, "10.80.4.4/12"), func(in *preflight.Input) {
			in.Node.Route.Interface = "eth13"
		}), "ok 8 rails"},
		{"two of four without one", checktest.Railed(4, roce, own, give(1, "10.80.2.2/32"), give(3, "10.80.4.4/32")),
			"ok 4 rails"},

		{"one in another's network", checktest.Railed(8, roce, own, give(6, "10.80.2.77/24")),
			"warn mlx5_1 and mlx5_6 are in one network, while each other rail has its own"},
		{"one in another's network, and two rails for each GPU", in4(checktest.Railed(8, roce, own,
			give(6, "10.80.2.77/24"))), "warn mlx5_1 and mlx5_6 are in one network"},
		{"five rails of four GPUs in four networks", in4(checktest.Railed(5, roce, own, give(4, "10.80.2.77/24"))),
			"ok 5 rails"},
		{"two of three in one network", checktest.Railed(3, roce, own, give(2, "10.80.2.77/24")), "ok 3 rails"},
		{"a network for each pair", checktest.Railed(8, roce, addresses("10.80.%d.%d/24", 1, 1, 2, 2, 3, 3, 4, 4)),
			"ok 8 rails"},

		{"InfiniBand", checktest.Railed(8, ib), "ok 8 rails without a contradiction"},
		{"two have one LID", checktest.Railed(6, ib, port(5, lid(12))),
			"warn mlx5_2 and mlx5_5 have one LID (0xc) in one subnet"},
		{"two rails, and two fabrics perhaps", checktest.Railed(2, ib, shared), "ok 2 rails"},
		{"two fabrics of two managers", checktest.Railed(8, ib, planes), "ok 8 rails"},
		{"one LID in two subnets", checktest.Railed(8, ib, port(5, lid(12)), port(5, func(p *fabric.Port) { p.SMLID = 4 })),
			"warn mlx5_5 is in another InfiniBand subnet"},
		{"functions of one port", checktest.Railed(4, ib, shared, functions), "ok 4 rails"},
		{"two have one GUID", checktest.Railed(8, ib, guid(6, 2)),
			"warn mlx5_2 and mlx5_6 are two cards with one GUID (a088:c203:0000:1002)"},
		{"both have one GUID", checktest.Railed(2, ib, guid(1, 0)), "warn mlx5_0 and mlx5_1 are two cards with one GUID"},
		{"two devices of one card", checktest.Railed(8, ib, guid(6, 2), func(in *preflight.Input) {
			in.Node.HCAs[6].PCI = strings.Replace(in.Node.HCAs[2].PCI, ".0", ".1", 1)
		}), "ok 8 rails"},
		{"GUIDs that were not set", checktest.Railed(4, ib, guid(0, 3), guid(1, 3), guid(2, 3)), "ok 4 rails"},
		{"functions with one GUID", checktest.Railed(4, ib, guid(1, 0), functions), "ok 4 rails"},
		{"RoCE", checktest.Railed(8, roce, own, guid(6, 2)), "ok 8 rails"},

		{"one in another subnet", checktest.Railed(8, ib, port(3, subnet(0x21, "fec0::5:a088:c203:0:1"))),
			"warn mlx5_3 is in another InfiniBand subnet than the other 7 rails"},
		{"one of four in another subnet, which are no rails of six GPUs", checktest.GPUs(checktest.Railed(4, ib,
			port(3, subnet(0x21, "fec0::5:a088:c203:0:1"))), 6), "ok 4 rails"},
		{"two in another subnet", checktest.Railed(8, ib, port(3, subnet(0x21, "fec0::5:a088:c203:0:1")),
			port(4, subnet(0x21, "fec0::5:a088:c203:0:2"))), "ok 8 rails"},
		{"one whose manager is unknown", checktest.Railed(8, ib, port(3, func(p *fabric.Port) { p.SMLID = 0 })),
			"ok 8 rails"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.addresses", tt.in), tt.want)
		})
	}
}
