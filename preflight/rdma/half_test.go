package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// The half of a cable whose interface has no address is no rail, and half of the rate is lost.
func TestTheHalfOfACableWithoutAnAddress(t *testing.T) {
	half := func(bus, first, second string) string {
		port := func(fn int, addr string) string {
			name := fmt.Sprintf("q%s%d", bus, fn)
			out := fmt.Sprintf("  %s:03:00.%d 15b3:1021 0200 mlx5_core\n    hca %s type=MT4129 system=58a2:e103:0000:0001\n",
				bus, fn, name)
			if addr == "" {
				return out + "      port 1 DOWN Disabled 40 Ethernet\n    net n" + name + " nocarrier\n"
			}
			gid := addr
			if strings.Contains(addr, ".") {
				gid = "::ffff:" + addr
			}
			return out + "      port 1 ACTIVE LinkUp 200 Ethernet\n        gid 0 " + gid + " v2 n" + name + "\n    net n" +
				name + " speed=200000 addr=" + addr + "/24\n"
		}
		return "pci" + bus + ":00\n" + port(0, first) + port(1, second)
	}
	for _, tt := range []struct{ name, cards, want string }{
		{"both have one", half("0000", "", "10.74.0.9") + half("0004", "", "10.74.1.9"), "ok 2 RoCE rails with an address"},
		{"one has none", half("0000", "", "10.74.0.9") + half("0004", "", "fe80::9"),
			"warn 1 card without an IP address that a router forwards, next to 1 rail with one: q00041"},
		{"of two cables, each has one", half("0000", "10.74.0.9", "10.74.1.9") + half("0004", "fe80::8", "fe80::9"),
			"warn 2 cards without an IP address that a router forwards, next to 2 rails with one: q00040, q00041"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := of{1, instinct, func(int) string { return "" }, tt.cards + uplink}.input(t, "route eno1 192.168.9.7\n")
			f := checktest.Verdict(t, Checks(), "rdma.gid", in)
			checktest.Wants(t, f, tt.want)
			if strings.HasPrefix(tt.want, "warn") && !strings.Contains(f.Breaks, "half of its rate") {
				t.Errorf("breaks %q", f.Breaks)
			}
		})
	}
}
