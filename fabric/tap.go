package fabric

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// packet is one packet of IPv4 at an interface, or another one that leaves and may carry such a packet.
type packet struct {
	iface        int  // its index
	out          bool // this node sends it
	astray       bool // it is for another hardware address, as a switch floods it: no socket of this node gets it
	proto        byte
	from, to     netip.Addr
	sport, dport uint16 // of TCP and UDP
	vni          uint32 // of VXLAN and Geneve, if it is of these
	wraps        bool   // it may carry another packet, as of IPsec, MPLS and tunnels; of IPv6, all other fields are zero
}

// tap sees the packets at all interfaces: those that arrive before any filter of this node has seen them, and
// those that leave after all have. It needs CAP_NET_RAW.
type tap struct{ fd int }

// ethIP is ETH_P_IP, and everyProtocol ETH_P_ALL, as a socket's address has them.
const ethIP, everyProtocol = unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xff<<8, unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8

// tapPause is how long one wait for a packet lasts.
const tapPause = 20 * time.Millisecond

func newTap() (*tap, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, everyProtocol)
	return &tap{fd}, err
}

func (t *tap) close() { _ = unix.Close(t.fd) }

// whole reports whether the kernel has passed all packets since the last call: of a busy node it drops some.
func (t *tap) whole() bool {
	lost, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	return err == nil && lost.Drops == 0
}

// watch passes the packets of a time, or until take returns false.
func (t *tap) watch(limit time.Duration, take func(packet) (more bool)) {
	b := make([]byte, 128)
	for end := time.Now().Add(limit); time.Now().Before(end); {
		n, from, err := unix.Recvfrom(t.fd, b, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}, int(tapPause/time.Millisecond))
			continue
		case err != nil:
			return
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if !ok {
			continue
		}
		out := at.Pkttype == unix.PACKET_OUTGOING
		p, ok := readPacket(b[:n])
		if at.Protocol != ethIP {
			p, ok = packet{wraps: true}, out && wrapsOther(at.Protocol, b[:n])
		}
		if ok {
			p.iface, p.out, p.astray = at.Ifindex, out, at.Pkttype == unix.PACKET_OTHERHOST
			if !take(p) {
				return
			}
		}
	}
}

// readPacket reads the headers of a packet (RFC 791, RFC 9293, RFC 768).
func readPacket(b []byte) (p packet, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return p, false
	}
	p.proto = b[9]
	p.from, _ = netip.AddrFromSlice(b[12:16])
	p.to, _ = netip.AddrFromSlice(b[16:20])
	head := int(b[0]&0xf) * 4
	later := binary.BigEndian.Uint16(b[6:])&0x1fff != 0 // a fragment without ports
	if (p.proto == unix.IPPROTO_TCP || p.proto == unix.IPPROTO_UDP) && len(b) >= head+4 && !later {
		p.sport, p.dport = binary.BigEndian.Uint16(b[head:]), binary.BigEndian.Uint16(b[head+2:])
		if p.proto == unix.IPPROTO_UDP && len(b) >= head+16 {
			p.vni = binary.BigEndian.Uint32(b[head+12:]) >> 8 // RFC 7348 and RFC 8926, after the 8 bytes of UDP
		}
	}
	p.wraps = wraps(p.proto, p.sport, p.dport)
	return p, true
}

// wraps reports whether packets of a protocol may carry others: IPsec, tunnels, and all that is not known.
func wraps(proto byte, sport, dport uint16) bool {
	const natTraversal = 4500 // RFC 3948
	switch proto {
	case unix.IPPROTO_TCP, unix.IPPROTO_ICMP, unix.IPPROTO_IGMP, unix.IPPROTO_ICMPV6:
		return false
	case unix.IPPROTO_UDP:
		return sport == natTraversal || dport == natTraversal
	}
	return true
}

// wrapsOther is wraps for a packet that is not of IPv4, by its type on Ethernet, as a socket's address has it. Those of
// IPv6 begin with 40 bytes (RFC 8200).
func wrapsOther(kind uint16, b []byte) bool {
	const ethIPv6, ethARP = unix.ETH_P_IPV6>>8 | unix.ETH_P_IPV6&0xff<<8, unix.ETH_P_ARP>>8 | unix.ETH_P_ARP&0xff<<8
	switch {
	case kind == ethARP:
		return false
	case kind != ethIPv6 || len(b) < 44:
		return true
	case b[6] == 0: // options for each hop: reports of multicast groups
		return false
	}
	return wraps(b[6], binary.BigEndian.Uint16(b[40:]), binary.BigEndian.Uint16(b[42:]))
}
