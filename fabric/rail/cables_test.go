package rail

import (
	"slices"
	"strings"
	"testing"

	"launch/fabric"
)

// A card with two PCIe links shows each of its two cables at both. The port with a 169.254 address goes with the
// cable of its twin: it is a rail where that one is.
func TestThePortThatSharesACableWithNoRailIsNone(t *testing.T) {
	for peer, want := range map[string][]string{
		"10.100.0.14": {"roceP2p1s0f1"},
		"10.0.0.9":    {"roceP2p1s0f0", "rocep1s0f0"},
		"192.168.1.9": {"roceP2p1s0f0", "roceP2p1s0f1", "rocep1s0f0"}, // neither network
	} {
		var b bench
		b.Cards = []fabric.Card{{PCI: "000f:01:00.0", Vendor: "nvidia"}}
		for _, p := range [][3]string{{"rocep1s0f0", "0000:01:00.0", "10.0.0.2"}, {"rocep1s0f1", "0000:01:00.1", "fe80::11"},
			{"roceP2p1s0f0", "0002:01:00.0", "169.254.121.8"}, {"roceP2p1s0f1", "0002:01:00.1", "10.100.0.13"}} {
			h := b.port(p[0], "Ethernet", 200, "MT4129", p[1])
			h.System = "1"
			b.address(h, strings.Replace(p[0], "roc", "", 1), p[2])
		}
		f, rails := b.judged(peer)
		if !slices.Equal(rails, want) || f.Sure {
			t.Errorf("peers at %s: %v, sure %v, want %v", peer, rails, f.Sure, want)
		}
	}
}

// An XDR card's second device has no device node: it manages the planes. That is no fault of this process.
func TestTheSecondDeviceOfAFunctionManagesIt(t *testing.T) {
	var b bench
	b.port("mlx5_0", "InfiniBand", 800, "MT4131", "0000:0b:00.0").Uverbs = "/dev/infiniband/uverbs0"
	b.port("smi1", "InfiniBand", 200, "MT4131", "0000:0b:00.0").Closed = "it has no device node, unlike the others"
	b.port("mlx5_1", "InfiniBand", 800, "MT4131", "0000:1b:00.0").Closed = "it has no device node, unlike the others"
	f, rails := b.judged("")
	if !slices.Equal(rails, []string{"mlx5_0"}) {
		t.Errorf("rails %v", rails)
	}
	for name, want := range map[string]string{"smi1": "only manages its card", "mlx5_1": "this process cannot open it"} {
		nic, _ := find(f.NICs, func(n NIC) bool { return n.Name == name })
		if !strings.HasPrefix(nic.Why, want) || nic.Missing {
			t.Errorf("%s: %+v, want %q", name, nic, want)
		}
	}
}
