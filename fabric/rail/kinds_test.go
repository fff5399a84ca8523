package rail

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
)

// InfiniBand and Ethernet of one rate: neither number nor kind alone decides.
func TestInfiniBandAndEthernetOfOneRate(t *testing.T) {
	// ib adds an InfiniBand port, served by the subnet manager.
	ib := func(b *bench, name string, manager int) {
		b.port(name, "InfiniBand", 200, "MT4129", "").Ports[0].SMLID = manager
		b.HCAs[len(b.HCAs)-1].Ports[0].Netdev = "ib0"
		b.Interfaces = append(b.Interfaces, netif("ib0", "ipoib", "10.9.0.1/16"))
	}
	// below adds Ethernet ports whose interfaces have a master.
	below := func(b *bench, master, kind string, names ...string) {
		for _, name := range names {
			b.port(name, "Ethernet", 200, "MT4125", "").Ports[0].Netdev = "eth-" + name
			b.Interfaces = append(b.Interfaces, in(netif("eth-"+name, "physical"), master))
		}
		b.Interfaces = append(b.Interfaces, netif(master, kind, "10.5.5.1/24"))
		b.Route.Interface = master
	}
	for _, tt := range []struct {
		name  string
		build func(*bench)
		peer  string
		kind  Kind
		rails []string
		sure  bool
		other string // in the reason of the first other
	}{
		{"two members of the bond out", func(b *bench) {
			below(b, "bond0", "bond", "mlx5_0", "mlx5_1")
			ib(b, "mlx5_2", 1)
		}, "", InfiniBand, []string{"mlx5_2"}, false, "as fast as the 1 x InfiniBand at 200 Gb/s, but the way out"},
		{"two ports of the bridge out", func(b *bench) {
			below(b, "br0", "bridge", "mlx5_0", "mlx5_1")
			ib(b, "mlx5_2", 1)
		}, "", InfiniBand, []string{"mlx5_2"}, false, "but the way out"},
		{"no subnet manager serves the InfiniBand port", func(b *bench) {
			below(b, "br0", "bridge", "mlx5_0", "mlx5_1")
			ib(b, "mlx5_2", 0)
		}, "", RoCE, []string{"mlx5_0", "mlx5_1"}, false, "but fewer"},
		{"the peers are in IPoIB's network", func(b *bench) {
			below(b, "bond0", "bond", "mlx5_0", "mlx5_1")
			ib(b, "mlx5_2", 1)
		}, "10.9.0.1", InfiniBand, []string{"mlx5_2"}, false, "a network made for RDMA"},
		{"the default route is IPoIB, and Ethernet is as fast in total", func(b *bench) {
			b.port("mlx5_0", "Ethernet", 100, "MT4125", "")
			b.port("mlx5_1", "Ethernet", 100, "MT4125", "")
			ib(b, "mlx5_2", 1)
			b.Route.Interface = "ib0"
		}, "", InfiniBand, []string{"mlx5_2"}, false, "while others run InfiniBand"},
		{"two bonds, each with its own network", func(b *bench) {
			below(b, "bond0", "bond", "mlx5_0", "mlx5_1")
			below(b, "bond1", "bond", "mlx5_2", "mlx5_3")
			ib(b, "mlx5_4", 1)
		}, "", RoCE, []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}, false, "but fewer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bench
			tt.build(&b)
			f, rails := b.judged(tt.peer)
			if f.Kind != tt.kind || f.Sure != tt.sure || !slices.Equal(rails, tt.rails) {
				t.Errorf("%s, sure %v, rails %q, want %s, %v, %q\n%s", f.Kind, f.Sure, rails, tt.kind, tt.sure, tt.rails,
					explained(f))
			}
			i := slices.IndexFunc(f.NICs, func(nic NIC) bool { return nic.HCA && nic.Role != Compute })
			if i < 0 || !strings.Contains(f.NICs[i].Why, tt.other) {
				t.Errorf("the other is not %q:\n%s", tt.other, explained(f))
			}
		})
	}
}

func TestAGuessByNumberAloneNamesTheOtherKind(t *testing.T) {
	var b bench
	b.port("mlx5_0", "Ethernet", 100, "MT4125", "")
	b.port("mlx5_1", "Ethernet", 100, "MT4125", "")
	b.port("mlx5_2", "InfiniBand", 100, "MT4119", "")
	want := "InfiniBand at 100 Gb/s is as fast, and only has fewer ports"
	if f := Of(b.Node, netip.Addr{}); f.Kind != RoCE || f.Doubt != want {
		t.Errorf("%s, doubt %q, want %q", f.Kind, f.Doubt, want)
	}
}

func TestPortsThatShareABondAreOneNetwork(t *testing.T) {
	v := look(fabric.Node{Interfaces: []fabric.Interface{in(netif("eth0", "physical"), "bond0"),
		in(netif("eth1", "physical"), "bond0"), netif("bond0", "bond", "10.0.0.1/24"),
		in(netif("eth2", "physical", "10.1.0.1/24"), "vrf"), in(netif("eth3", "physical", "10.2.0.1/24"), "vrf"),
		netif("vrf", "virtual")}}, netip.Addr{})
	for want, netdevs := range map[int][]string{1: {"eth0", "eth1", "bond0"}, 2: {"eth2", "eth3"}, 3: {"", "", "x"}} {
		var all []candidate
		for _, n := range netdevs {
			all = append(all, candidate{port: fabric.Port{Netdev: n}})
		}
		if got := v.networks(all); got != want {
			t.Errorf("%q: %d networks, want %d", netdevs, got, want)
		}
	}
}
