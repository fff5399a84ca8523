package rail

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
)

// The fastest port is not the fabric, or is not known to be.
func TestTheFastestPortIsNotAlwaysTheFabric(t *testing.T) {
	// behind puts a port behind the switch of the first GPUs.
	behind := func(b *bench, i int, name, link string, rate float64, typ string) *fabric.HCA {
		addr := fmt.Sprintf("0000:%d5:00.0", i)
		b.card(addr, "0x020000", "0x15b3", "0x1021", i/4, fmt.Sprintf("pci0000:%d0", i), fmt.Sprintf("0000:%d1:00.0", i), "s")
		return b.port(name, link, rate, typ, addr)
	}
	pairs := func(b *bench, rate float64) { // 8 GPUs, two behind each of four switches, with one rail
		b.switched(4, "InfiniBand", rate)
		for i := range 4 {
			gpu := fmt.Sprintf("0000:%d6:00.0", i)
			b.card(gpu, "0x030200", "0x10de", "0x2330", i/2, fmt.Sprintf("pci0000:%d0", i), fmt.Sprintf("0000:%d1:00.0", i), "h")
			b.Cards = append(b.Cards, fabric.Card{PCI: gpu, Vendor: "nvidia"})
		}
	}
	for _, tt := range []struct {
		name  string
		build func(*bench)
		kind  Kind
		rails []string
		sure  bool
	}{
		{"a rail for every two GPUs, and one faster card", func(b *bench) {
			pairs(b, 200)
			b.port("mlx5_9", "InfiniBand", 400, "MT4129", "")
		}, InfiniBand, names(4), true},
		{"the same, and the faster card is Ethernet", func(b *bench) {
			pairs(b, 200)
			b.port("mlx5_9", "Ethernet", 400, "MT41692", "")
		}, InfiniBand, names(4), true},
		{"an InfiniBand rail for each GPU, and a faster Ethernet card behind one's switch", func(b *bench) {
			b.switched(8, "InfiniBand", 200)
			behind(b, 0, "mlx5_9", "Ethernet", 400, "MT41692")
		}, InfiniBand, names(8), true},
		{"Ethernet ports of servers and one faster InfiniBand card", func(b *bench) {
			b.switched(4, "Ethernet", 100)
			b.port("mlx5_9", "InfiniBand", 200, "MT4123", "")
		}, InfiniBand, []string{"mlx5_9"}, false},
		{"slow ports for each GPU, and fast rails", func(b *bench) {
			b.switched(8, "Ethernet", 25)
			for i := range b.HCAs {
				b.HCAs[i].Type, b.HCAs[i].Board = "MT4127", "MT4127"
			}
			for i := range 4 {
				behind(b, 2*i, fmt.Sprintf("rail%d", i), "Ethernet", 200, "MT4129")
			}
		}, RoCE, []string{"rail0", "rail1", "rail2", "rail3"}, true},
		{"as many DPUs as rails, as fast, and no switch", func(b *bench) {
			for i := range 4 {
				b.port(fmt.Sprintf("mlx5_%d", i), "InfiniBand", 400, "MT4129", "")
				b.port(fmt.Sprintf("bf%d", i), "Ethernet", 400, "MT41692", "")
				b.Cards = append(b.Cards, fabric.Card{PCI: fmt.Sprint(i)})
			}
		}, InfiniBand, names(4), true},
		{"every rail is down, and the way out is RoCE", func(b *bench) {
			b.switched(8, "InfiniBand", 400)
			for i := range b.HCAs {
				down(&b.HCAs[i])
			}
			b.address(b.port("mlx5_8", "Ethernet", 25, "MT4127", ""), "eth0", "10.0.0.5")
			b.Route.Interface = "eth0"
		}, RoCE, []string{"mlx5_8"}, false},
		{"the spare port of the card that is the way out", func(b *bench) {
			b.address(b.port("mlx5_0", "Ethernet", 25, "MT4127", ""), "eth0", "10.0.0.5")
			down(b.port("mlx5_1", "Ethernet", 25, "MT4127", ""))
			down(b.port("mlx5_2", "Ethernet", 25, "MT4127", ""))
			b.Route.Interface = "eth0"
		}, RoCE, []string{"mlx5_0"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bench
			tt.build(&b)
			f := Of(b.Node, netip.Addr{})
			var rails []string
			for _, r := range f.Rails {
				rails = append(rails, f.Name(r))
			}
			slices.SortFunc(rails, natural)
			if f.Kind != tt.kind || f.Sure != tt.sure || !slices.Equal(rails, tt.rails) {
				t.Errorf("%s, sure %v, rails %q, want %s, %v, %q\n%s", f.Kind, f.Sure, rails, tt.kind, tt.sure, tt.rails,
					explained(f))
			}
		})
	}
}

func TestAProbablyWrongRailIsMarked(t *testing.T) {
	var b bench
	b.switched(2, "InfiniBand", 400)
	down(&b.HCAs[0])
	down(&b.HCAs[1])
	b.port("mlx5_8", "Ethernet", 25, "MT4127", "")
	if f := Of(b.Node, netip.Addr{}); !strings.Contains(f.Why, "2 other HCAs have no link") {
		t.Errorf("why = %q", f.Why)
	}
}

// hwloc and some drivers show for a port that never came up only that it has no local
// identifier.
func TestAPortThatWasNeverUpIsNotARail(t *testing.T) {
	for _, tt := range []struct {
		name string
		port fabric.Port
		want Kind
	}{
		{"no state, no link layer, no identifier", fabric.Port{Num: 1,
			GIDs: []fabric.GID{{Addr: netip.MustParseAddr("fe80::2:c903:1")}}}, TCP},
		{"no state, but an identifier", fabric.Port{Num: 1, LID: 7,
			GIDs: []fabric.GID{{Addr: netip.MustParseAddr("fe80::2:c903:1")}}}, InfiniBand},
		{"nothing was read", fabric.Port{Num: 1}, InfiniBand},
	} {
		var b bench
		b.card("0000:05:00.0", "0x0c0600", "0x15b3", "0x673c", 0, "pci0000:00")
		b.HCAs = []fabric.HCA{{Name: "mlx4_0", PCI: "0000:05:00.0", Driver: "mlx4_core", NodeType: 1,
			Ports: []fabric.Port{tt.port}}}
		if f := Of(b.Node, netip.Addr{}); f.Kind != tt.want {
			t.Errorf("%s: %s, want %s: %s", tt.name, f.Kind, tt.want, explained(f))
		}
	}
}

// iWARP is not a fabric for NCCL, except Alibaba's, whose driver connects without
// iWARP's own protocol.
func TestOfIWARPOnlyAlibabasIsARail(t *testing.T) {
	for driver, want := range map[string]Role{"erdma": Compute, "iw_cxgb4": Unusable, "irdma": Unusable} {
		var b bench
		h := b.port("dev0", "Ethernet", 100, "", "")
		h.Driver, h.NodeType = driver, nodeRNIC
		f := Of(b.Node, netip.Addr{})
		if nic := f.NICs[len(f.NICs)-1]; nic.Role != want || strings.Contains(f.Why, "without an address") {
			t.Errorf("%s: %v (%s), want %s", driver, nic, f.Why, want)
		}
	}
}

func TestAnInterfaceInAVRFIsNoPartOfIt(t *testing.T) {
	var n fabric.Node
	n.Interfaces = []fabric.Interface{
		in(netif("rail0", "physical", "10.1.0.2/24"), "vrf-rails"), netif("vrf-rails", "virtual"),
		in(netif("eth1", "physical"), "ovs-system"), netif("ovs-system", "virtual"),
		in(netif("eth2", "physical", "10.2.0.2/24"), "bond0"), netif("bond0", "bond", "10.3.0.2/24"),
	}
	for i, want := range map[int]Role{0: Management, 2: Member, 4: Member} {
		if nic := interfaceRole(n, n.Interfaces[i]); nic.Role != want {
			t.Errorf("%v, want %s", nic, want)
		}
	}
}
