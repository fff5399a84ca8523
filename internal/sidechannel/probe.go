package sidechannel

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a call, each within that of the context.
const (
	// Time for three SYN retransmissions, after 1, 3 and 7 s (RFC 6298).
	dialBudget = 8 * time.Second
	// A full listener accepts the next call when one ends; a listener on a busy machine answers late.
	greetBudget = 5 * time.Second
	clockBudget = 5 * time.Second
	// closing is enough to read the counts of a connection.
	closing     = 20 * time.Millisecond
	clockRounds = 4
	// lateAfter is when the first SYN packet of a call was sent again.
	lateAfter = 1100 * time.Millisecond
)

// scales is TCPI_OPT_WSCALE of tcp_info's options (linux/tcp.h).
const scales = 4

// Options are what a call measures, as well as round trip and clock.
type Options struct {
	From  netip.Addr     // this node's address; zero: the kernel's choice
	Via   string         // this node's interface, where the kernel lets this user name it; "": the kernel's choice
	IfMTU int            // bytes, of the interface towards the peer; 0: no MTU probes
	Bulk  int            // bytes each way, at most 1 MiB; 0: none
	About bool           // ask the peer about itself
	Crowd int            // further connections to open at once; 0: none
	Open  netip.AddrPort // of the peer: a port to which this node has a connection; zero: not known
	// Hasty gives up after two SYN retransmissions, 3.5 s: for a path that carried connections a moment ago.
	Hasty bool
}

// Answer is the result of a call. With an error it holds what is known until then.
type Answer struct {
	ID   string        // of the rendezvous.Member that answered
	From netip.Addr    // this side's address, which the kernel chose or Options named
	RTT  time.Duration // the shortest of four
	// Offset is the peer's wall clock minus this node's, plus or minus Uncertainty (half of RTT).
	Offset, Uncertainty time.Duration
	MTU                 MTU
	Bulk                Bulk
	About               []byte  // as passed to Listen; nil: not asked
	Retrans             int     // segments that this side sent again, and that had not arrived; SYN included
	Flows               Flows   // of Options.Crowd
	Ends                Ends    // of these
	Shut                bool    // no SYN was answered, at Options.Open neither
	Speed               float64 // of Bulk's way out, bytes/s, as far as the path limits it; 0: unknown
	Unscaled            bool    // the connection has no window scaling (RFC 7323)
	Offered             bool    // this node offers it (sysctl net.ipv4.tcp_window_scaling)
}

// Probe calls a peer and measures. CauseOf returns the cause of its error. It takes a few round
// trips on a healthy path, and up to about 2 s more if datagrams or segments get lost.
func Probe(ctx context.Context, to netip.AddrPort, keys *tls.Config, opt Options) (Answer, error) {
	var a Answer
	raw, running, err := a.connect(ctx, to, opt)
	if err != nil {
		return a, err
	}
	defer running.end()
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	a.From = raw.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	opened := time.Now()
	_ = raw.SetDeadline(within(ctx, greetBudget))
	c, g, err := greet(raw, keys)
	if err != nil {
		cause, i := talking(ctx, err), TCPInfo(raw)
		a.Retrans = counted(unix.TCPInfo{}, i).Again
		if cause == Reset && i.Unacked > 0 && i.Total_retrans > 0 {
			cause = Silent // it hung up, since none of our bytes arrived
		}
		if cause == Silent && opt.Crowd > 0 {
			a.further(ctx, to, opt, running)
		}
		return a, &failure{cause: cause, err: fmt.Errorf("greet %s: %w", to, ending(ctx, err))}
	}
	a.ID = g.id
	_ = raw.SetDeadline(within(ctx, clockBudget))
	if err := a.askClock(c); err != nil {
		return a, &failure{cause: talking(ctx, err), err: fmt.Errorf("ask %s for its clock: %w", to, ending(ctx, err))}
	}
	if opt.About {
		if a.About, err = askAbout(c); err != nil {
			return a, &failure{cause: talking(ctx, err), err: fmt.Errorf("ask %s about itself: %w", to, ending(ctx, err))}
		}
	}
	var both sync.WaitGroup
	if opt.IfMTU > 0 && g.port != 0 {
		echo := netip.AddrPortFrom(to.Addr(), g.port)
		both.Go(func() { a.MTU = probeMTU(ctx, a.From, echo, g.pass, opt.IfMTU, a.RTT) })
	}
	if opt.Crowd > 0 {
		both.Go(func() { a.further(ctx, to, opt, running) })
	}
	if opt.Bulk > 0 {
		a.load(raw, c, opt.Bulk, opened)
	}
	both.Wait()
	if a.Bulk.Cut { // the listener answers datagrams no longer than it has the connection
		a.MTU = MTU{}
	}
	last := TCPInfo(raw)
	a.Retrans, a.Unscaled = counted(unix.TCPInfo{}, last).Again, last.Options&scales == 0 && last.Rtt > 0
	if a.Unscaled {
		setting, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_window_scaling") // of IPv6, too
		a.Offered = strings.TrimSpace(string(setting)) == "1"
	}
	if err := context.Cause(ctx); err != nil {
		return a, &failure{cause: Unknown, err: fmt.Errorf("measure the network path to %s: %w", to, err)}
	}
	return a, nil
}

// load exchanges a load over a connection that was opened a moment ago. Late, the listener may close it.
func (a *Answer) load(raw *net.TCPConn, c net.Conn, n int, opened time.Time) {
	before := TCPInfo(raw)
	a.Bulk = bulk(raw, c, n)
	if a.Bulk.Cut = a.Bulk.Cut && time.Since(opened) < callBudget-bulkBudget; !a.Bulk.Cut {
		a.Speed = speed(before, TCPInfo(raw))
	}
}

// within returns when a budget is over, shortly before the context ends: then the connection is closed, and its kernel
// no longer says what had to be sent again.
func within(ctx context.Context, budget time.Duration) time.Time {
	end := time.Now().Add(budget)
	if last, ok := ctx.Deadline(); ok && last.Add(-closing).Before(end) {
		return last.Add(-closing)
	}
	return end
}

// connect opens the connection of a call. Where its first SYN packet has no answer, the crowd is opened at once. It
// still runs if the connection opens first, since the listener waits for the hello no longer than helloBudget.
func (a *Answer) connect(ctx context.Context, to netip.AddrPort, opt Options) (c *net.TCPConn, more *crowd, err error) {
	switch {
	case opt.Hasty:
		short, cancel := context.WithTimeout(ctx, knockBudget)
		defer cancel()
		c, err = dial(short, to, opt.From, opt.Via)
		return c, nil, err
	case opt.Crowd == 0:
		c, err = dial(ctx, to, opt.From, opt.Via)
		return c, nil, err
	}
	type answer struct {
		c   *net.TCPConn
		err error
	}
	first, cancel := context.WithCancel(ctx)
	defer cancel()
	dialed := make(chan answer, 1)
	go func() {
		c, err := dial(first, to, opt.From, opt.Via)
		dialed <- answer{c, err}
	}()
	late := time.NewTimer(lateAfter)
	defer late.Stop()
	select {
	case d := <-dialed:
		return d.c, nil, d.err
	case <-late.C:
	}
	more = openCrowd(ctx, to, opt)
	select {
	case d := <-dialed:
		if d.err == nil {
			return d.c, more, nil
		}
		dialed <- d
	case <-more.done:
	}
	<-more.done
	a.Flows, a.Ends, a.Shut = more.flows, more.ends, more.shut
	if good := more.good; len(good) > 0 && len(dialed) == 0 {
		if c, err := dialAgain(ctx, to, good[0], opt.Via); err == nil {
			cancel()
			if d := <-dialed; d.c != nil {
				_ = d.c.SetLinger(0)
				d.c.Close()
			} else {
				a.Flows.Tried, a.Flows.Late, a.Flows.Never = a.Flows.Tried+1, a.Flows.Late+1, a.Flows.Never+1
			}
			return c, nil, nil
		}
	}
	d := <-dialed
	return d.c, nil, d.err
}

// ending returns the context's error if that ended the connection, else err.
func ending(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

func dial(ctx context.Context, to netip.AddrPort, from netip.Addr, via string) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialBudget)
	defer cancel()
	var d net.Dialer
	if from.IsValid() {
		d.LocalAddr, d.Control = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), setNoPort
	}
	if via != "" {
		d.Control = setDevice(via)
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		cause := dialing(ctx, err)
		if cause == NoRoute && errors.Is(byDatagram(to), unix.EACCES) {
			cause = Broadcast
		}
		return nil, &failure{cause: cause, here: refusedHere(to, err), err: err}
	}
	if len(outside(os.DirFS("/proc"))) > 0 {
		_ = c.(*net.TCPConn).SetLinger(0) // its port is needed, and would be in TIME_WAIT for a minute
	}
	return c.(*net.TCPConn), nil
}

// greet sends a hello, inside TLS if there are keys. The deadline includes the handshake.
func greet(raw net.Conn, keys *tls.Config) (net.Conn, greeting, error) {
	c := raw
	if keys != nil {
		t := tls.Client(raw, keys)
		if err := t.Handshake(); err != nil {
			return nil, greeting{}, handshake(keys, err)
		}
		c = t
	}
	if _, err := io.WriteString(c, ask+version); err != nil {
		return nil, greeting{}, err
	}
	hello := make([]byte, helloLen)
	if n, err := io.ReadFull(c, hello); err != nil {
		return nil, greeting{}, short(hello[:n], err)
	}
	if err := checkAnswer(hello); err != nil {
		return nil, greeting{}, err
	}
	g, err := readGreeting(c)
	return c, g, err
}

// short returns the error of an incomplete hello, which may be a stranger's.
func short(hello []byte, err error) error {
	begins := func(word string) bool { return bytes.HasPrefix([]byte(word), hello[:min(len(hello), len(word))]) }
	if len(hello) > 0 && !begins(answer) && !begins(locked) {
		return errNotAPeer
	}
	return err
}

func askAbout(c net.Conn) ([]byte, error) {
	if _, err := c.Write([]byte{opAbout}); err != nil {
		return nil, err
	}
	var n [2]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil, err
	}
	about := make([]byte, min(binary.BigEndian.Uint16(n[:]), MaxAbout))
	_, err := io.ReadFull(c, about)
	return about, err
}

// askClock asks four times; the shortest round trip is the most precise.
func (a *Answer) askClock(c net.Conn) error {
	for i := range clockRounds {
		sent := time.Now()
		if _, err := c.Write([]byte{opClock}); err != nil {
			return err
		}
		theirs := make([]byte, 8)
		if _, err := io.ReadFull(c, theirs); err != nil {
			return err
		}
		rtt := time.Since(sent)
		if i > 0 && rtt >= a.RTT {
			continue
		}
		at := time.Unix(0, int64(binary.BigEndian.Uint64(theirs)))
		a.RTT, a.Uncertainty = rtt, rtt/2
		a.Offset = at.Sub(sent.Add(rtt / 2).Round(0)) // Round(0): by the wall clock
	}
	return nil
}
