package rail

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
)

func netif(name, kind string, addrs ...string) fabric.Interface {
	f := fabric.Interface{Name: name, Kind: kind, Up: true, Running: true}
	for _, a := range addrs {
		f.Addrs = append(f.Addrs, netip.MustParsePrefix(a))
	}
	return f
}

func hca(name, link string, rate float64, netdev string) fabric.HCA {
	return fabric.HCA{Name: name, Driver: "mlx5_core", NodeType: 1, Type: "MT4129", Ports: []fabric.Port{
		{Num: 1, State: 4, PhysState: 5, LinkLayer: link, Rate: rate, Netdev: netdev, GIDSlots: 8,
			GIDs: []fabric.GID{{Index: 3, Addr: netip.MustParseAddr("2001:db8::7"), Type: RoCEv2}}},
	}}
}

func roles(list []NIC) map[string]Role {
	out := map[string]Role{}
	for _, n := range list {
		out[n.Name] = n.Role
	}
	return out
}

func in(f fabric.Interface, master string) fabric.Interface { f.Master = master; return f }
func off(f fabric.Interface) fabric.Interface               { f.Up, f.Running = false, false; return f }
func unplugged(f fabric.Interface) fabric.Interface         { f.Running = false; return f }

func TestInterfacesOfAWorkstationAreDistinguished(t *testing.T) {
	n := fabric.Node{Interfaces: []fabric.Interface{
		netif("lo", "loopback", "127.0.0.1/8"),
		netif("eno1", "physical", "10.0.0.5/24", "fe80::1/64"),
		netif("eno2", "physical", "192.168.7.5/24"),
		off(netif("eno3", "physical", "192.168.8.5/24")),
		unplugged(netif("eno4", "physical", "192.168.9.5/24")),
		netif("eno5", "physical", "fe80::2/64"),
		netif("docker0", "bridge", "172.17.0.1/16"),
		netif("virbr0", "bridge", "192.168.122.1/24"),
		in(netif("veth1", "veth"), "docker0"),
		netif("cali1", "veth", "fe80::3/64"),
		netif("tailscale0", "tun", "100.64.0.9/32"),
		netif("flannel.1", "vxlan", "10.244.0.0/32"),
		in(netif("ens9", "physical"), "br0"),
		netif("br0", "bridge", "10.9.0.5/24"),
	}}
	want := map[string]Role{
		"lo": Loopback, "eno1": Peer, "eno2": Management, "eno3": Unusable, "eno4": Unusable, "eno5": Unusable,
		"docker0": Virtual, "virbr0": Virtual, "veth1": Member, "cali1": Virtual, "tailscale0": Virtual, "flannel.1": Virtual,
		"ens9": Member, "br0": Management,
	}
	if diff := cmp.Diff(want, roles(Of(n, netip.MustParseAddr("10.0.0.5")).NICs)); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

func TestWhateverCarriesThePeersAddressIsPeer(t *testing.T) {
	pod := fabric.Node{Interfaces: []fabric.Interface{netif("eth0", "veth", "10.244.1.7/24"),
		netif("tailscale0", "tun", "100.64.0.9/32")}}
	tests := []struct {
		name, addr string
		want       NIC
	}{
		{"a pod's veth", "10.244.1.7", NIC{Name: "eth0", Role: Peer, Sure: true,
			Why: "carries 10.244.1.7, the address that the peers use"}},
		{"a VPN that the user chose", "100.64.0.9", NIC{Name: "tailscale0", Role: Peer, Sure: true,
			Why: "carries 100.64.0.9, the address that the peers use"}},
		{"a peer in the same network", "10.244.1.8", NIC{Name: "eth0", Role: Peer,
			Why: "10.244.1.8 is in a network of this interface"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []NIC
			for _, nic := range Of(pod, netip.MustParseAddr(tt.addr)).NICs {
				if nic.Role == Peer {
					got = append(got, nic)
				}
			}
			if diff := cmp.Diff([]NIC{tt.want}, got); diff != "" {
				t.Errorf("peer interfaces (-want +got):\n%s", diff)
			}
		})
	}
	for _, addr := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.8.8")} {
		if got := roles(Of(pod, addr).NICs); got["eth0"] != Management || got["tailscale0"] != Virtual {
			t.Errorf("with address %v: roles %v, want no peer", addr, got)
		}
	}
}

func eight(link string, rate float64, netdev string) (out []fabric.HCA) {
	for i := range 8 {
		name := netdev
		if name != "" {
			name += fmt.Sprint(i)
		}
		out = append(out, hca(fmt.Sprintf("mlx5_%d", i), link, rate, name))
	}
	return out
}

func TestTheFastestGroupOfHCAsIsTheTrainingFabric(t *testing.T) {
	polling := hca("mlx5_9", "InfiniBand", 800, "")
	polling.Ports[0].State, polling.Ports[0].PhysState = 1, 2
	away := hca("mlx5_1", "Ethernet", 400, "")
	away.Ports[0].Elsewhere = "gpu1rdma0"
	usnic := hca("usnic_0", "Ethernet", 10, "")
	usnic.NodeType = 6
	efa := hca("rdmap16s27", "Unknown", 100, "")
	efa.Driver, efa.NodeType, efa.Ports[0].State = "efa", 7, 0
	soft := hca("rxe0", "Ethernet", 2.5, "eth0")
	soft.Driver = "rdma_rxe"
	iwarp := hca("cxgb4_0", "Ethernet", 100, "eth0")
	iwarp.Driver, iwarp.NodeType = "cxgb4", 4
	siw := fabric.HCA{Name: "siw0", NodeType: 4, Ports: iwarp.Ports}
	tests := []struct {
		name string
		hcas []fabric.HCA
		of   string // the HCA under test
		role Role
		sure bool
		why  string
	}{
		{"InfiniBand with slower Ethernet", append(eight("InfiniBand", 400, ""), hca("mlx5_8", "Ethernet", 100, "eno1")),
			"mlx5_3", Compute, true, "8 x InfiniBand at 400 Gb/s"},
		{"the Ethernet card next to it", append(eight("InfiniBand", 400, ""), hca("mlx5_8", "Ethernet", 100, "eno1")),
			"mlx5_8", Storage, false, "Ethernet at 100 Gb/s, while others run InfiniBand at 400 Gb/s"},
		{"an Ethernet card as fast as the rails", append(eight("InfiniBand", 200, ""),
			hca("mlx5_8", "Ethernet", 200, "eno1")), "mlx5_8", Storage, false,
			"Ethernet at 200 Gb/s, as fast as the 8 x InfiniBand at 200 Gb/s but fewer"},
		{"rails of unknown rate", eight("InfiniBand", 0, ""), "mlx5_0", Compute, false, "8 x InfiniBand at an unknown rate"},
		{"RoCE rails", append(eight("Ethernet", 400, "rdma"), hca("mlx5_8", "Ethernet", 100, "eno1")), "mlx5_7", Compute,
			true, "8 x Ethernet at 400 Gb/s"},
		{"one fast card with slow ones", []fabric.HCA{hca("mlx5_0", "InfiniBand", 200, ""),
			hca("mlx5_1", "Ethernet", 25, "eno1")}, "mlx5_0", Compute, false, "1 x InfiniBand at 200 Gb/s"},
		{"a faster port that is down", append(eight("InfiniBand", 400, ""), polling), "mlx5_9", Unusable, true,
			"no active port: port 1 is down, polling for a cable"},
		{"the rails next to it", append(eight("InfiniBand", 400, ""), polling), "mlx5_0", Compute, true,
			"8 x InfiniBand at 400 Gb/s"},
		{"RoCE of another namespace", []fabric.HCA{hca("mlx5_0", "Ethernet", 400, "gpu0ipvlan0"), away}, "mlx5_1", Unusable,
			true, "its network interface gpu1rdma0 is not in this network namespace"},
		{"EFA", []fabric.HCA{efa, hca("ibp1", "InfiniBand", 400, "")}, "rdmap16s27", Compute, true, "EFA"},
		{"NVLink management with EFA", []fabric.HCA{efa, hca("ibp1", "InfiniBand", 400, "")}, "ibp1", Management, true,
			"the fabric of this machine is EFA"},
		{"Soft-RoCE", []fabric.HCA{soft}, "rxe0", Virtual, true, "Soft-RoCE: the CPU emulates it"},
		{"iWARP", []fabric.HCA{iwarp}, "cxgb4_0", Unusable, true, "iWARP: neither InfiniBand nor RoCE"},
		{"software iWARP", []fabric.HCA{siw}, "siw0", Virtual, true, "software iWARP: the CPU emulates it"},
		{"usNIC", []fabric.HCA{usnic}, "usnic_0", Unusable, true, "usNIC: neither InfiniBand nor RoCE"},
		{"no port", []fabric.HCA{{Name: "scif0"}}, "scif0", Virtual, false,
			"shows no port and is on no bus: a software device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := NIC{Name: tt.of, HCA: true, Role: tt.role, Sure: tt.sure, Why: tt.why, Missing: tt.of == "mlx5_9"}
			for _, got := range Of(fabric.Node{HCAs: tt.hcas}, netip.Addr{}).NICs {
				if got.Name == tt.of {
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("role (-want +got):\n%s", diff)
					}
					return
				}
			}
			t.Errorf("%s has no role", tt.of)
		})
	}
}

func TestInterfacesOfRailsAreComputeUnlessThePeersUseThem(t *testing.T) {
	n := fabric.Node{
		Interfaces: []fabric.Interface{netif("rdma0", "physical", "10.200.0.1/31"), netif("eth0", "physical", "10.0.0.5/24"),
			netif("rdma1", "physical")},
		HCAs: []fabric.HCA{hca("mlx5_0", "Ethernet", 400, "rdma0"), hca("mlx5_1", "Ethernet", 400, "rdma1"),
			hca("mlx5_2", "Ethernet", 100, "eth0")},
	}
	// eth0 leads out
	want := map[string]Role{"rdma0": Compute, "eth0": Peer, "rdma1": Unusable, "mlx5_0": Compute, "mlx5_1": Compute,
		"mlx5_2": Management}
	if diff := cmp.Diff(want, roles(Of(n, netip.MustParseAddr("10.0.0.5")).NICs)); diff != "" {
		t.Errorf("roles by eth0 (-want +got):\n%s", diff)
	}
	want["rdma0"], want["eth0"], want["mlx5_2"] = Peer, Storage, Storage
	if diff := cmp.Diff(want, roles(Of(n, netip.MustParseAddr("10.200.0.1")).NICs)); diff != "" {
		t.Errorf("roles by rdma0 (-want +got):\n%s", diff)
	}
}
