package calls

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"launch/fabric"
	"launch/internal/dns"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// nameBudget bounds a lookup by the system's resolver, as in the check of the store's name.
	nameBudget = 2 * time.Second
	// namePatience is the time after which the name servers are asked one by one: some are silent, others slow.
	namePatience = 300 * time.Millisecond
	// aboutAddrs bounds the addresses in a node's About, so that they fit into sidechannel.MaxAbout.
	aboutAddrs = 12
)

// about is what a node reports about itself to the nodes that call it.
type about struct {
	Host  string       `json:"host"`
	Addrs []netip.Addr `json:"addrs,omitempty"` // to which its name may resolve
	Rails []netip.Addr `json:"rails,omitempty"` // of its RoCE rails, in their order
}

// About returns what a node with addr reports about itself to the nodes that call it.
func About(n fabric.Node, addr netip.Addr) []byte {
	out := about{Host: n.Hostname, Rails: RailAddrs(n, addr)}
	for _, i := range n.Interfaces {
		for _, p := range i.Addrs {
			if a := p.Addr(); i.Up && a.IsGlobalUnicast() && len(out.Addrs) < aboutAddrs {
				out.Addrs = append(out.Addrs, a)
			}
		}
	}
	text, _ := json.Marshal(out)
	if len(text) > sidechannel.MaxAbout {
		out.Rails = nil
		text, _ = json.Marshal(out)
	}
	return text
}

// lookup looks up the names of a few other nodes.
type lookup struct {
	Names
	node fabric.Node

	mu    sync.Mutex
	found Found
}

// Names is how names are looked up; the zero value looks up no names.
type Names struct {
	InHosts func(name string) bool // whether /etc/hosts has it
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Servers dns.Config
}

// check looks up the name that a node reports, and records whether it leads there.
func (n *lookup) check(ctx context.Context, to rendezvous.Partner, reported []byte) {
	var peer about
	if json.Unmarshal(reported, &peer) != nil || peer.Host == "" || n.node.IsLocal(to.Addr) {
		return // another launch on this machine
	}
	if strings.EqualFold(peer.Host, n.node.Hostname) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.found.Alike = append(n.found.Alike, to.Rank)
		return
	}
	if n.Resolve == nil {
		return
	}
	addrs, known, mute := n.addrs(ctx, peer.Host)
	hosts := len(addrs) > 0 && n.InHosts(peer.Host)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case mute != "":
		n.found.Mute = mute
	case len(addrs) > 0 && !hosts:
		n.found.Known = append(n.found.Known, to.Rank)
	case len(addrs) == 0 && known:
		n.found.Unknown = append(n.found.Unknown, to.Rank)
	}
	own := append(peer.Addrs, to.Addr)
	if len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(own, a) }) {
		n.found.Strays = append(n.found.Strays, Stray{To: to.Rank, Addr: addrs[0], Hosts: hosts,
			Near: n.near(to.Addr, addrs[0])})
	}
}

// addrs returns the addresses of a name; known: it surely has none; mute: why no name server has answered.
func (n *lookup) addrs(ctx context.Context, name string) (addrs []netip.Addr, known bool, mute string) {
	ctx, cancel := context.WithTimeout(ctx, nameBudget)
	defer cancel()
	type answer struct {
		addrs []netip.Addr
		err   error
	}
	asked := make(chan answer, 1) // buffered, so that a late answer blocks no goroutine
	go func() {
		addrs, err := n.Resolve(ctx, name)
		asked <- answer{addrs, err}
	}()
	settled := func(a answer) bool {
		if e, ok := errors.AsType[*net.DNSError](a.err); ok && e.IsNotFound {
			known = len(n.Servers.Servers) > 0
			return true
		}
		addrs = a.addrs
		return a.err == nil
	}
	select {
	case a := <-asked:
		if settled(a) {
			return addrs, known, ""
		}
	case <-time.After(namePatience):
	}
	answers := n.Servers.Survey(ctx, name)
	select {
	case a := <-asked:
		if settled(a) {
			return addrs, known, ""
		}
	default:
	}
	return nil, false, silence(answers)
}

// silence returns why no name server answers; "" where one does, or where none is
// configured: without a line in resolv.conf it is this machine, on which none runs.
func silence(answers []dns.Said) string {
	var why []string
	for _, s := range answers {
		first := dns.Answer{Says: dns.Silent}
		if len(s.Answers) > 0 {
			first = s.Answers[0]
		}
		if first.Says.Definite() || first.Says == dns.Unreachable && len(answers) == 1 &&
			s.Server.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			return ""
		}
		why = append(why, s.Server.Addr().String()+" says "+string(first.Says))
	}
	return strings.Join(why, ", ")
}

// near reports whether an address is in the network of this node in which it calls another.
func (n *lookup) near(called, other netip.Addr) bool {
	both := func(p netip.Prefix) bool { return p.Contains(called) && p.Contains(other) }
	return slices.ContainsFunc(n.node.Interfaces, func(i fabric.Interface) bool {
		return i.Up && slices.ContainsFunc(i.Addrs, both)
	})
}

// result returns what was found, in an order that does not depend on timing.
func (n *lookup) result() Found {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.found
	slices.Sort(out.Alike)
	out.Alike = slices.Compact(out.Alike) // a node is called at each of its addresses
	slices.Sort(out.Known)
	slices.Sort(out.Unknown)
	slices.SortFunc(out.Strays, func(a, b Stray) int { return a.To - b.To })
	if len(out.Known)+len(out.Unknown) > 0 {
		out.Mute = "" // a server has answered for some names
	}
	return out
}
