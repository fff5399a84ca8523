package verbs

import (
	"fmt"
	"net/netip"
)

// gidEntry is one entry of a port's GID table.
type gidEntry struct {
	Index int
	Addr  netip.Addr // an IPv4 address is unmapped
	Type  string     // "IB/RoCE v1" or "RoCE v2", as the kernel writes it; "" unknown
}

// The types of a GID, as the kernel writes them.
const (
	typeV1 = "IB/RoCE v1" // also InfiniBand's own
	typeV2 = "RoCE v2"
)

// gidType translates a type of libibverbs: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2.
func gidType(n uint32) string {
	if n == 2 {
		return typeV2
	}
	return typeV1
}

// choose returns the GID for a RoCE connection if the test names none. It follows
// NCCL's rule: RoCE v2 of an IPv4 address, then of a routable IPv6 address, then any.
func choose(gids []gidEntry) (gidEntry, bool) {
	better := []func(g gidEntry) bool{
		func(g gidEntry) bool { return g.Type == typeV2 && g.Addr.Is4() && !g.Addr.IsLinkLocalUnicast() },
		func(g gidEntry) bool { return g.Type == typeV2 && g.Addr.Is6() && !g.Addr.IsLinkLocalUnicast() },
		func(g gidEntry) bool { return g.Type == typeV2 },
		func(g gidEntry) bool { return !g.Addr.IsLinkLocalUnicast() },
		func(gidEntry) bool { return true },
	}
	for _, fits := range better {
		for _, g := range gids {
			if fits(g) {
				return g, true
			}
		}
	}
	return gidEntry{}, false
}

// gidOf converts the bytes of an entry; false if it is unset: all zeros, or only the
// prefix of link-local addresses.
func gidOf(raw [16]byte) (netip.Addr, bool) {
	if [8]byte(raw[8:]) == [8]byte{} && (raw[0] == 0 || raw[0] == 0xfe) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(raw).Unmap(), true
}

func guidOf(raw [8]byte) string {
	if raw == [8]byte{} {
		return ""
	}
	return fmt.Sprintf("%x:%x:%x:%x", raw[:2], raw[2:4], raw[4:6], raw[6:])
}

// mtuBytes returns the MTU of libibverbs' number in bytes; 0 for an invalid number.
func mtuBytes(n int) int {
	if n < 1 || n > 5 {
		return 0
	}
	return 128 << n
}

// mtuNumber is the inverse of mtuBytes; 0 for an invalid MTU.
func mtuNumber(bytes int) int {
	for n := 1; n <= 5; n++ {
		if mtuBytes(n) == bytes {
			return n
		}
	}
	return 0
}

// rateOf returns the rate of all lanes in Gb/s, as the kernel rounds it
// (drivers/infiniband/core/sysfs.c, rate_show), and the lanes; 0 for an unknown number.
func rateOf(width, speed int) (rate float64, lanes int) {
	lanes = map[int]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	lane := map[int]float64{
		1: 2.5, 2: 5, 4: 10, 8: 10, // SDR, DDR, QDR, FDR10
		16: 14, 32: 25, 64: 50, 128: 100, 256: 200, // FDR, EDR, HDR, NDR, XDR
	}[speed]
	return lane * float64(lanes), lanes
}
