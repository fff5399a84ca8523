package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// A port that is down counts by its number: one that is down on all cards has no cable on purpose.
func TestPortsThatOtherCardsUse(t *testing.T) {
	planes := func(i int, down ...int) string { // of a card with four ports, of which two have a cable
		out := fmt.Sprintf("@.0 15b3:1023 0200 mlx5_core gen=6 lanes=16\n  hca mlx5_%d type=MT4131 board=P_1\n", i)
		nets := ""
		for n := 1; n <= 4; n++ {
			state, link := "ACTIVE LinkUp 200", ""
			if n%2 == 1 || strings.Contains(fmt.Sprint(down), fmt.Sprint(n)) {
				state, link = "DOWN Polling 40", "nocarrier "
			}
			out += fmt.Sprintf("    port %d %s Ethernet\n      gid 0 fe80::%[3]d:%[1]d v2 e%[3]dp%[1]d\n", n, state, i)
			if link == "" {
				out += fmt.Sprintf("      gid 1 ::ffff:10.8%d.%d.9 v2 e%[2]dp%[1]d\n", n, i)
			}
			nets += fmt.Sprintf("  net e%dp%d %sport=%d speed=200000 addr=10.8%[2]d.%[1]d.9/24\n", i, n, link, n-1)
		}
		return out + nets
	}
	dual := func(i int, second string) string {
		return fmt.Sprintf("@.0 15b3:1003 0280 mlx4_core gen=3 lanes=8\n  hca mlx4_%d type=MT4099 board=M_1\n"+
			"    port 1 ACTIVE LinkUp 56 InfiniBand lid=0x%[2]x sm=0x1 pkeys=0xffff\n"+
			"    port 2 %[3]s InfiniBand lid=0x%[4]x sm=0x1 pkeys=0xffff\n", i, 16+i, second, 32+i)
	}
	const up, down = "ACTIVE LinkUp 56", "DOWN Polling 10"
	for _, tt := range []struct {
		name    string
		machine of
		want    string
	}{
		{"one plane of one card", of{8, instinct, func(i int) string {
			if i == 4 {
				return planes(i, 2)
			}
			return planes(i)
		}, uplink}, "warn port 2 of mlx5_4 has no link, unlike the same port of the other cards of its kind: it is down, " +
			"polling for a cable"},
		{"all planes", of{8, instinct, func(i int) string { return planes(i) }, uplink}, "ok 16 x Ethernet at 200 Gb/s"},
		{"one plane on no card", of{8, instinct, func(i int) string { return planes(i, 2) }, uplink}, "ok 8 x Ethernet"},
		{"the second port of one of four", of{4, instinct, func(i int) string {
			return dual(i, map[bool]string{true: down, false: up}[i == 1])
		}, uplink}, "warn port 2 of mlx4_1 has no link"},
		{"the second port waits", of{4, instinct, func(i int) string {
			return dual(i, map[bool]string{true: "INIT LinkUp 56", false: up}[i == 1])
		}, uplink}, "warn port 2 of mlx4_1 has no link, unlike the same port of the other cards of its kind: it is " +
			"initializing, though its cable is up and a subnet manager serves other ports"},
		{"the second port of half of them", of{4, instinct, func(i int) string {
			return dual(i, map[bool]string{true: down, false: up}[i%2 == 1])
		}, uplink}, "ok 6 x InfiniBand"},
		{"the second port of no card", of{4, instinct, func(i int) string { return dual(i, down) }, uplink},
			"ok 4 x InfiniBand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.machine.input(t, "route eno1 192.168.9.7\n")
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.link", in), tt.want)
		})
	}
}
