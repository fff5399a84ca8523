package rdma

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"launch/fabric/rail"
	"launch/preflight"
	"launch/preflight/checktest"
)

// placed returns a RoCE card of a machine, whose address is 10.67.0.I/PREFIX, or in a network of its own.
func placed(prefix int, own bool) func(int) string {
	return func(i int) string {
		addr := fmt.Sprintf("10.67.0.%d", 2*i+20)
		if own {
			addr = fmt.Sprintf("10.67.%d.20", i)
		}
		return fmt.Sprintf("@.0 14e4:1760 0200 bnxt_en\n  hca bnxt_re%[1]d guid=c470:bd03:0000:%04[1]x\n"+
			"    port 1 ACTIVE LinkUp 200 Ethernet\n      gid 1 ::ffff:%[2]s v2 be%[1]d\n"+
			"  net be%[1]d speed=200000 addr=%[2]s/%[3]d ruled=none\n", i, addr, prefix)
	}
}

// Several rails in one network need a way of their own, or a kernel that does not look at it.
func TestStrictRailsInOneNetwork(t *testing.T) {
	conf := func(all, own int) string {
		text := fmt.Sprintf("file proc/sys/net/ipv4/conf/all/rp_filter %d\n", all)
		for i := range 4 {
			text += fmt.Sprintf("file proc/sys/net/ipv4/conf/be%d/rp_filter %d\n", i, own)
		}
		return text
	}
	ruled := func(in *preflight.Input) {
		for i := range in.Node.Interfaces {
			f := &in.Node.Interfaces[i]
			for _, a := range f.Addrs {
				f.Ruled = append(f.Ruled, a.Addr())
			}
		}
	}
	first := func(in *preflight.Input) { // all but one: it may be the way into the network
		ruled(in)
		for i := range in.Node.Interfaces {
			if f := &in.Node.Interfaces[i]; f.Name == "be0" {
				f.Ruled = []netip.Addr{netip.MustParseAddr("10.1.1.1")}
			}
		}
	}
	unasked := func(in *preflight.Input) {
		for i := range in.Node.Interfaces {
			in.Node.Interfaces[i].Ruled = nil
		}
	}
	const odd = "warn 4 rails are in one network (10.67.0.0/24), and take packets from their own way only"
	for _, tt := range []struct {
		name string
		conf string
		card func(int) string
		edit func(*preflight.Input)
		want string
	}{
		{"strict", conf(0, 1), placed(24, false), nil, odd},
		{"strict for all", conf(1, 0), placed(24, false), nil, odd},
		{"loose", conf(0, 2), placed(24, false), nil, "ok 4 rails"},
		{"loose for all", conf(2, 1), placed(24, false), nil, "ok 4 rails"},
		{"off", conf(0, 0), placed(24, false), nil, "ok 4 rails"},
		{"not known", "", placed(24, false), nil, "ok 4 rails"},
		{"rules are not known", conf(1, 1), placed(24, false), unasked, "ok 4 rails"},
		{"rules by source", conf(1, 1), placed(24, false), ruled, "ok 4 rails"},
		{"rules by source for all but one", conf(1, 1), placed(24, false), first, "ok 4 rails"},
		{"a network for each", conf(1, 1), placed(24, true), nil, "ok 4 rails"},
		{"links of two hosts", conf(1, 1), placed(31, false), nil, "ok 4 rails"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := of{4, instinct, tt.card, uplink}.input(t, "route eno1 192.168.9.7\n"+tt.conf)
			if tt.edit != nil {
				tt.edit(&in)
			}
			f := checktest.Verdict(t, Checks(), "rdma.addresses", in)
			checktest.Wants(t, f, tt.want)
			if tt.want == odd && !strings.Contains(f.Fix, "conf.all.rp_filter=2") {
				t.Errorf("fix %q", f.Fix)
			}
		})
	}
}

// One rail on another kind of interface than all others is in another network.
func TestOneRailOnAnotherKindOfInterface(t *testing.T) {
	tag := func(kind string, from, to int) (func(int) string, string) {
		virtual := "virtual\n"
		for i := from; i < to; i++ {
			virtual += fmt.Sprintf("  net be%[1]d.40 kind=%[2]s addr=10.67.%[1]d.20/24\n", i, kind)
		}
		return func(i int) string {
			if i < from || i >= to {
				return placed(24, true)(i)
			}
			return strings.NewReplacer(fmt.Sprintf("v2 be%d", i), fmt.Sprintf("v2 be%d.40", i),
				fmt.Sprintf(" addr=10.67.%d.20/24", i), "").Replace(placed(24, true)(i))
		}, virtual
	}
	for _, tt := range []struct {
		name           string
		gpus, from, to int
		want           string
	}{
		{"one is on a bond", 4, 0, 1, "ok 4 rails"},
		{"none is tagged", 4, 0, 0, "ok 4 rails"},
		{"one is tagged", 4, 2, 3,
			"warn the address of bnxt_re2 is on a VLAN (be2.40), and those of the other 3 rails on a plain port each"},
		{"one is not tagged", 4, 1, 4,
			"warn the address of bnxt_re0 is on a plain port (be0), and those of the other 3 rails on a VLAN each"},
		{"all are tagged", 4, 0, 4, "ok 4 rails"},
		{"two are tagged", 4, 0, 2, "ok 4 rails"},
		{"one of two is tagged", 2, 0, 1, "ok 2 rails"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind := "vlan"
			if strings.HasSuffix(tt.name, "bond") {
				kind = "bond"
			}
			card, virtual := tag(kind, tt.from, tt.to)
			in := of{tt.gpus, instinct, card, uplink + virtual}.input(t, "route eno1 192.168.9.7\n")
			f := checktest.Verdict(t, Checks(), "rdma.addresses", in)
			checktest.Wants(t, f, tt.want)
			if strings.Contains(f.Fix, "addr del") {
				t.Errorf("fix %q", f.Fix)
			}
		})
	}
}

// mlxlink knows NVIDIA's cards alone.
func TestTheToolForAPortIsItsVendors(t *testing.T) {
	port := func(driver, layer, netdev string) rail.Port {
		p := rail.Port{Rail: rail.Rail{HCA: "dev3", PCI: "0000:1b:00.0", Netdev: netdev}}
		p.Card.Driver, p.Facts.LinkLayer = driver, layer
		return p
	}
	for want, p := range map[string]rail.Port{
		"mlxlink -d 0000:1b:00.0 -m -c   # or ethtool up3": port("mlx5_core", "Ethernet", "up3"),
		"ethtool up3; ethtool -m up3   # shows":            port("bnxt_en", "Ethernet", "up3"),
		"ibstat dev3   # shows":                            port("hfi1", "InfiniBand", "ib3"),
	} {
		if got := cableTool(p); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
