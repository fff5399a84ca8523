package calls

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// Limits of a call between rails. A router without a route says so within them, and so does the kernel where no
// machine has the address (3 s); a packet that vanishes was sent twice or more.
const (
	railBudget  = 3500 * time.Millisecond
	crossBudget = 1500 * time.Millisecond // of a call that a network of separate rails drops
)

// RailPath is how the rails of this node reach those of another one.
type RailPath struct {
	To    int        `json:"to"`              // rank
	Tried int        `json:"tried"`           // rails
	Lost  []RailCall `json:"lost,omitempty"`  // the same rails of both nodes, without a path
	Cross string     `json:"cross,omitempty"` // of two different rails: "ok", or why there is no path; "": not tried
}

// RailCall is a call over one rail.
type RailCall struct {
	Rail  int               `json:"rail"` // from 0, in the order of the fabric
	Name  string            `json:"name"` // the caller's: "mlx5_2"
	From  string            `json:"from"`
	Addr  string            `json:"addr"`
	Via   string            `json:"via,omitempty"` // its interface
	Cause sidechannel.Cause `json:"cause"`
}

// Rails makes the calls between rails, to the nodes that this one calls anyway. RDMA over Ethernet needs a route
// for each rail, which the calls to the nodes' own addresses do not try. nil makes none.
type Rails struct {
	Node fabric.Node
	Addr netip.Addr // of this node

	mu    sync.Mutex
	paths []RailPath
}

// port is a rail with the address that RDMA uses.
type port struct {
	name, netdev string
	addr         netip.Addr // zero: none that a router forwards
}

// portsOf returns the RoCE rails of a node in their order.
func portsOf(n fabric.Node, addr netip.Addr) (out []port) {
	f := rail.Of(n, addr)
	if f.Kind != rail.RoCE {
		return nil
	}
	for _, p := range rail.PortsOf(n, f) {
		at := port{name: p.Name, netdev: p.Netdev}
		i := slices.IndexFunc(p.Facts.GIDs, func(g fabric.GID) bool { return g.Index == p.GID })
		if i >= 0 && p.GID >= 0 {
			g := p.Facts.GIDs[i]
			at.netdev = cmp.Or(g.Netdev, p.Netdev)
			if _, here := n.InterfaceOf(g.Addr); here && g.Addr.IsGlobalUnicast() {
				at.addr = g.Addr
			}
		}
		out = append(out, at)
	}
	return out
}

// RailAddrs returns the addresses of the RoCE rails of a node in their order, the zero Addr for one without.
// It is empty where the only rail is the node's own address.
func RailAddrs(n fabric.Node, addr netip.Addr) (out []netip.Addr) {
	other := false
	for _, p := range portsOf(n, addr) {
		out = append(out, p.addr)
		other = other || p.addr.IsValid() && p.addr != addr
	}
	if !other {
		return nil
	}
	return out
}

// call calls the rails of a node that has answered, each from the same rail of this one, and one from another rail.
// Where the numbers of rails differ, nothing says which belong together.
func (r *Rails) call(ctx context.Context, keys *tls.Config, to rendezvous.Partner, reported []byte) {
	var peer about
	if r == nil || json.Unmarshal(reported, &peer) != nil || len(peer.Rails) == 0 || r.Node.IsLocal(to.Addr) {
		return
	}
	mine := portsOf(r.Node, r.Addr)
	if len(mine) != len(peer.Rails) {
		return
	}
	path := RailPath{To: to.Rank}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, from := range mine {
		if !from.addr.IsValid() || !peer.Rails[i].IsValid() || from.addr == r.Addr && peer.Rails[i] == to.Addr {
			continue
		}
		path.Tried++
		wg.Go(func() {
			at := netip.AddrPortFrom(peer.Rails[i], uint16(to.Peer))
			cause := r.reach(ctx, keys, from, at, railBudget)
			if cause == "" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			path.Lost = append(path.Lost, RailCall{Rail: i, Name: from.name, From: from.addr.String(), Addr: at.String(),
				Via: from.netdev, Cause: cause})
		})
	}
	if last := len(mine) - 1; last > 0 && mine[0].addr.IsValid() && peer.Rails[last].IsValid() {
		wg.Go(func() {
			at := netip.AddrPortFrom(peer.Rails[last], uint16(to.Peer))
			cause := r.reach(ctx, keys, mine[0], at, crossBudget)
			mu.Lock()
			defer mu.Unlock()
			path.Cross = cmp.Or(string(cause), "ok")
		})
	}
	wg.Wait()
	slices.SortFunc(path.Lost, func(a, b RailCall) int { return a.Rail - b.Rail })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, path)
}

// reach returns why there is no path; "" where there is one, or where a call by TCP says nothing about RDMA: a
// refusal has arrived, and what vanishes within one network is a matter of this machine's firewall.
func (r *Rails) reach(ctx context.Context, keys *tls.Config, from port, to netip.AddrPort,
	limit time.Duration) sidechannel.Cause {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := sidechannel.Probe(ctx, to, keys, sidechannel.Options{From: from.addr, Via: from.netdev})
	i, _ := r.Node.Interface(from.netdev)
	near := slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Contains(to.Addr()) })
	switch cause := sidechannel.CauseOf(err); cause {
	case sidechannel.NoRoute, sidechannel.Broadcast, sidechannel.Blackhole, sidechannel.NoHost:
		return cause
	case sidechannel.Dropped:
		if !near {
			return cause
		}
	}
	return ""
}

// Paths returns what was found, in the order of the nodes.
func (r *Rails) Paths() []RailPath {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.paths, func(a, b RailPath) int { return a.To - b.To })
	return r.paths
}
