package sidechannel

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// soundBudget bounds all MTU probes. Each size is sent up to three times, a gap apart.
	soundBudget    = 1500 * time.Millisecond
	soundTries     = 3
	gapMin, gapMax = 110 * time.Millisecond, 400 * time.Millisecond
	// smallSize is an IP packet that every path takes (IPv4 is nowhere below 576).
	smallSize = 128
	// finer is how many sizes divide the gap between what passed and what did not.
	finer = 16
	// maxPacket is the largest size in an IPv4 header.
	maxPacket = 65535
)

// usual returns common limits of paths, as sizes of IP packets: tunnels in 1500 (WireGuard 1420, VXLAN
// 1450, GRE 1476, PPPoE 1492), IPoIB (2044, 4092), clouds (8500, 8896, 9001), and jumbo frames.
func usual() []int {
	return []int{576, 1000, 1280, 1340, 1380, 1400, 1420, 1430, 1440, 1450, 1460, 1472, 1476, 1480, 1492, 1500,
		1600, 2044, 3000, 4092, 6000, 8000, 8192, 8500, 8896, 8920, 8950, 8976, 9000, 9001, 9100, 9198, 9214, 9216,
		16000, 32000, 65520}
}

// MTU is which sizes of IP packets pass unfragmented. Sizes are of the whole packet, in bytes.
type MTU struct {
	// Answered: a small datagram was answered. Else a filter may drop UDP, or the peer has no socket.
	Answered bool
	Tried    int // the largest that was sent: Options.IfMTU, or less if the interface takes less
	Out      int // the largest that arrived there; less than Tried: the path there takes no more
	Back     int // the largest that arrived there and whose answer of the same size arrived here
	// Reported is the limit that a router on the path there reported; 0: none. TCP follows it.
	Reported int
}

// BlackHole reports whether large packets vanish silently where small ones pass. If only the path back
// takes less, routers report that to the peer: a load that arrives shows that it follows.
func (m MTU) BlackHole() bool { return m.Answered && m.Back < m.Tried && m.Reported == 0 }

// sounding is one series of probes.
type sounding struct {
	conn   *net.UDPConn
	pass   pass
	header int // bytes of IP and UDP
	gap    time.Duration
	end    time.Time
	news   chan struct{}

	mu             sync.Mutex
	there, back    map[int]bool // sizes of packets
	here, reported int
	again          int // how often sizes were sent again since the first answer
}

// probeMTU measures the path from an address of this node to a peer's UDP port.
func probeMTU(ctx context.Context, from netip.Addr, to netip.AddrPort, p pass, ifMTU int, rtt time.Duration) MTU {
	ctx, cancel := context.WithTimeout(ctx, soundBudget)
	defer cancel()
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Control: setSounding}
	c, err := d.DialContext(ctx, "udp", to.String())
	if err != nil {
		return MTU{}
	}
	s := &sounding{conn: c.(*net.UDPConn), pass: p, header: 28, gap: min(max(2*rtt, gapMin), gapMax),
		news: make(chan struct{}, 1), there: map[int]bool{}, back: map[int]bool{}}
	if to.Addr().Unmap().Is6() {
		s.header = 48
	}
	s.end, _ = ctx.Deadline()
	listening := make(chan struct{})
	go func() { defer close(listening); s.listen() }()
	m := s.sound(ctx, min(ifMTU, maxPacket))
	s.conn.Close()
	<-listening
	if m.BlackHole() && s.again < soundTries-1 {
		return MTU{} // late is not lost: answers to small ones have only just begun to arrive
	}
	return m
}

// sound finds the largest packets: the interface's size, then usual ones, then those in between.
func (s *sounding) sound(ctx context.Context, full int) MTU {
	small := min(smallSize, full)
	s.round(ctx, []int{small, full})
	m := s.result(full)
	if !m.Answered || m.Back == m.Tried {
		return m
	}
	sizes := append(usual(), m.Reported, m.Tried)
	slices.Sort(sizes)
	sizes = slices.DeleteFunc(slices.Compact(sizes), func(n int) bool { return n <= small || n > m.Tried })
	s.round(ctx, sizes)
	if m = s.result(full); m.Back == least(m.Tried, m.Reported) || ctx.Err() != nil {
		return m
	}
	above := m.Tried
	for _, n := range slices.Backward(sizes) {
		if n > m.Back {
			above = n
		}
	}
	var between []int
	for i := 1; i <= finer; i++ {
		if n := m.Back + (above-m.Back)*i/(finer+1); n > m.Back {
			between = append(between, n)
		}
	}
	s.round(ctx, slices.Compact(append(between, m.Tried)))
	return s.result(full)
}

// result returns what is known by now. A router's report may be late, so it reads the queue once more.
func (s *sounding) result(full int) MTU {
	s.heed()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := MTU{Answered: len(s.back) > 0, Tried: least(full, s.here), Reported: s.reported}
	for n := range s.there {
		m.Out = max(m.Out, n)
	}
	for n := range s.back {
		m.Back = max(m.Back, n)
	}
	return m
}

// round sends every size until it is answered, three times at most.
func (s *sounding) round(ctx context.Context, sizes []int) {
	for try := range soundTries {
		var left []int
		s.mu.Lock()
		if len(s.there) > 0 && try > 0 {
			s.again++
		}
		s.mu.Unlock()
		for _, n := range sizes {
			if there, settled := s.known(n); !settled {
				left = append(left, n)
				s.send(n, n)
				if try > 0 && !there { // perhaps only the path back fails
					s.send(n, min(n, smallSize))
				}
			}
		}
		if !s.await(ctx, left) {
			return
		}
	}
}

// known reports whether a size has arrived, and whether it was answered or refused.
func (s *sounding) known(n int) (there, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := least(s.here, s.reported)
	return s.there[n], s.back[n] || most != 0 && n > most
}

// await waits one gap; false: all sizes are settled, or the time is over.
func (s *sounding) await(ctx context.Context, sizes []int) bool {
	gap := time.NewTimer(s.gap)
	defer gap.Stop()
	for {
		if !slices.ContainsFunc(sizes, func(n int) bool { _, settled := s.known(n); return !settled }) {
			return false
		}
		select {
		case <-s.news:
		case <-gap.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// send sends a packet of n bytes and requests one of back bytes. An error may be an earlier packet's.
func (s *sounding) send(n, back int) {
	d := datagram{size: n - s.header, want: back - s.header, pass: s.pass}
	if d.want < datagramLen {
		return
	}
	for range 2 {
		if _, err := s.conn.Write(d.encode(question, d.size)); err == nil {
			return
		}
		s.heed()
	}
}

// heed notes the reports of the interface and of routers.
func (s *sounding) heed() {
	here, reported := tooBig(s.conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here, s.reported = least(s.here, here), least(s.reported, reported)
}

// listen notes the answers until the socket is closed or the time is over.
func (s *sounding) listen() {
	_ = s.conn.SetReadDeadline(s.end)
	in := make([]byte, 1<<16)
	for time.Now().Before(s.end) {
		n, err := s.conn.Read(in)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			s.heed()
			continue
		}
		if d, ok := parseDatagram(reply, in[:n]); ok && d.pass == s.pass {
			s.mu.Lock()
			s.there[d.size+s.header] = true
			if d.size == d.want {
				s.back[d.size+s.header] = true
			}
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
		}
	}
}
