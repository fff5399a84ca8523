package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// The parts of neighbour discovery (RFC 4861, 4.3 and 4.4) that are looked at: the next header of IPv6, the types of
// ICMPv6, and where they begin.
const (
	solicitation, advertisement = 135, 136
	headerLen, targetEnd        = 40, 40 + 24
)

// undiscovered returns why this node finds no neighbour of an IPv6 address on an interface: its own filter drops what
// it asks, or the answers. It asks, and sees the packets that leave after all filters and arrive before them, which
// needs CAP_NET_RAW. It is the zero Fault elsewhere.
func undiscovered(iface string, of netip.Addr) Fault {
	if !of.Is6() || of.Is4In6() || settled(iface, of) != Silent {
		return Fault{}
	}
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return Fault{}
	}
	const protocol = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8 // with those that leave
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return Fault{}
	}
	defer unix.Close(fd)
	if unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index}) != nil {
		return Fault{}
	}
	asked, answered := discover(fd, iface, of)
	_, asks := presence(iface, of)
	fix := "nft list ruleset; ip6tables -S   # on this node: a rule that drops ICMPv6\n" +
		"allow ICMPv6 in both directions, at least the types 133 to 136 (RFC 4890)"
	const without = "without it, IPv6 finds no machine of its network"
	switch there, _ := presence(iface, of); {
	case there == Here:
	case answered:
		return Fault{fmt.Sprintf("%s answers the neighbour discovery of this node (ICMPv6), and the answers arrive on %s "+
			"and are dropped here, as by a firewall of this node: %s", of, iface, without), fix}
	case asks && !asked:
		return Fault{fmt.Sprintf("this node's neighbour discovery (ICMPv6) for %s does not leave by %s, as with a firewall "+
			"here: %s", of, iface, without), fix}
	}
	return Fault{}
}

// discoverWait is for how long packets of neighbour discovery are watched: the kernel asks three times, a second apart.
const discoverWait = 1500 * time.Millisecond

// discover has the kernel ask for an address, and returns whether that leaves, and whether an answer arrives and has no
// effect.
func discover(fd int, iface string, of netip.Addr) (asked, answered bool) {
	to := netip.AddrPortFrom(of, 9) // discard
	if of.IsLinkLocalUnicast() {
		to = netip.AddrPortFrom(of.WithZone(iface), 9)
	}
	if c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)); err == nil {
		_, _ = c.Write([]byte{0})
		defer c.Close()
	}
	b := make([]byte, 128)
	for end := time.Now().Add(discoverWait); time.Now().Before(end); {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(askPause/time.Millisecond))
			continue
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if err != nil || !ok {
			return asked, false
		}
		switch target, kind := discovered(b[:n]); {
		case target != of.WithZone(""):
		case kind == solicitation && at.Pkttype == unix.PACKET_OUTGOING:
			asked = true
		case kind == advertisement && at.Pkttype != unix.PACKET_OUTGOING && at.Pkttype != unix.PACKET_OTHERHOST:
			time.Sleep(askPause) // the kernel takes it a little later
			if there, asking := presence(iface, of); there != Here && (asking || there == Silent) {
				return asked, true
			}
		}
	}
	return asked, false
}

// discovered returns the target and the type of a message of neighbour discovery; zero: it is another packet.
func discovered(b []byte) (target netip.Addr, kind byte) {
	if len(b) < targetEnd || b[0]>>4 != 6 || b[6] != unix.IPPROTO_ICMPV6 {
		return target, 0
	}
	target, _ = netip.AddrFromSlice(b[targetEnd-16 : targetEnd])
	return target, b[headerLen]
}
