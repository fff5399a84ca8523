package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// A card of the rails' make in another mode is missing where a GPU lacks its rail.
func TestCardsInAnotherMode(t *testing.T) {
	card := func(i int, lines string) string {
		return fmt.Sprintf("@.0 15b3:101b 0207 mlx5_core gen=4 lanes=16\n  hca vpi%[1]d type=MT4123 board=MT_0000000223 "+
			"guid=08c0:eb03:0000:%04[1]x system=08c0:eb03:0000:%04[1]x\n%s", i, lines)
	}
	ib := func(i int) string {
		return card(i, fmt.Sprintf("    port 1 ACTIVE LinkUp 200 InfiniBand lid=0x%x sm=0x3 pkeys=0xffff\n", 0x40+i))
	}
	eth := func(i int) string {
		return card(i, fmt.Sprintf("    port 1 ACTIVE LinkUp 200 Ethernet\n      gid 0 ::ffff:10.73.%[1]d.9 v2 n%[1]d\n"+
			"  net n%[1]d speed=200000 addr=10.73.%[1]d.9/24\n", i))
	}
	at := func(all func(int) string, i int, lines string) func(int) string {
		return func(j int) string {
			if j == i {
				return lines
			}
			return all(j)
		}
	}
	const noLink, live = "    port 1 DOWN Polling 40 Ethernet\n", "    port 1 ACTIVE LinkUp 200 Ethernet\n  net n9\n"
	second := func(i int) string {
		return ib(i) + strings.ReplaceAll(card(i, noLink), "hca vpi", "hca second")
	}
	second2 := func(i int) string { // the second function of the card
		first, rest, _ := strings.Cut(second(i), "\n@.0")
		return first + "\n@.1" + rest
	}
	for _, tt := range []struct {
		name    string
		machine of
		want    string
	}{
		{"in order", of{6, instinct, ib, uplink}, "ok 6 x InfiniBand"},
		{"one has no link", of{6, instinct, at(ib, 4, card(4, noLink)), uplink},
			"warn vpi4 is a card like the rails of this node, and in Ethernet mode; the rails are in InfiniBand mode"},
		{"one has a link", of{6, instinct, at(ib, 4, card(4, live)), uplink}, "warn vpi4 is a card like the rails"},
		{"one has a link and an address, as for storage", of{6, instinct, at(ib, 4, eth(4)), uplink}, "ok 5 x InfiniBand"},
		{"another board", of{6, instinct, at(ib, 4, strings.ReplaceAll(card(4, noLink), "0223", "0224")), uplink},
			"ok 5 x InfiniBand"},
		{"one of RoCE is InfiniBand", of{6, instinct, at(eth, 1, card(1, "    port 1 DOWN Polling 10 InfiniBand\n")), uplink},
			"warn vpi1 is a card like the rails of this node, and in InfiniBand mode; the rails are in Ethernet mode"},
		{"one of RoCE is InfiniBand and waits", of{6, instinct, at(eth, 1, card(1, "    port 1 INIT LinkUp 200 "+
			"InfiniBand\n")), uplink}, "warn vpi1 is a card like the rails of this node, and in InfiniBand mode"},
		{"second ports", of{4, instinct, second2, uplink}, "ok 4 x InfiniBand"},
		{"one more, far from the GPUs", of{4, instinct, ib, uplink + "pci00f1:00\n " +
			strings.ReplaceAll(card(7, noLink), "@", "00f1:01:00")}, "ok 4 x InfiniBand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.link",
				tt.machine.input(t, "route eno1 192.168.9.7\n")), tt.want)
		})
	}
}
