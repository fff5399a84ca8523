package fabric

import (
	"context"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// icmpFilter is ICMP_FILTER (linux/icmp.h): a mask of the types that a raw socket does not get.
const icmpFilter = 1

// unreachable is the type of ICMP's messages about packets that do not get on (RFC 792).
const unreachable = 3

// Refusals passes what routers say of packets of this node, until ctx ends: that one has no way to an address. A router
// says so of the first packets, and later not even to TrailTo while others are sent. It needs CAP_NET_RAW, and is for
// IPv4.
func Refusals(ctx context.Context, take func(router, to netip.Addr)) error {
	c, err := net.ListenIP("ip4:icmp", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var errno error
	err = raw.Control(func(fd uintptr) {
		errno = unix.SetsockoptInt(int(fd), unix.SOL_RAW, icmpFilter, ^(1 << unreachable))
	})
	if err != nil || errno != nil {
		return os.NewSyscallError("setsockopt ICMP_FILTER", errno)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	b := make([]byte, 256)
	for {
		n, from, err := c.ReadFromIP(b)
		if err != nil {
			return err
		}
		router, ok := netip.AddrFromSlice(from.IP)
		to, refused := refusedTo(b[:n])
		if !ok || !refused {
			continue
		}
		if own, err := net.InterfaceAddrs(); err == nil && !has(own, router.Unmap()) { // not its own ARP
			take(router.Unmap(), to)
		}
	}
}

// refusedTo returns to which address a packet was to go of which a message of ICMP says that there is no way.
func refusedTo(b []byte) (to netip.Addr, ok bool) {
	const head, addr = 8, 16 // of the message, and in the IP header of the packet
	if len(b) < head+20 || b[head]>>4 != 4 || meaning(unix.SO_EE_ORIGIN_ICMP, b[0], b[1]) != noWay {
		return to, false
	}
	return netip.AddrFromSlice(b[head+addr : head+addr+4])
}
