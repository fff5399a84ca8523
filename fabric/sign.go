package fabric

import (
	"context"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Sign is what the machine at an address answers to other packets than those of TCP.
type Sign int

const (
	NoSign   Sign = iota
	ARPAlone      // some machine answers ARP for the address: a switch may do so in place of one that is gone
	Pings         // it answers an echo, or that a port of UDP is closed
)

// signWait is how long an answer may take, and signTries how often it is asked: some packets get lost.
const signWait, signTries = 500 * time.Millisecond, 2

// SignOf asks the machine at an address for a sign, for up to answerWait. A call of TCP that has an answer by now shows
// that the path has just healed: then other signs say nothing. Without the right to send echoes or to ask by ARP it
// asks less.
func SignOf(ctx context.Context, of netip.AddrPort) (s Sign) {
	to, began := of.Addr().Unmap(), time.Now()
	q := askNear(to)
	defer q.close()
	call := -1
	if fd, _, err := begin(netip.Addr{}, of); err == nil {
		defer unix.Close(fd)
		call = fd
	}
	for range signTries {
		if heard, _ := answerers(ctx, []netip.Addr{to}, 0, signWait); heard[to] {
			s = Pings
			break
		}
	}
	if call >= 0 && ctx.Err() == nil && answers(call, time.Until(began.Add(answerWait))) {
		return NoSign
	}
	if s == NoSign && q.heard() {
		return ARPAlone
	}
	return s
}

// nearQuestion is a question by ARP; q is nil where it could not be asked.
type nearQuestion struct{ q *arpQuestion }

// askNear asks by ARP for a neighbour whose entry is not fixed.
func askNear(to netip.Addr) (n nearQuestion) {
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(to, 0))
	if err != nil || !h.src.IsValid() {
		return n
	}
	if i, ok := interfaceIn(h.src, to); ok && !isTunnel(i.Name) && !isFixed(i.Index, to) {
		n.q, _ = newARP(i.Name, []netip.Addr{to})
	}
	return n
}

func (n nearQuestion) close() {
	if n.q != nil {
		n.q.close()
	}
}

// heard reports whether a machine has answered by now.
func (n nearQuestion) heard() (is bool) {
	if n.q != nil {
		_ = n.q.answers(lateARP, func(netip.Addr, net.HardwareAddr) bool {
			is = true
			return false
		})
	}
	return is
}

// FixedTo returns the hardware address that a program or an administrator has entered for a neighbour; "": the kernel
// asks for it, the address is no neighbour's, or what is entered is no Ethernet address (IPoIB, GRE).
func FixedTo(to netip.Addr) string {
	to = to.Unmap()
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(to, 0))
	if err != nil || h.local || h.gateway.IsValid() {
		return ""
	}
	i, err := net.InterfaceByName(h.iface)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return ""
	}
	return ofEthernet(permanent(i.Index, to))
}

// ofEthernet returns a hardware address as text if it is one of Ethernet, and else "".
func ofEthernet(a net.HardwareAddr) string {
	if len(a) != 6 {
		return ""
	}
	return a.String()
}
