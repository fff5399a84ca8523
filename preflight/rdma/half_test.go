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

// An interface with an address and no entry for it has another fault than one without.
func TestAddressesThatTheGIDTableLacks(t *testing.T) {
	for entry, want := range map[string]string{
		"::ffff:10.75.2.9 v2": "ok 4 RoCE rails with an address",
		"::ffff:10.75.2.9 v1": "warn mlx2: its GID table has entries for RoCE v1 only",
		"fe80::29 v2":         "warn mlx2: its GID table lacks the address of its interface",
	} {
		in := of{4, instinct, func(i int) string {
			gid := fmt.Sprintf("::ffff:10.75.%d.9 v2", i)
			if i == 2 {
				gid = entry
			}
			return fmt.Sprintf("@.0 15b3:1021 0200 mlx5_core\n  hca mlx%[1]d type=MT4129\n"+
				"    port 1 ACTIVE LinkUp 400 Ethernet\n      gid 0 %[2]s g%[1]d\n"+
				"  net g%[1]d speed=400000 addr=10.75.%[1]d.9/24\n", i, gid)
		}, uplink}.input(t, "route eno1 192.168.9.7\n")
		f := checktest.Verdict(t, Checks(), "rdma.gid", in)
		checktest.Wants(t, f, want)
		if strings.HasSuffix(want, "of its interface") && !strings.HasPrefix(f.Fix, "ip link set g2 down; ip link set g2 u") {
			t.Errorf("fix %q", f.Fix)
		}
	}
}
