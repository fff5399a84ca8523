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

// Two GPUs share two rails, as on a GKE A4. The rails are dealt out, and with more
// rails than GPUs, each GPU gets its share.
func TestRailsAreDealtOutEvenly(t *testing.T) {
	for _, perSwitch := range []struct {
		gpus, rails int
		own         string
	}{
		{2, 2, "0:[mlx5_0] 1:[mlx5_1]"}, {2, 1, "0:[mlx5_0] 1:[mlx5_0]"}, {1, 4, "0:[mlx5_0 mlx5_1 mlx5_2 mlx5_3]"},
		{2, 4, "0:[mlx5_0 mlx5_2] 1:[mlx5_1 mlx5_3]"}, {3, 2, "0:[mlx5_0] 1:[mlx5_1] 2:[mlx5_0]"},
	} {
		var b bench
		for i := range perSwitch.gpus {
			addr := fmt.Sprintf("0000:1%d:00.0", i)
			b.card(addr, "0x030200", "0x10de", "0x2901", 0, "pci0000:00", "sw", "g")
			b.Cards = append(b.Cards, fabric.Card{PCI: addr})
		}
		for i := range perSwitch.rails {
			addr := fmt.Sprintf("0000:2%d:00.0", i)
			b.card(addr, "0x020000", "0x15b3", "0x1021", 0, "pci0000:00", "sw", "n")
			b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 400, "MT4129", addr)
		}
		f := Of(b.Node, netip.Addr{})
		var got []string
		for _, g := range f.GPUs {
			got = append(got, fmt.Sprintf("%d:%v", g.Index, g.Own))
			if g.Distance != fabric.PIX || len(g.Rails) != perSwitch.rails {
				t.Errorf("GPU %d: rails %v at %s, want all %d at PIX", g.Index, g.Rails, g.Distance, perSwitch.rails)
			}
		}
		if got := strings.Join(got, " "); got != perSwitch.own {
			t.Errorf("%d GPUs and %d rails: %s, want %s", perSwitch.gpus, perSwitch.rails, got, perSwitch.own)
		}
	}
}

// A GPU that NVML does not list belongs to the machine, so its rail remains one. No process can use the GPU.
func TestTheRailOfAGPUThatDidNotStart(t *testing.T) {
	var b bench
	b.switched(6, "InfiniBand", 400)
	const lost = 4
	listed := slices.Grow(b.GPUs.Devices, len(b.Cards))[:len(b.Cards)]
	for i := range b.Cards {
		b.Cards[i].Vendor, b.Cards[i].Model = "nvidia", "NVIDIA H20"
		listed[i].Index, listed[i].PCI = i, b.Cards[i].PCI
	}
	b.GPUs.Devices = slices.Delete(listed, lost, lost+1)
	for i := range b.PCI {
		if b.PCI[i].Vendor == "0x10de" {
			b.PCI[i].Driver = "nvidia"
		}
	}
	f, rails := b.judged("")
	if len(rails) != 6 || !f.Sure || len(f.GPUs) != 5 {
		t.Errorf("rails %v, sure %v, %d GPUs: %s", rails, f.Sure, len(f.GPUs), explained(f))
	}
	b.GPUs.Withheld = []string{b.Cards[lost].PCI} // another job's
	if f, rails := b.judged(""); len(rails) != 5 {
		t.Errorf("rails %v: %s", rails, explained(f))
	}
}

// In a VM that hides its switches, everything is equally near, and only the NUMA node
// differs.
func TestARailOfTheSameNUMANodeIsDealtFirst(t *testing.T) {
	var b bench
	for i := range 2 {
		gpu, nic := fmt.Sprintf("0000:00:1%d.0", i), fmt.Sprintf("0000:00:2%d.0", i)
		b.card(gpu, "0x030200", "0x10de", "0x2330", 1-i, "pci0000:00")
		b.Cards = append(b.Cards, fabric.Card{PCI: gpu})
		b.card(nic, "0x020000", "0x15b3", "0x101e", i, "pci0000:00")
		b.port(fmt.Sprintf("mlx5_%d", i), "Ethernet", 200, "MT4126", nic)
	}
	g := Of(b.Node, netip.Addr{}).GPUs
	if diff := cmp.Diff([][]string{{"mlx5_1"}, {"mlx5_0"}}, [][]string{g[0].Own, g[1].Own}); diff != "" ||
		len(g[0].Rails) != 2 {
		t.Errorf("own rails (-want +got):\n%s%+v", diff, g)
	}
}

func TestNamesAreInTheOrderOfTheirNumbers(t *testing.T) {
	got := []string{"mlx5_10", "rdmap16s27", "mlx5_2", "mlx5_bond_0", "mlx5_1", "rdmap160s27", "rdmap16s3"}
	slices.SortFunc(got, natural)
	want := []string{"mlx5_1", "mlx5_2", "mlx5_10", "mlx5_bond_0", "rdmap16s3", "rdmap16s27", "rdmap160s27"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
