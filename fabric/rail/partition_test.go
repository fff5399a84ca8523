package rail

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
)

// Ports that are no full member of a partition reach each other no more than those of different partitions.
func TestLimitedMembersAreNoRailsWhereOthersAreFull(t *testing.T) {
	const full, limited = "0x8001", "0x7fff"
	for _, tt := range []struct {
		name  string
		keys  []string // of each port
		rails int
		sure  bool
	}{
		{"all are full", []string{full, full, full, full}, 4, true},
		{"all are limited", []string{limited, limited, limited, limited}, 4, true},
		{"half of them", []string{limited, limited, full, full}, 2, true},
		{"most of them", []string{limited, limited, limited, full}, 1, false},
		{"tables that could not be read", []string{"", "", full, full}, 4, true},
		{"one of another partition", []string{full, "0x8002", full, full}, 3, false},
		{"one of another partition, of several", []string{full, "0x8002 0x8003", full + " 0x8003", full}, 3, false},
		{"two of four", []string{full, full, "0x8002", "0x8002"}, 4, true},
		{"a partition for each", []string{"0x8001", "0x8002", "0x8003", "0x8004"}, 4, true},
		{"one lacks a partition of some", []string{full + " 0x8002", full, full + " 0x8002", full + " 0x8002"}, 4, true},
	} {
		b := &bench{}
		for i, key := range tt.keys {
			p := &b.port(string(rune('a'+i)), "InfiniBand", 400, "MT4129", "").Ports[0]
			p.PKeys = nil
			for j, k := range strings.Fields(key) {
				p.PKeys = append(p.PKeys, fabric.PKey{Index: j, Key: k})
			}
		}
		f := Of(b.Node, netip.Addr{})
		if len(f.Rails) != tt.rails || f.Sure != tt.sure {
			t.Errorf("%s: %d rails, sure %t: %s", tt.name, len(f.Rails), f.Sure, f.Why)
		}
	}
}

// Without a link, a GUID or a bridge above both nothing says whose virtual function a port is.
func TestAnUnknownCardIsNoCardOfAVirtualFunction(t *testing.T) {
	b := &bench{}
	for i, name := range []string{"pf0", "pf1", "vf0", "vf1"} {
		h := b.port(name, "InfiniBand", 400, "MT4129", "")
		h.VF, h.System, h.GUID = i > 1, "", ""
		h.PCI = "0000:00:0" + string(rune('1'+i)) + ".0"
		b.PCI = append(b.PCI, fabric.PCI{Addr: h.PCI})
	}
	f := Of(b.Node, netip.Addr{})
	if i := slices.IndexFunc(f.NICs, func(n NIC) bool { return n.Role == Virtual }); i >= 0 {
		t.Errorf("%s: %s", f.NICs[i].Name, f.NICs[i].Why)
	}
}
