package sidechannel

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// knockBudget allows two SYN retransmissions, after 1 and 3 s (RFC 6298).
	knockBudget = 3500 * time.Millisecond
	// againBudget allows one, where connections are tried again.
	againBudget = 1500 * time.Millisecond
	// rest is the pause before that, in which a firewall takes notice of connections that have ended.
	rest = 200 * time.Millisecond
	// ahead is by how much those without an answer are tried again before the others.
	ahead = 30 * time.Millisecond
)

// Flows counts connections to one port that are opened at once, from different ports of this node.
type Flows struct {
	Tried   int   `json:"tried,omitempty"`
	Late    int   `json:"late,omitempty"`    // those whose first SYN packet was not answered, or refused
	Never   int   `json:"never,omitempty"`   // of these, those that were not open within 3.5 s
	Refused int   `json:"refused,omitempty"` // of these, those that were refused
	Again   Retry `json:"again,omitempty"`   // "": not tried again
}

// Ends are this node's ends of connections that were tried again. Only of those the ports decide by which next hop the
// kernel sends: for one that had no port before, it may choose first.
type Ends struct {
	Unopened, Opened []netip.AddrPort // of those that did not open, and of those that did at once
}

// Retry is the result of connections that were tried again from the same ports: first those that had not opened.
type Retry string

// The results.
const (
	Same   Retry = "same"   // exactly those that had not opened did not open again: the ports decide
	Others Retry = "others" // others did not open, or no one: their number or the time decides, or chance
	All    Retry = "all"    // all opened
)

// ByPort reports whether the ports of a connection decide if it opens. Packets that are lost by chance look different:
// some that are sent again arrive. A network path that drops packets refuses no connection.
func (f Flows) ByPort() bool {
	return f.Again == Same && f.Late == f.Never && f.Never < f.Tried && f.Refused == 0
}

// Limited reports whether new connections are dropped or refused, also when they are tried again.
func (f Flows) Limited() bool {
	return f.Late == f.Never && (f.Again == Others || f.Again == Same && f.Refused > 0)
}

// Lossy reports whether SYN packets are dropped, and several arrive that are sent again: by chance, or by a limit that
// time lifts.
func (f Flows) Lossy() bool { return f.Late-f.Never > 1 }

// And returns the counts of two sets of connections together, none of which was tried again.
func (f Flows) And(g Flows) Flows {
	return Flows{Tried: f.Tried + g.Tried, Late: f.Late + g.Late, Never: f.Never + g.Never, Refused: f.Refused + g.Refused}
}

// OpenFlows opens n connections to a port at once, and holds them until all are open or 3.5 s are over. Where some do
// not open, it tries each again from the port that it had.
func OpenFlows(ctx context.Context, to netip.AddrPort, opt Options, n int) (Flows, Ends) {
	f, _, ends := openFlows(ctx, to, opt, n)
	return f, ends
}

// TryFlows opens n connections to a port at once, and holds them until all are open or the time is over.
func TryFlows(ctx context.Context, to netip.AddrPort, opt Options, n int, budget time.Duration) Flows {
	f, _, _ := tryFlows(ctx, to, opt, mixed(to, opt, n), budget)
	return f
}

// mixed returns n connections to open, from even ports and odd ones: connect(2) chooses even ones first, and bind(2)
// odd ones. A path of several members divides connections by their ports.
func mixed(to netip.AddrPort, opt Options, n int) []attempt {
	all, own := make([]attempt, n), opt.From
	if !own.IsValid() {
		if own = netip.IPv4Unspecified(); to.Addr().Unmap().Is6() {
			own = netip.IPv6Unspecified()
		}
	}
	for i := range all {
		if i%2 == 1 {
			all[i].own = netip.AddrPortFrom(own, 0)
		}
	}
	return all
}

// openFlows also returns the ends of this node from which a connection opened at once, at the first try.
func openFlows(ctx context.Context, to netip.AddrPort, opt Options, n int) (f Flows, good []netip.AddrPort, ends Ends) {
	f, good, bad := tryFlows(ctx, to, opt, make([]attempt, n), knockBudget)
	if f.Never == 0 {
		return f, good, ends
	}
	select {
	case <-time.After(rest):
		f.Again, ends = again(ctx, to, opt, bad, good)
	case <-ctx.Done():
	}
	return f, good, ends
}

// tryFlows also returns the ends of this node from which a connection opened at once, and those from which none opened.
func tryFlows(ctx context.Context, to netip.AddrPort, opt Options, all []attempt, budget time.Duration) (f Flows, good,
	bad []netip.AddrPort) {
	burst(ctx, to, opt, all, budget)
	for _, one := range all {
		switch {
		case one.failed:
			continue
		case !one.open:
			f.Late++
			f.Never++
			if one.refused {
				f.Refused++
			}
			bad = append(bad, one.own)
		case one.late:
			f.Late++
		default:
			good = append(good, one.own)
		}
		f.Tried++
	}
	return f, good, bad
}

// crowd are the further connections of a call whose own has no answer yet.
type crowd struct {
	stop  context.CancelFunc
	done  chan struct{} // closed when the rest is known
	flows Flows
	good  []netip.AddrPort // ends of this node from which one opened at once
	ends  Ends
	shut  bool // none opened, at Options.Open neither
}

// openCrowd begins to open them.
func openCrowd(ctx context.Context, to netip.AddrPort, opt Options) *crowd {
	ctx, stop := context.WithCancel(ctx)
	c := &crowd{stop: stop, done: make(chan struct{})}
	known := make([]attempt, 2)
	var both sync.WaitGroup
	if opt.Open.IsValid() {
		both.Go(func() { burst(ctx, opt.Open, opt, known, knockBudget) })
	}
	both.Go(func() { c.flows, c.good, c.ends = openFlows(ctx, to, opt, opt.Crowd) })
	silent := func(one attempt) bool { return !one.open && !one.refused && !one.failed }
	go func() {
		defer close(c.done)
		both.Wait()
		c.shut = opt.Open.IsValid() && c.flows.Tried > 0 && c.flows.Never == c.flows.Tried && silent(known[0]) &&
			silent(known[1])
	}()
	return c
}

// end ends the attempts; c may be nil.
func (c *crowd) end() {
	if c != nil {
		c.stop()
		<-c.done
	}
}

// further takes the result of the crowd that is still running, or opens one if none was.
func (a *Answer) further(ctx context.Context, to netip.AddrPort, opt Options, running *crowd) {
	switch {
	case running != nil:
		<-running.done
		a.Flows, a.Ends = running.flows, running.ends
	case a.Flows.Tried == 0:
		a.Flows, a.Ends = OpenFlows(ctx, to, opt, opt.Crowd)
	}
}

// dialAgain opens a connection from an end of this node that a connection had before.
func dialAgain(ctx context.Context, to, own netip.AddrPort, via string) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, againBudget)
	defer cancel()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(own)}
	if via != "" {
		d.Control = setDevice(via)
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// again opens connections from ports where none opened, and shortly after from those where one did.
func again(ctx context.Context, to netip.AddrPort, opt Options, bad, good []netip.AddrPort) (r Retry, ends Ends) {
	first, second := from(bad), from(good)
	var both sync.WaitGroup
	both.Go(func() { burst(ctx, to, opt, first, againBudget) })
	both.Go(func() {
		select {
		case <-time.After(ahead):
			burst(ctx, to, opt, second, againBudget-ahead)
		case <-ctx.Done():
		}
	})
	both.Wait()
	if ctx.Err() != nil {
		return "", ends
	}
	for _, one := range slices.Concat(first, second) {
		switch {
		case one.failed:
		case !one.open:
			ends.Unopened = append(ends.Unopened, one.own)
		case !one.late:
			ends.Opened = append(ends.Opened, one.own)
		}
	}
	return compare(first, second), ends
}

// compare returns what connections show that were tried again; "": too few of them could be.
func compare(first, second []attempt) Retry {
	made := func(all []attempt) (out []attempt) {
		for _, one := range all {
			if !one.failed { // else its port may be in use
				out = append(out, one)
			}
		}
		return out
	}
	first, second = made(first), made(second)
	silent, lost := 0, 0
	for _, one := range first {
		if !one.open {
			silent++
		}
	}
	for _, one := range second {
		if !one.open || one.late {
			lost++
		}
	}
	switch {
	case len(first) == 0:
		return ""
	case silent == 0 && lost == 0:
		return All
	case silent == len(first) && lost == 0 && len(second) > 0:
		return Same
	}
	return Others
}

// from returns connections to open from the given ends.
func from(own []netip.AddrPort) []attempt {
	all := make([]attempt, len(own))
	for i, at := range own {
		all[i].own = at
	}
	return all
}
