package rail

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
)

// bench is a machine to which a test adds cards.
type bench struct{ fabric.Node }

// judged returns the fabric as a node sees it whose peers reach it at an address ("": unknown), and its rails' names.
func (b *bench) judged(peer string) (f Fabric, rails []string) {
	addr, _ := netip.ParseAddr(peer)
	f = Of(b.Node, addr)
	for _, r := range f.Rails {
		rails = append(rails, f.Name(r))
	}
	return f, rails
}

// card adds a PCI function below some bridges.
func (b *bench) card(addr, class, vendor, device string, numa int, path ...string) *fabric.PCI {
	b.PCI = append(b.PCI, fabric.PCI{Addr: addr, Class: class, Vendor: vendor, Device: device, Driver: "x", NUMA: numa,
		Path: path,
		Gen:  5, MaxGen: 5, Lanes: 16, MaxLanes: 16})
	return &b.PCI[len(b.PCI)-1]
}

// port adds an HCA with one active port on a function, unless it is "".
func (b *bench) port(name, link string, rate float64, typ, pci string) *fabric.HCA {
	p := fabric.Port{Num: 1, State: 4, PhysState: 5, LinkLayer: link, Rate: rate}
	if link == "Ethernet" {
		p.GIDSlots = 8
		p.GIDs = []fabric.GID{{Index: 3, Addr: netip.MustParseAddr("2001:db8::7"), Type: RoCEv2}}
	}
	b.HCAs = append(b.HCAs, fabric.HCA{Name: name, PCI: pci, Driver: "mlx5_core", NodeType: 1, Type: typ, Board: typ,
		NUMA: -1, Ports: []fabric.Port{p}})
	return &b.HCAs[len(b.HCAs)-1]
}

// switched adds GPUs, each behind a switch with a rail of its own, four to a NUMA node.
func (b *bench) switched(gpus int, link string, rate float64) {
	for i := range gpus {
		root, sw := fmt.Sprintf("pci0000:%d0", i), fmt.Sprintf("0000:%d1:00.0", i)
		gpu := fmt.Sprintf("0000:%d3:00.0", i)
		b.card(gpu, "0x030200", "0x10de", "0x2330", i/4, root, sw, "g")
		b.Cards = append(b.Cards, fabric.Card{PCI: gpu, Vendor: "nvidia"})
		nic := fmt.Sprintf("0000:%d4:00.0", i)
		b.card(nic, "0x020000", "0x15b3", "0x1021", i/4, root, sw, "n")
		b.port(fmt.Sprintf("mlx5_%d", i), link, rate, "MT4129", nic)
	}
}

// address gives an HCA's port an interface with a RoCE v2 entry.
func (b *bench) address(h *fabric.HCA, netdev, addr string) {
	p := &h.Ports[0]
	p.Netdev = netdev
	p.GIDs = []fabric.GID{{Index: 3, Addr: netip.MustParseAddr(addr), Type: RoCEv2, Netdev: netdev}}
	b.Interfaces = append(b.Interfaces, netif(netdev, "physical", addr+"/24"))
}

// move gives an HCA and its interface another address.
func (b *bench) move(hca int, addr string) {
	p := &b.HCAs[hca].Ports[0]
	for i := range b.Interfaces {
		if b.Interfaces[i].Name == p.Netdev {
			b.Interfaces[i] = netif(p.Netdev, "physical", addr+"/24")
		}
	}
	p.GIDs[0].Addr = netip.MustParseAddr(addr)
}

func down(h *fabric.HCA) {
	h.Ports[0].State, h.Ports[0].PhysState, h.Ports[0].Rate = 1, 3, 40
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("mlx5_%d", i))
	}
	return out
}

// Each machine has something that one of the simple rules (the fastest, the most, the
// nearest, the link layer, the name) gets wrong.
func TestRailsWhereASimpleRuleFails(t *testing.T) {
	tests := []struct {
		name  string
		build func(*bench)
		kind  Kind
		rails []string
		sure  bool
		nics  []string // name, role, and ! if it is missing
	}{
		{"two of eight rails are down", func(b *bench) {
			b.switched(8, "Ethernet", 400)
			down(&b.HCAs[2])
			down(&b.HCAs[5])
			b.HCAs[5].Ports[0].PhysState = 2
		}, RoCE, []string{"mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4", "mlx5_6", "mlx5_7"}, true,
			[]string{"mlx5_2 unusable!", "mlx5_5 unusable!"}},
		{"a rail came up slower than its like", func(b *bench) {
			b.switched(8, "InfiniBand", 400)
			b.HCAs[3].Ports[0].Rate = 200
		}, InfiniBand, names(8), true, nil},
		{"storage of the same speed, far from the GPUs", func(b *bench) {
			b.switched(8, "InfiniBand", 400)
			for i := range 2 {
				addr := fmt.Sprintf("0000:f%d:00.0", i)
				b.card(addr, "0x020700", "0x15b3", "0x1021", i, fmt.Sprintf("pci0000:f%d", i), "p")
				b.port(fmt.Sprintf("mlx5_%d", 8+i), "InfiniBand", 400, "MT4129", addr)
			}
		}, InfiniBand, names(8), false, []string{"mlx5_8 storage", "mlx5_9 storage"}},
		{"NVLink is managed over InfiniBand ports with a thin PCIe link", func(b *bench) {
			b.switched(8, "InfiniBand", 400)
			for i := range 2 {
				addr := fmt.Sprintf("0000:f%d:00.0", i)
				p := b.card(addr, "0x020700", "0x15b3", "0x1021", i, "pci0000:f0", "p")
				p.Gen, p.MaxGen, p.Lanes, p.MaxLanes = 4, 4, 2, 2
				b.port(fmt.Sprintf("ibp%d", i), "InfiniBand", 400, "MT4129", addr)
			}
		}, InfiniBand, names(8), true, []string{"ibp0 management", "ibp1 management"}},
		{"one faster card for storage", func(b *bench) {
			b.switched(8, "InfiniBand", 400)
			b.port("mlx5_8", "InfiniBand", 800, "MT4131", "")
		}, InfiniBand, names(8), true, []string{"mlx5_8 storage"}},
		{"Ethernet as fast as InfiniBand, and first by name", func(b *bench) {
			b.port("mlx5_0", "Ethernet", 200, "MT4126", "").VF = true
			for i := range 8 {
				b.port(fmt.Sprintf("mlx5_%d", i+1), "InfiniBand", 200, "MT4126", "").VF = true
			}
		}, InfiniBand, names(9)[1:], true, []string{"mlx5_0 storage"}},
		{"storage InfiniBand in another subnet", func(b *bench) {
			for i := range 5 {
				b.port(fmt.Sprintf("mlx5_%d", i), "InfiniBand", 200, "MT4123", "").Ports[0].SMLID = 1
			}
			b.HCAs[4].Ports[0].SMLID = 9
		}, InfiniBand, names(4), false, []string{"mlx5_4 storage"}},
		{"two subnets of equal size are both rails", func(b *bench) {
			for i := range 4 {
				b.port(fmt.Sprintf("mlx5_%d", i), "InfiniBand", 200, "MT4123", "").Ports[0].SMLID = 1 + i/2
			}
		}, InfiniBand, names(4), false, nil},
		{"a bond for management", func(b *bench) {
			for i := range 8 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", "")
			}
			b.port("mlx5_bond_0", "Ethernet", 200, "MT4129", "")
		}, RoCE, names(8), false, []string{"mlx5_bond_0 management"}},
		{"bonds are the rails", func(b *bench) {
			for i := range 8 {
				b.port(fmt.Sprintf("bnxt_re_bond%d", i), "Ethernet", 400, "", "")
			}
			b.port("bnxt_re8", "Ethernet", 25, "", "")
		}, RoCE, []string{"bnxt_re_bond0", "bnxt_re_bond1", "bnxt_re_bond2", "bnxt_re_bond3", "bnxt_re_bond4",
			"bnxt_re_bond5", "bnxt_re_bond6", "bnxt_re_bond7"}, true, []string{"bnxt_re8 management"}},
		{"BlueField next to ConnectX, all of one speed", func(b *bench) {
			for i := range 4 {
				b.Cards = append(b.Cards, fabric.Card{PCI: fmt.Sprint(i)})
			}
			b.port("mlx5_0", "Ethernet", 200, "MT4129", "")
			b.port("mlx5_1", "Ethernet", 200, "MT4129", "")
			for i := range 3 {
				b.port(fmt.Sprintf("mlx5_%d", 2+i), "Ethernet", 200, "MT41692", "")
			}
		}, RoCE, names(2), false, []string{"mlx5_2 storage", "mlx5_3 storage", "mlx5_4 storage"}},
		{"BlueField is the rail of each GPU", func(b *bench) {
			b.switched(4, "Ethernet", 400)
			for i := range b.HCAs {
				b.HCAs[i].Type = "MT41692"
			}
			b.port("mlx5_4", "Ethernet", 400, "MT4125", "")
		}, RoCE, names(4), false, []string{"mlx5_4 storage"}},
		{"the way out looks like the rails", func(b *bench) {
			for i := range 9 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", "")
				b.address(&b.HCAs[i], fmt.Sprintf("eth%d", i), fmt.Sprintf("25.11.%d.2", i))
			}
			b.move(0, "10.0.60.3")
			b.Route.Interface = "eth0"
		}, RoCE, names(9)[1:], false, []string{"mlx5_0 management"}},
		{"the way out is in the rails' network, and one too many for the GPUs", func(b *bench) {
			for i := range 9 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", "")
				b.address(&b.HCAs[i], fmt.Sprintf("eth%d", i), fmt.Sprintf("10.1.%d.2", i))
			}
			for i := range 8 {
				b.Cards = append(b.Cards, fabric.Card{PCI: fmt.Sprint(i)})
			}
			b.Route.Interface = "eth4"
		}, RoCE, []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8"}, false,
			[]string{"mlx5_4 management"}},
		{"a rail for each GPU, and one of them leads out", func(b *bench) {
			for i := range 4 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", "")
				b.address(&b.HCAs[i], fmt.Sprintf("eth%d", i), fmt.Sprintf("25.11.%d.2", i))
				b.Cards = append(b.Cards, fabric.Card{PCI: fmt.Sprint(i)})
			}
			b.move(0, "10.0.60.3")
			b.Route.Interface = "eth0"
		}, RoCE, names(4), true, nil},
		{"an address apart, and no route known", func(b *bench) {
			for i := range 3 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", "")
				b.address(&b.HCAs[i], fmt.Sprintf("eth%d", i), fmt.Sprintf("25.11.%d.2", i))
			}
			b.move(1, "10.0.60.3")
		}, RoCE, []string{"mlx5_0", "mlx5_2"}, false, []string{"mlx5_1 storage"}},
		{"an interface named apart", func(b *bench) {
			for i := range 5 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", "").Ports[0].Netdev = fmt.Sprintf("rdma%d", i)
			}
			b.HCAs[0].Ports[0].Netdev = "eth0"
		}, RoCE, names(5)[1:], false, []string{"mlx5_0 storage"}},
		{"a card that was replaced by another model, and storage far away", func(b *bench) {
			b.switched(8, "Ethernet", 200)
			b.HCAs[3].Type = "MT4131"
			b.card("0000:f0:00.0", "0x020000", "0x15b3", "0x1021", 0, "pci0000:f0", "p")
			b.port("mlx5_8", "Ethernet", 200, "MT4129", "0000:f0:00.0")
		}, RoCE, names(8), false, []string{"mlx5_8 storage"}},
		{"more InfiniBand than rails, but far from the GPUs", func(b *bench) {
			b.switched(4, "Ethernet", 200)
			for i := range 5 {
				b.port(fmt.Sprintf("mlx5_%d", 4+i), "InfiniBand", 200, "MT4123", "")
			}
		}, RoCE, names(4), true, []string{"mlx5_4 storage", "mlx5_5 storage", "mlx5_6 storage", "mlx5_7 storage",
			"mlx5_8 storage"}},
		{"one InfiniBand and one Ethernet port, alike in all else", func(b *bench) {
			b.port("mlx5_0", "Ethernet", 100, "MT4119", "")
			b.port("mlx5_1", "InfiniBand", 100, "MT4119", "")
		}, InfiniBand, []string{"mlx5_1"}, false, []string{"mlx5_0 storage"}},
		{"the virtual switch over a port is the way out", func(b *bench) {
			b.port("mlx5_0", "InfiniBand", 400, "MT4126", "")
			b.port("mlx5_an0", "Ethernet", 100, "MT4122", "").Ports[0].Netdev = "enP1s1"
			b.Interfaces = append(b.Interfaces, in(netif("enP1s1", "physical"), "eth0"), netif("eth0", "virtual", "10.0.0.4/24"))
			b.Route.Interface = "eth0"
		}, InfiniBand, []string{"mlx5_0"}, false, []string{"mlx5_an0 management"}},
		{"another card of the rails' speed, in every machine of a rack", func(b *bench) {
			for i := range 10 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 100, map[bool]string{true: "MT4125", false: "MT4129"}[i%5 == 1], "")
			}
		}, RoCE, []string{"mlx5_0", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_7", "mlx5_8", "mlx5_9"}, false,
			[]string{"mlx5_1 storage", "mlx5_6 storage"}},
		{"virtual functions next to their own card", func(b *bench) {
			for i := range 2 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 100, "MT4125", "").System = fmt.Sprint(i)
				b.address(&b.HCAs[i], fmt.Sprintf("rdma%d", i), fmt.Sprintf("10.1.%d.1", i))
			}
			for i := range 2 {
				h := b.port(fmt.Sprintf("mlx5_%d", 2+i), "Ethernet", 100, "MT4126", "")
				h.System, h.VF, h.Ports[0].GIDSlots, h.Ports[0].GIDs = fmt.Sprint(i), true, 0, nil
			}
		}, RoCE, names(2), false, []string{"mlx5_2 virtual", "mlx5_3 virtual"}},
		{"the address is on the virtual function", func(b *bench) {
			b.port("mlx5_0", "Ethernet", 100, "MT4125", "").System = "1"
			h := b.port("mlx5_1", "Ethernet", 100, "MT4126", "")
			h.System, h.VF = "1", true
			b.address(h, "net1", "10.1.0.1")
		}, RoCE, []string{"mlx5_1"}, true, []string{"mlx5_0 unusable"}},
		{"two kinds of rails side by side", func(b *bench) {
			for i := range 8 {
				b.port(fmt.Sprintf("mlx5_%d", i), []string{"InfiniBand", "Ethernet"}[i%2], 200, "MT4123", "")
			}
		}, Mixed, names(8), false, nil},
		{"both ports of one card, on two fabrics", func(b *bench) {
			h := b.port("mlx4_0", "InfiniBand", 56, "MT4099", "")
			h.Ports = append(h.Ports, h.Ports[0])
			h.Ports[0].SMLID, h.Ports[1].Num, h.Ports[1].SMLID = 4, 2, 8
		}, InfiniBand, []string{"mlx4_0:1", "mlx4_0:2"}, false, nil},
		{"the second port of each card is spare", func(b *bench) {
			for i := range 4 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4129", fmt.Sprintf("0000:0%d:00.%d", i/2, i%2))
			}
			down(&b.HCAs[1])
			down(&b.HCAs[3])
		}, RoCE, []string{"mlx5_0", "mlx5_2"}, true, []string{"mlx5_1 unusable", "mlx5_3 unusable"}},
		{"Slingshot shows no RDMA device", func(b *bench) {
			b.card("0000:c1:00.0", "0x020000", "0x17db", "0x0501", 0, "pci0000:c0")
			b.Interfaces = append(b.Interfaces, fabric.Interface{Name: "hsn0", Kind: "physical", PCI: "0000:c1:00.0",
				Speed: 200000, Up: true, Running: true, Addrs: netif("", "", "10.9.0.1/16").Addrs})
		}, Slingshot, []string{"hsn0"}, true, nil},
		{"Omni-Path calls itself InfiniBand", func(b *bench) {
			b.port("hfi1_0", "InfiniBand", 100, "", "").Driver = "hfi1"
		}, OmniPath, []string{"hfi1_0"}, true, nil},
		{"a container that may open one of two", func(b *bench) {
			b.port("mlx5_0", "InfiniBand", 400, "MT4129", "")
			b.port("mlx5_1", "InfiniBand", 400, "MT4129", "")
			b.Verbs.Present = true
			b.Verbs.Devices = slices.Grow(b.Verbs.Devices, 1)[:1]
			b.Verbs.Devices[0].Name, b.Verbs.Devices[0].Opens = "mlx5_1", true
		}, InfiniBand, []string{"mlx5_1"}, true, []string{"mlx5_0 unusable"}},
		{"EFA without its driver", func(b *bench) {
			b.card("0000:10:1b.0", "0x020000", "0x1d0f", "0xefa0", 0, "pci0000:10").Driver = ""
		}, TCP, nil, true, []string{"0000:10:1b.0 unusable"}},
		{"a function given to a guest does not count", func(b *bench) {
			b.card("0000:10:00.0", "0x020700", "0x15b3", "0x1021", 0, "pci0000:10").Driver = "vfio-pci"
		}, TCP, nil, true, nil},
		{"a network for every two GPUs, and no RDMA", func(b *bench) {
			for i := range 8 {
				b.Cards = append(b.Cards, fabric.Card{PCI: fmt.Sprint(i)})
			}
			for i := range 5 {
				f := netif(fmt.Sprintf("eth%d", i), "physical", fmt.Sprintf("10.%d.0.2/24", i))
				f.Driver, f.Speed = "gve", 200000
				b.Interfaces = append(b.Interfaces, f)
			}
			b.Route.Interface = "eth0"
		}, TCP, []string{"eth1", "eth2", "eth3", "eth4"}, false, nil},
		{"one network, and no RDMA", func(b *bench) {
			b.Interfaces = append(b.Interfaces, netif("eth0", "physical", "10.0.0.2/24"),
				netif("eth1", "physical", "10.1.0.2/24"))
			b.Route.Interface = "eth1"
		}, TCP, []string{"eth1"}, true, nil},
		{"all ports are down", func(b *bench) {
			down(b.port("mlx5_0", "InfiniBand", 0, "MT4129", ""))
		}, TCP, nil, true, []string{"mlx5_0 unusable"}},
		{"a network cut in two kinds of names", func(b *bench) {
			for i := range 4 {
				b.Cards = append(b.Cards, fabric.Card{PCI: fmt.Sprint(i)})
			}
			for i := range 6 {
				b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 0, "", "").Ports[0].Netdev = fmt.Sprintf("rdma%d", i)
			}
			b.HCAs[0].Ports[0].Netdev, b.HCAs[3].Ports[0].Netdev = "eth0", "eth1"
		}, RoCE, []string{"mlx5_1", "mlx5_2", "mlx5_4", "mlx5_5"}, false, []string{"mlx5_0 management", "mlx5_3 management"}},
		{"nothing at all", func(*bench) {}, Unknown, nil, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bench
			tt.build(&b)
			f := Of(b.Node, netip.Addr{})
			var rails, nics []string
			for _, r := range f.Rails {
				rails = append(rails, f.Name(r))
			}
			for _, nic := range f.NICs {
				if nic.HCA && nic.Role != Compute {
					nics = append(nics, nic.Name+" "+string(nic.Role)+map[bool]string{true: "!"}[nic.Missing])
				}
			}
			if diff := cmp.Diff([]any{tt.kind, tt.sure, tt.rails, tt.nics}, []any{f.Kind, f.Sure, rails, nics}); diff != "" {
				t.Errorf("kind, sure, rails, others (-want +got):\n%s%s", diff, explained(f))
			}
		})
	}
}

func explained(f Fabric) string {
	lines := []string{f.Why}
	for _, nic := range f.NICs {
		lines = append(lines, fmt.Sprint(nic))
	}
	return strings.Join(lines, "\n")
}

func TestAMissingRailIsSaidWithTheRails(t *testing.T) {
	var b bench
	b.switched(8, "Ethernet", 400)
	down(&b.HCAs[2])
	down(&b.HCAs[5])
	if f := Of(b.Node, netip.Addr{}); f.Why != "6 x Ethernet at 400 Gb/s; 2 more of the same kind have no link" {
		t.Errorf("why = %q", f.Why)
	}
}
