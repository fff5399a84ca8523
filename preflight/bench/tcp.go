package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The following limit what the other end may request, and the waits in addition to the measurement itself.
const (
	maxStreams = 64
	// joinBudget limits the connections of the streams of one direction: one lost SYN costs a second (RFC 6298).
	joinBudget = 1500 * time.Millisecond
	// lateBudget is the extra time of a direction on a machine without an idle processor.
	lateBudget = time.Second
	// overBudget is the time of sending beyond counting, since the ends start at different moments.
	overBudget = 100 * time.Millisecond
	ticketLen  = 16
)

// TCP measures over connections between the addresses of two rails, each bound to its rail's interface. It counts
// the data without reading it: TCP has its checksum, and a copy would measure the receiver's memory.
func TCP() Measurer {
	return Measurer{Kind: "tcp", Can: func(p Port) bool { return p.Net.IsValid() }, Run: runTCP}
}

// door is what the answering end sends the leader: where its streams connect, and their ticket.
type door struct {
	At     netip.AddrPort `json:"at"`
	Ticket []byte         `json:"ticket"`
	Err    string         `json:"err,omitempty"`
}

// seen is what an end knows of the two directions after them.
type seen struct {
	Sent, Got Flow
	Result    Result
	Err       string
}

// runTCP is one side. Each direction has streams of its own, and closing them drops what
// was not sent in time: no data has to drain, however slow the path is.
func runTCP(ctx context.Context, t Test, say Exchange) (Result, error) {
	t.Streams = min(max(t.Streams, 1), maxStreams)
	var mine door
	var l *net.TCPListener
	if !t.Lead {
		var err error
		if l, err = listenOn(ctx, t.Port); err != nil {
			mine.Err = err.Error()
		} else {
			defer l.Close()
			mine.At, mine.Ticket = l.Addr().(*net.TCPAddr).AddrPort(), make([]byte, ticketLen)
			_, _ = rand.Read(mine.Ticket)
		}
	}
	theirs, err := swap(ctx, say, mine)
	switch {
	case err != nil:
		return Result{}, err
	case mine.Err != "" || theirs.Err != "":
		return Result{}, fmt.Errorf("open a port for the streams: %s", cmp.Or(mine.Err, theirs.Err))
	}
	var s seen
	err = s.measure(ctx, t, func() ([]*net.TCPConn, error) {
		if t.Lead {
			return connect(ctx, t, theirs)
		}
		return admit(ctx, l, t.Streams, mine.Ticket)
	})
	if err != nil {
		s.Err = err.Error()
	}
	other, cut := swap(ctx, say, s)
	switch {
	case err != nil:
		return Result{}, err
	case cut != nil:
		return Result{}, cut
	case other.Err != "":
		return Result{}, errors.New(other.Err)
	}
	// The sender knows the retransmissions, the receiver the bytes that arrived.
	out := s.Result
	if !t.Lead {
		out = other.Result
	}
	out.Out, out.Back = s.Sent, other.Sent
	out.Out.Speed, out.Back.Speed = other.Got.Speed, s.Got.Speed
	return out, nil
}

func swap[T any](ctx context.Context, say Exchange, mine T) (theirs T, err error) {
	b, err := json.Marshal(mine)
	if err != nil {
		return theirs, err
	}
	if b, err = say(ctx, b); err != nil {
		return theirs, err
	}
	return theirs, json.Unmarshal(b, &theirs)
}

// measure measures latency first, on the idle path, then the direction from the leader, then the other one.
func (s *seen) measure(ctx context.Context, t Test, open func() ([]*net.TCPConn, error)) error {
	for _, fromLead := range []bool{true, false} {
		streams, err := open()
		if err != nil {
			return err
		}
		switch {
		case fromLead && t.Lead:
			s.Result, err = ping(streams[0], t.Pings)
		case fromLead:
			err = pong(streams[0])
		}
		switch {
		case err != nil:
		case fromLead == t.Lead:
			s.Sent, err = send(ctx, streams, t.Warm+t.Span+overBudget)
		default:
			s.Got, err = receive(ctx, streams, t.Warm, t.Span)
		}
		cut(streams)
		if err != nil {
			return err
		}
	}
	return nil
}

// bound binds a socket to a rail's interface, since two rails in one network would otherwise both use
// the first of them. Before Linux 5.7 only root may do that; otherwise the address must suffice.
func bound(p Port, c syscall.RawConn) error {
	if p.Netdev == "" {
		return nil
	}
	return c.Control(func(fd uintptr) { _ = unix.BindToDevice(int(fd), p.Netdev) })
}

func listenOn(ctx context.Context, p Port) (*net.TCPListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return bound(p, c) }}
	l, err := lc.Listen(ctx, "tcp", netip.AddrPortFrom(p.Net.Addr(), 0).String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// connect opens the streams of a direction. The other side answers each, so all exist when the clock starts.
func connect(ctx context.Context, t Test, to door) ([]*net.TCPConn, error) {
	ctx, stop := context.WithTimeout(ctx, joinBudget)
	defer stop()
	d := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(t.Port.Net.Addr(), 0)),
		Control:   func(_, _ string, c syscall.RawConn) error { return bound(t.Port, c) },
	}
	streams, errs := make([]*net.TCPConn, t.Streams), make([]error, t.Streams)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			c, err := d.DialContext(ctx, "tcp", to.At.String())
			if err != nil {
				errs[i] = err
				return
			}
			streams[i] = c.(*net.TCPConn)
			deadline, _ := ctx.Deadline()
			_ = c.SetDeadline(deadline)
			if _, err = c.Write(append(to.Ticket[:len(to.Ticket):len(to.Ticket)], byte(i))); err == nil {
				_, err = io.ReadFull(c, make([]byte, 1))
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := cmp.Or(errs...); err != nil { // the first
		cut(streams)
		return nil, fmt.Errorf("connect %s to %s: %w", t.Port.Name, to.At, err)
	}
	return streams, nil
}

// admit accepts the streams of a direction and hangs up on others, which lack the ticket.
func admit(ctx context.Context, l *net.TCPListener, n int, ticket []byte) ([]*net.TCPConn, error) {
	end := time.Now().Add(joinBudget + lateBudget)
	_ = l.SetDeadline(end)
	defer context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })()
	streams := make([]*net.TCPConn, n)
	for have := 0; have < n; {
		c, err := l.AcceptTCP()
		if err != nil {
			cut(streams)
			return nil, fmt.Errorf("wait for %d streams at %s, got %d: %w", n, l.Addr(), have, err)
		}
		_ = c.SetDeadline(end)
		word := make([]byte, ticketLen+1)
		_, err = io.ReadFull(c, word)
		i := int(word[ticketLen])
		if err != nil || subtle.ConstantTimeCompare(word[:ticketLen], ticket) != 1 || i >= n || streams[i] != nil {
			c.Close()
			continue
		}
		streams[i] = c
		have++
	}
	for _, c := range streams {
		if _, err := c.Write([]byte{1}); err != nil {
			cut(streams)
			return nil, err
		}
	}
	return streams, nil
}

// cut ends streams with all data that they hold.
func cut(streams []*net.TCPConn) {
	for _, c := range streams {
		if c != nil {
			_ = c.SetLinger(0)
			c.Close()
		}
	}
}
