package fabric

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// packet is one packet of IPv4 at an interface.
type packet struct {
	iface        int  // its index
	out          bool // this node sends it
	proto        byte
	from, to     netip.Addr
	sport, dport uint16 // of TCP and UDP
}

// tap sees the packets of IPv4 at all interfaces: those that arrive before any filter of this node has seen them, and
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
		if !ok || at.Protocol != ethIP {
			continue
		}
		if p, ok := readPacket(b[:n]); ok {
			p.iface, p.out = at.Ifindex, at.Pkttype == unix.PACKET_OUTGOING
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
	}
	return p, true
}
