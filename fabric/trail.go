package fabric

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

// Limits of Trail. A site has few routers between its nodes.
const (
	trailHops  = 6
	trailWait  = time.Second
	trailPort  = 33434 // and up: traceroute(8)'s, where no program listens
	trailTries = 2
)

// Trail is how far packets get on the way to an address that is no neighbour, as the routers on it say.
type Trail struct {
	To     netip.Addr
	Router netip.Addr // the first one, by the kernel's routes; zero: the address is a neighbour, or not known
	// Hops are the routers that said by ICMP that a packet's hop limit ended there, the first one first. The zero
	// address: that one said nothing.
	Hops []netip.Addr
	// Refused is the one that said by ICMP that it has no way there; zero: no router said so. What a filter says of
	// packets of UDP says nothing of others.
	Refused netip.Addr
	Arrived bool // the address itself answered
}

// TrailTo sends packets of UDP to an address, each with another hop limit, and waits for ICMP for up to a second. It
// needs no privilege. Routers that answer nothing are usual: what it shows counts where calls fail.
func TrailTo(ctx context.Context, dst netip.Addr) (t Trail) {
	dst = dst.Unmap()
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(dst, 0))
	if err != nil || h.local || !h.gateway.IsValid() {
		return Trail{}
	}
	t.To, t.Router = dst, h.gateway.Unmap()
	ctx, cancel := context.WithTimeout(ctx, trailWait)
	defer cancel()
	said := make([]icmp, trailHops)
	var wg sync.WaitGroup
	for i := range said {
		wg.Go(func() { said[i] = probe(ctx, dst, i+1) })
	}
	wg.Wait()
	t.read(said)
	return t
}

// read takes the answers to packets with hop limits from 1.
func (t *Trail) read(said []icmp) {
	for i, s := range said {
		switch {
		case s.from == t.To || s.says == noPort: // a host may answer with another of its addresses
			t.Arrived = true
			return
		case s.says == exceeded:
			t.Hops = append(t.Hops, make([]netip.Addr, i-len(t.Hops))...)
			t.Hops = append(t.Hops, s.from)
		case s.says == noWay && !t.Refused.IsValid():
			t.Refused = s.from
		}
	}
}

// Fault returns where the packets end, in words; the zero Fault: they arrive, or no router says anything. The gateways
// of clouds never do.
func (t Trail) Fault() Fault {
	switch {
	case !t.Router.IsValid() || t.Arrived:
		return Fault{}
	case t.Refused.IsValid():
		return Fault{fmt.Sprintf("the router %s says that packets do not get from it to %s", t.Refused, t.To),
			fmt.Sprintf("ip route get %s; nft list ruleset   # on the router %s", t.To, t.Refused)}
	case len(t.Hops) > 0:
		last := t.Hops[len(t.Hops)-1]
		return Fault{fmt.Sprintf("packets get as far as the router %s, and nothing after it answers: that machine is down "+
			"or drops them, a router does not forward them, or the answers do not get back", last),
			fmt.Sprintf("traceroute -n %s   # here: how far do packets get?\n"+
				"sysctl net.ipv4.ip_forward; ip route; nft list ruleset   # on the router %s: does it forward, in both "+
				"directions?", t.To, last)}
	}
	return Fault{}
}

// icmp is one message about a packet; the zero icmp: no message arrived.
type icmp struct {
	from netip.Addr
	says message
}

// message is what an icmp says.
type message int

const (
	other    message = iota // nothing of the way
	exceeded                // the hop limit ended
	noWay                   // no route, or no machine answers for the address in its network
	noPort                  // the packet arrived
)

// probe sends packets with a hop limit and returns the first message about one.
func probe(ctx context.Context, dst netip.Addr, hops int) icmp {
	family, level, limit, errs := sockaddr.Family(dst), unix.SOL_IP, unix.IP_TTL, unix.IP_RECVERR
	if family == unix.AF_INET6 {
		level, limit, errs = unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_RECVERR
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return icmp{}
	}
	defer unix.Close(fd)
	if unix.SetsockoptInt(fd, level, limit, hops) != nil || unix.SetsockoptInt(fd, level, errs, 1) != nil ||
		unix.Connect(fd, sockaddr.Of(netip.AddrPortFrom(dst, trailPort+uint16(hops)))) != nil {
		return icmp{}
	}
	for range trailTries {
		_, _ = unix.Write(fd, []byte("launch"))
		for until := time.Now().Add(trailWait / (trailTries + 1)); time.Now().Before(until) && ctx.Err() == nil; {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 50) // an error needs no event asked for
			if m, ok := readError(fd, level, errs); ok {
				return m
			}
		}
	}
	return icmp{}
}

// readError takes a message of ICMP from a socket's queue of errors (ip(7), IP_RECVERR).
func readError(fd, level, kind int) (icmp, bool) {
	control := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 64), control, unix.MSG_ERRQUEUE)
	if err != nil {
		return icmp{}, false
	}
	all, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return icmp{}, false
	}
	i := slices.IndexFunc(all, func(m unix.SocketControlMessage) bool {
		return int(m.Header.Level) == level && int(m.Header.Type) == kind
	})
	if i < 0 {
		return icmp{}, false
	}
	return readExtended(all[i].Data)
}

// sizeofExtendedErr is the size of struct sock_extended_err (linux/errqueue.h); the address of who said it follows.
const sizeofExtendedErr = int(unsafe.Sizeof(unix.SockExtendedErr{}))

// meaning returns what the type and code of a message mean (RFC 792, RFC 4443).
func meaning(origin, kind, code byte) message {
	switch [3]byte{origin, kind, code} {
	case [3]byte{unix.SO_EE_ORIGIN_ICMP, 11, 0}, [3]byte{unix.SO_EE_ORIGIN_ICMP6, 3, 0}:
		return exceeded
	case [3]byte{unix.SO_EE_ORIGIN_ICMP, 3, 0}, [3]byte{unix.SO_EE_ORIGIN_ICMP, 3, 1},
		[3]byte{unix.SO_EE_ORIGIN_ICMP6, 1, 0}, [3]byte{unix.SO_EE_ORIGIN_ICMP6, 1, 3}:
		return noWay
	case [3]byte{unix.SO_EE_ORIGIN_ICMP, 3, 3}, [3]byte{unix.SO_EE_ORIGIN_ICMP6, 1, 4}:
		return noPort
	}
	return other
}

func readExtended(b []byte) (m icmp, ok bool) {
	if len(b) < sizeofExtendedErr+2 {
		return m, false
	}
	origin, kind, code := b[4], b[5], b[6]
	at := b[sizeofExtendedErr:]
	switch family := binary.NativeEndian.Uint16(at); {
	case family == unix.AF_INET && len(at) >= 8:
		m.from, _ = netip.AddrFromSlice(at[4:8])
	case family == unix.AF_INET6 && len(at) >= 24:
		m.from, _ = netip.AddrFromSlice(at[8:24])
	}
	m.says = meaning(origin, kind, code)
	return m, m.from.IsValid() && (origin == unix.SO_EE_ORIGIN_ICMP || origin == unix.SO_EE_ORIGIN_ICMP6)
}
