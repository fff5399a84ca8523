// Package calls calls some of the other nodes over the side channel and looks up their names, for preflight/peers.
package calls

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/fabric"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// longMessage is sent both ways in each call: many full segments, more than a socket's buffers hold.
	longMessage = 256 << 10
	// fewSegments is sent where it did not arrive, after all other calls: on a slow path these may fill the queue.
	fewSegments = 16 << 10
	// crowd is how many further connections each long call opens at once, as ranks do: a limit on new ones shows.
	crowd = 12
	// crowded is the size of a world from which node rank 0 gets no crowd: all nodes call it.
	crowded = 64
	// lossy is the share of lost segments from which packets that do not arrive are lost whatever their size.
	lossy = 0.02
	// slowPause is before each call that is made again slowly, and slowBudget bounds all of them: a limit on new
	// connections may allow one in a second.
	slowPause, slowBudget = time.Second, 25 * time.Second
	// atOnce bounds the calls of one node at a time, where it calls all others.
	atOnce = 64
)

// Caller makes the calls of one node.
type Caller struct {
	Node  fabric.Node
	Keys  *tls.Config // nil: no token
	All   bool        // call every partner with long messages, node rank 0 too
	Port  bool        // call the port of the job's own store
	Names Names       // the system's resolver and name servers; the zero value looks up no names
	Rails *Rails      // calls the rails of the same nodes; nil: none
	// Store is the address of the store to which this node has a connection; zero: not known.
	Store netip.AddrPort
	// Hosts is the address at which this node hosts the store, to which all others have connections; zero: it does not.
	Hosts  netip.Addr
	Tables Tables
}

// Make calls the partners and node rank 0 of a world: whether each answers under its own ID, whether long messages
// arrive, and the time of its clock. Partners are few, so that it takes as long at any number of nodes.
func (c Caller) Make(ctx context.Context, w rendezvous.World, partners []rendezvous.Partner) ([]Call, Found, error) {
	others := slices.Clone(partners)
	if !slices.ContainsFunc(others, func(p rendezvous.Partner) bool { return p.Rank == 0 }) {
		others = append(others, w.Master.Partner(0))
	}
	others = slices.DeleteFunc(others, func(p rendezvous.Partner) bool { return p.Rank == w.Rank })
	names := &lookup{Names: c.Names, node: c.Node, found: Found{Host: c.Node.Hostname}}
	var out []Call
	var suspects []int // indexes of out
	lossOf := map[int]func(*Call){}
	var mu sync.Mutex
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, p := range others {
		// All nodes call rank 0: only its partners send it long messages.
		long := p.Rank != 0 || c.All || slices.ContainsFunc(w.Partners,
			func(o rendezvous.Partner) bool { return o.Rank == 0 })
		for _, addr := range append([]netip.Addr{p.Addr}, p.Addrs...) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				crowds := long && !c.All && (p.Rank != 0 || w.Size < crowded)
				opt := c.options(addr, crowds)
				opt.From = sourceFor(ctx, c.Node, w.Self.Addr, addr)
				made, about, again := call(ctx, c.Node, p, addr, c.Keys, long, opt)
				if i, has := c.Node.InterfaceOf(addr); has && made.Failed() && addr != w.Self.Addr {
					made.Own = i.Name
				}
				names.check(ctx, p, about)
				c.Rails.call(ctx, c.Keys, p, about)
				mu.Lock()
				defer mu.Unlock()
				out = append(out, made)
				if again != nil {
					suspects = append(suspects, len(out)-1)
					lossOf[len(out)-1] = again
				}
			})
		}
	}
	if c.Port && w.Rank != 0 {
		wg.Go(func() {
			made := knock(ctx, w.Master, sourceFor(ctx, c.Node, w.Self.Addr, w.Master.Addr))
			mu.Lock()
			defer mu.Unlock()
			out = append(out, made)
		})
	}
	wg.Wait()
	for _, i := range suspects { // now that long messages of this node fill no queue
		wg.Go(func() { lossOf[i](&out[i]) })
	}
	wg.Wait()
	c.again(ctx, w, others, names, out)
	c.own(out)
	return out, names.result(), context.Cause(ctx)
}

// options returns how an address is called, with a crowd or without.
func (c Caller) options(addr netip.Addr, crowds bool) (opt sidechannel.Options) {
	if !crowds {
		return opt
	}
	opt.Crowd = crowd
	if c.Store.Addr() == addr {
		opt.Open = c.Store
	}
	return opt
}

// call makes one call. A long one also sends long messages and full packets, and asks the other node for its About.
func call(ctx context.Context, n fabric.Node, to rendezvous.Partner, addr netip.Addr, keys *tls.Config,
	long bool, opt sidechannel.Options) (c Call, about []byte, loss func(*Call)) {
	at := netip.AddrPortFrom(addr, uint16(to.Peer))
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	c = Call{To: to.Rank, Addr: at.String(), Also: addr != to.Addr, from: opt.From}
	var leaves fabric.Interface
	if long {
		leaves = interfaceTo(ctx, n, at)
		c.IfMTU = leaves.MTU
		opt.IfMTU, opt.Bulk, opt.About = c.IfMTU, longMessage, !c.Also
	}
	got, err := sidechannel.Probe(ctx, at, keys, opt)
	if sidechannel.CauseOf(err) == sidechannel.Reset { // once more: a listener closes the connection of a late caller
		got, err = sidechannel.Probe(ctx, at, keys, opt)
	}
	c.Flows, c.ends, c.Shut = got.Flows, got.Ends, got.Shut
	if err != nil && got.RTT == 0 { // else it has answered, and only the rest took too long
		c.Cause, c.Err, c.Here = sidechannel.CauseOf(err), err.Error(), sidechannel.Here(err)
		return c, nil, nil
	}
	if got.ID != to.ID {
		c.Other = got.ID
		return c, nil, nil
	}
	c.RTT, c.Offset, c.Doubt = got.RTT, got.Offset, max(got.Uncertainty, time.Microsecond)
	c.Stall, c.Speed, c.Unscaled, c.Offered = stalled(got, c.IfMTU), got.Speed, got.Unscaled, got.Offered
	if got.MTU.Answered {
		c.MTU, c.Hole = min(got.MTU.Out, got.MTU.Back), got.MTU.BlackHole()
	}
	if c.Stall != "" || c.Hole {
		c.Iface = leaves.Name
	}
	if got.Bulk.Cut {
		c.Cut = cut(sidechannel.Probe(ctx, at, keys, sidechannel.Options{From: opt.From, Bulk: opt.Bulk}))
	}
	// Where new connections do not open, one more would wait for that, and count no packets.
	if long && got.Suspect() && !c.ByPort() && !c.Limited() {
		loss = func(c *Call) {
			ctx, cancel := context.WithTimeout(whole, Budget)
			defer cancel()
			c.count(sidechannel.CountLoss(ctx, at, keys, sidechannel.Options{From: opt.From}))
			again := func(size int) (sidechannel.Answer, bool) {
				more, err := sidechannel.Probe(ctx, at, keys, sidechannel.Options{From: opt.From, Bulk: size})
				return more, err == nil
			}
			if c.Stall == "" {
				c.Speed = fastest(c.Speed, func() (sidechannel.Answer, bool) { return again(longMessage) })
				return
			}
			if more, ok := again(fewSegments); ok {
				more.MTU = got.MTU
				c.Stall = stalled(more, c.IfMTU)
			}
		}
	}
	return c, got.About, loss
}

// cut returns after how many bytes of a second call's long message the connection was closed; 0: it was not, or the
// other node has ended.
func cut(a sidechannel.Answer, err error) int {
	if err != nil || !a.Bulk.Cut {
		return 0
	}
	return max(1, a.Bulk.Out.Arrived+a.Bulk.Back.Arrived)
}

// count takes the loss of small packets. Where packets of any size are lost, their length is not the reason.
func (c *Call) count(l sidechannel.Loss) {
	if l.Cut && l.Sent == 0 && c.Never > 0 && !c.Lossy() {
		return // one more connection that did not open
	}
	if c.Lost = l.Share(); c.Lost >= lossy {
		c.Stall, c.Hole, c.Iface = "", false, ""
	}
}

// knock calls the port that node rank 0 holds for the job's own store.
func knock(ctx context.Context, m rendezvous.Member, from netip.Addr) Call {
	at := netip.AddrPortFrom(m.Addr, uint16(m.Port))
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	c := Call{Addr: at.String(), Port: true, from: from}
	id, err := sidechannel.Knock(ctx, at, from)
	switch {
	case err != nil:
		c.Cause, c.Err, c.Here = sidechannel.CauseOf(err), err.Error(), sidechannel.Here(err)
	case id != m.ID:
		c.Other = id
	}
	return c
}

// stalled returns the direction in which a long message did not arrive. A process that sends late, because it is
// stopped or has no processor, looks like a path that loses data; only a lossy path loses full packets too. The
// other node calls this one as well, so its "there" covers a path that loses only long messages.
func stalled(a sidechannel.Answer, ifMTU int) string {
	switch {
	case a.Bulk.Out.Stalled && a.Bulk.Out.Arrived < ifMTU/2: // else a full segment has arrived, and the path is slow
		return "there"
	case a.Bulk.Back.Stalled && a.MTU.Answered && a.MTU.Back < a.MTU.Tried:
		return "back"
	}
	return ""
}

// sourceFor returns this node's address from which a library that uses the interface in the network of a peer's
// would call. The zero Addr is the kernel's choice: where there is none, and where the route to the peer leaves
// from that network anyway, or from this node's own address for the others. Another address would be dropped by a
// strict rp_filter there.
func sourceFor(ctx context.Context, n fabric.Node, own, peer netip.Addr) (source netip.Addr) {
	routed := sourceTo(ctx, netip.AddrPortFrom(peer, 9))
	if routed == own {
		return netip.Addr{}
	}
	for _, i := range n.Interfaces {
		for _, p := range i.Addrs {
			switch {
			case !i.Up || !p.Contains(peer):
			case p.Addr() == routed:
				return netip.Addr{}
			case !source.IsValid():
				source = p.Addr()
			}
		}
	}
	return source
}

// interfaceTo returns the interface that packets to a peer leave by; the zero Interface: not known.
func interfaceTo(ctx context.Context, n fabric.Node, to netip.AddrPort) fabric.Interface {
	i, _ := n.InterfaceOf(sourceTo(ctx, to))
	return i
}

// sourceTo returns the address from which the kernel sends to a peer. Connecting a datagram socket asks it for the
// route, and sends nothing.
func sourceTo(ctx context.Context, to netip.AddrPort) netip.Addr {
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", to.String())
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
