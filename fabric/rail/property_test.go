package rail

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"launch/fabric"
)

// For any machine, the result is complete and consistent: each device has one role,
// rails are compute, a port that is down is not a rail, and GPUs get what is near to
// them. The order in which devices are read changes nothing.
func TestFabricOfAnyMachineIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNode(t)
		f := Of(n, netip.Addr{})
		role := map[string]Role{}
		for _, nic := range f.NICs {
			if _, twice := role[nic.Name]; twice {
				t.Fatalf("%s has two roles", nic.Name)
			}
			if role[nic.Name] = nic.Role; nic.Role == "" || nic.Why == "" {
				t.Fatalf("no role or reason: %+v", nic)
			}
			if nic.Missing && nic.Role != Unusable {
				t.Fatalf("missing, and %s: %+v", nic.Role, nic)
			}
		}
		for _, h := range n.HCAs {
			if role[h.Name] == "" {
				t.Fatalf("%s has no role", h.Name)
			}
		}
		for _, r := range f.Rails {
			if r.HCA == "" {
				continue
			}
			h, _ := find(n.HCAs, func(h fabric.HCA) bool { return h.Name == r.HCA })
			p, _ := find(h.Ports, func(p fabric.Port) bool { return p.Num == r.Port })
			if role[r.HCA] != Compute || p.State == 1 {
				t.Fatalf("rail %+v: role %q, state %d", r, role[r.HCA], p.State)
			}
		}
		for _, g := range f.GPUs {
			if (len(g.Own) == 0) != (len(g.Rails) == 0) {
				t.Fatalf("GPU %+v", g)
			}
			for _, own := range g.Own {
				if !slices.Contains(g.Rails, own) {
					t.Fatalf("GPU %s has %s, which is not among its nearest %v", g.PCI, own, g.Rails)
				}
			}
		}
		slices.Reverse(n.HCAs)
		again := Of(n, netip.Addr{})
		if diff := cmp.Diff(f.Rails, again.Rails); diff != "" || again.Kind != f.Kind {
			t.Fatalf("HCAs in another order give another fabric (%s, %s):\n%s", f.Kind, again.Kind, diff)
		}
	})
}

func anyNode(t *rapid.T) (n fabric.Node) {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "") }
	number := func(of ...int) int { return rapid.SampledFrom(of).Draw(t, "") }
	slotOf := func() string {
		addr := fmt.Sprintf("0000:%02x:00.0", len(n.PCI))
		path := []string{pick("pci0000:00", "pci0000:80"), pick("s1", "s2"), pick("p1", "p2"), "p3"}
		n.PCI = append(n.PCI, fabric.PCI{Addr: addr, Vendor: "0x15b3", Class: pick("0x020000", "0x020700"),
			Driver: "mlx5_core",
			Device: pick("0x1021", "0xa2dc"), NUMA: number(-1, 0, 1), Path: path[:number(0, 1, 2, 3, 4)], Gen: number(0, 4),
			Lanes: number(0, 2, 16)})
		return addr
	}
	for range number(0, 1, 2, 4, 8) {
		n.Cards = append(n.Cards, fabric.Card{PCI: slotOf()})
	}
	for i := range number(0, 1, 2, 3, 5, 8, 9, 10) {
		h := fabric.HCA{Name: fmt.Sprintf("mlx5_%s%d", pick("", "", "bond_"), i),
			Driver:   pick("mlx5_core", "mlx5_core", "mlx5_core", "efa", "hfi1", "rdma_rxe"),
			NodeType: number(1, 1, 1, 4), Type: pick("MT4129", "MT41692", ""), VF: number(0, 0, 1) == 1,
			System: pick("", "a", "b"), NUMA: -1}
		if number(0, 1) == 1 {
			h.PCI = slotOf()
		}
		for p := range number(0, 1, 1, 1, 2) {
			port := fabric.Port{Num: p + 1, State: number(0, 1, 4, 4, 4, 4), LinkLayer: pick("InfiniBand", "Ethernet", ""),
				Rate: float64(number(0, 100, 400)),
				LID:  number(0, 5), SMLID: number(0, 1, 2), Netdev: pick("", "eth0", fmt.Sprintf("rdma%d", i))}
			if number(0, 1) == 1 {
				port.GIDs = []fabric.GID{{Index: number(1, 3), Addr: netip.MustParseAddr(pick("10.0.0.1", "10.1.0.1", "fd00::1",
					"fe80::1")), Type: pick(RoCEv2, "IB/RoCE v1")}}
			}
			h.Ports = append(h.Ports, port)
		}
		n.HCAs = append(n.HCAs, h)
	}
	n.Interfaces = []fabric.Interface{netif("eth0", pick("physical", "bond"), "10.0.0.1/24"),
		netif("rdma0", "physical", "10.1.0.1/24")}
	n.Route.Interface = pick("", "eth0")
	return n
}
