package fabric

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// arpPatience is how long an answer of the same network may take.
const arpPatience = 500 * time.Millisecond

// Claimant asks the network whether another machine has an IPv4 address of an interface of this one, by a probe that
// enters no address into anybody's tables (RFC 5227, section 2.1.1), and returns that machine's hardware address; nil:
// none has answered within half a second. It needs CAP_NET_RAW, and an interface with hardware addresses of 6 bytes.
func Claimant(addr netip.Addr, iface string) (who net.HardwareAddr, err error) {
	err = askARP(addr, iface, func(first net.HardwareAddr) bool {
		who = first
		return false
	})
	return who, err
}

// askARP passes the hardware addresses that answer for an IPv4 address, until take returns false or half a second is
// over.
func askARP(addr netip.Addr, iface string, take func(net.HardwareAddr) (more bool)) error {
	q, err := newARP(iface, []netip.Addr{addr})
	if err != nil {
		return err
	}
	defer q.close()
	return q.answers(arpPatience, func(_ netip.Addr, who net.HardwareAddr) bool { return take(who) })
}

// arpQuestion is the addresses of an interface's network for which machines were asked.
type arpQuestion struct {
	iface string
	fd    int
	addrs []netip.Addr
}

// newARP asks for all addresses at once.
func newARP(iface string, addrs []netip.Addr) (*arpQuestion, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, err
	}
	const protocol = unix.ETH_P_ARP>>8 | unix.ETH_P_ARP&0xff<<8 // as the network has it
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("ask by ARP: %w", err)
	}
	q := &arpQuestion{iface: iface, fd: fd}
	to := unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index, Halen: 6,
		Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index})
	for _, a := range addrs {
		if a = a.Unmap(); err == nil && (!a.Is4() || len(i.HardwareAddr) != 6) {
			err = errors.New("ARP asks for IPv4 on Ethernet")
		}
		if err == nil {
			err = unix.Sendto(fd, arpProbe(i.HardwareAddr, a), 0, &to)
		}
		q.addrs = append(q.addrs, a)
	}
	if err != nil {
		q.close()
		return nil, fmt.Errorf("ask by ARP on %s: %w", iface, err)
	}
	return q, nil
}

func (q *arpQuestion) close() { _ = unix.Close(q.fd) }

// answers passes who has answered so far, and within a time from now, until take returns false.
func (q *arpQuestion) answers(within time.Duration, take func(netip.Addr, net.HardwareAddr) (more bool)) error {
	own := ownHardware()
	answer := make([]byte, 64)
	for end := time.Now().Add(within); ; {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		wait := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(q.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return fmt.Errorf("ask by ARP on %s: %w", q.iface, err)
		}
		n, _, err := unix.Recvfrom(q.fd, answer, 0)
		if err != nil { // the time is over, or a signal
			continue
		}
		for _, a := range q.addrs {
			if who := arpSender(answer[:n], a); who != nil && !own[who.String()] && !take(a, who) {
				return nil
			}
		}
	}
}

// ownHardware returns the hardware addresses of this machine: by default Linux answers on each of its interfaces for
// the addresses of all.
func ownHardware() map[string]bool {
	own := map[string]bool{}
	all, _ := net.Interfaces()
	for _, i := range all {
		own[i.HardwareAddr.String()] = true
	}
	return own
}

// arpProbe returns a request for an address (RFC 826) that names no address of its own.
func arpProbe(from net.HardwareAddr, addr netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 1} // Ethernet, IPv4, their lengths, a request
	b = append(b, from...)
	b = append(b, make([]byte, 4+6)...)
	return append(b, addr.AsSlice()...)
}

// arpSender returns the hardware address of who says that an address is its own; nil: the packet says nothing of it.
func arpSender(b []byte, addr netip.Addr) net.HardwareAddr {
	const ipv4 = 0x0800
	if len(b) < 28 || binary.BigEndian.Uint16(b[2:]) != ipv4 || b[4] != 6 || b[5] != 4 ||
		!bytes.Equal(b[14:18], addr.AsSlice()) {
		return nil
	}
	return net.HardwareAddr(bytes.Clone(b[8:14]))
}
