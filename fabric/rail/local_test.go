package rail

import (
	"slices"
	"testing"
)

// A port with an IPv4 link-local address reaches what its cable reaches.
func TestALinkLocalAddressNextToARoutedOne(t *testing.T) {
	spark := []string{"0000:01:00.0", "0000:01:00.1", "0002:01:00.0", "0002:01:00.1"}
	for _, tt := range []struct {
		name  string
		pci   []string
		addrs []string
		peer  string
		rails []string
		sure  bool
	}{
		{"another card", []string{"0000:01:00.0", "0000:02:00.0"}, []string{"10.1.0.4", "169.254.3.4"}, "",
			[]string{"mlx5_0"}, false},
		{"the other port of a card", []string{"0000:01:00.0", "0000:01:00.1"}, []string{"169.254.3.4", "10.1.0.4"}, "",
			[]string{"mlx5_1"}, false},
		{"the peers have link-local addresses", []string{"0000:01:00.0", "0000:02:00.0"},
			[]string{"10.1.0.4", "169.254.3.4"}, "169.254.3.4", names(2), false},
		{"the twin at the card's second PCIe link", spark[1:4:4], []string{"192.168.177.11", "", "169.254.30.2"}, "",
			[]string{"mlx5_0", "mlx5_2"}, false},
		{"two cables, one of them without a routed address", spark, []string{"10.1.0.4", "169.254.3.4", "10.1.1.4",
			"169.254.30.2"}, "", []string{"mlx5_0", "mlx5_2"}, false},
		{"all four are link-local", spark, []string{"169.254.1.1", "169.254.1.2", "169.254.1.3", "169.254.1.4"}, "",
			names(4), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bench
			for i, pci := range tt.pci {
				h := b.port(names(4)[i], "Ethernet", 200, "MT4129", pci)
				if h.System = "card " + pci[:7]; len(tt.pci) > 2 {
					h.System = "spark"
				}
				if tt.addrs[i] != "" {
					b.address(h, "eth-"+h.Name, tt.addrs[i])
				}
			}
			f, rails := b.judged(tt.peer)
			if !slices.Equal(rails, tt.rails) || f.Sure != tt.sure {
				t.Errorf("rails %q, sure %v, want %q, %v\n%s", rails, f.Sure, tt.rails, tt.sure, explained(f))
			}
		})
	}
}
