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
	"launch/rendezvous"
)

const (
	// nameBudget is what the system's resolver is given for a name of a node: as
	// the checks of the store's (preflight).
	nameBudget = 2 * time.Second
	// namePatience is how long it is waited for before the name servers are asked
	// one by one: to tell those that are mute from those that are slow.
	namePatience = 300 * time.Millisecond
	// aboutAddrs bounds the addresses that a node tells of itself, so that they
	// fit into peer.MaxAbout.
	aboutAddrs = 12
)

// about is what a node says of itself to those that call it.
type about struct {
	Host  string       `json:"host"`
	Addrs []netip.Addr `json:"addrs,omitempty"` // what its name may rightly lead to
}

// About returns what a node says of itself to the nodes that call it.
func About(n fabric.Node) []byte {
	out := about{Host: n.Hostname}
	for _, i := range n.Interfaces {
		for _, p := range i.Addrs {
			if a := p.Addr(); i.Up && a.IsGlobalUnicast() && len(out.Addrs) < aboutAddrs {
				out.Addrs = append(out.Addrs, a)
			}
		}
	}
	return out.text()
}

func (a about) text() []byte {
	text, _ := json.Marshal(a)
	return text
}

// namer looks up the names of a few other nodes, for preflight to judge.
type namer struct {
	node    fabric.Node
	inHosts func(name string) bool
	resolve func(ctx context.Context, name string) ([]netip.Addr, error) // as Input.Resolve
	servers dns.Config

	mu    sync.Mutex
	names Found
}

// Names is how names are looked up; the zero value looks up none.
type Names struct {
	InHosts func(name string) bool // whether /etc/hosts has it
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Servers dns.Config
}

// namer returns a namer, or nil if no names are looked up.
func (n Names) namer(node fabric.Node) *namer {
	if n.Resolve == nil {
		return nil
	}
	return &namer{node: node, names: Found{Host: node.Hostname}, resolve: n.Resolve, servers: n.Servers,
		inHosts: n.InHosts}
}

// look looks up the name that a node says it has.
func (n *namer) look(ctx context.Context, to rendezvous.Partner, said []byte) {
	var peer about
	if n == nil || json.Unmarshal(said, &peer) != nil || peer.Host == "" ||
		strings.EqualFold(peer.Host, n.node.Hostname) || n.node.IsLocal(to.Addr) {
		return // an image's name that all nodes have, or another launch on this machine
	}
	addrs, known, mute := n.ask(ctx, peer.Host)
	hosts := len(addrs) > 0 && n.inHosts(peer.Host)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case mute != "":
		n.names.Mute = mute
	case len(addrs) > 0 && !hosts:
		n.names.Known = append(n.names.Known, to.Rank)
	case len(addrs) == 0 && known:
		n.names.Unknown = append(n.names.Unknown, to.Rank)
	}
	own := append(peer.Addrs, to.Addr)
	if len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(own, a) }) {
		n.names.Strays = append(n.names.Strays, Stray{To: to.Rank, Addr: addrs[0], Hosts: hosts,
			Near: n.near(to.Addr, addrs[0])})
	}
}

// ask is the addresses of a name. known: that it has none is certain. mute: why
// no name server has answered.
func (n *namer) ask(ctx context.Context, name string) (addrs []netip.Addr, known bool, mute string) {
	ctx, cancel := context.WithTimeout(ctx, nameBudget)
	defer cancel()
	type answer struct {
		addrs []netip.Addr
		err   error
	}
	asked := make(chan answer, 1) // so that a late one ends, too
	go func() {
		addrs, err := n.resolve(ctx, name)
		asked <- answer{addrs, err}
	}()
	settled := func(a answer) bool {
		if e, ok := errors.AsType[*net.DNSError](a.err); ok && e.IsNotFound {
			known = len(n.servers.Servers) > 0
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
	said := n.servers.Survey(ctx, name)
	select {
	case a := <-asked:
		if settled(a) {
			return addrs, known, ""
		}
	default:
	}
	return nil, false, muteness(said)
}

// muteness is why no name server answers; "" where one does, or where none is
// set up: without a line in resolv.conf it is this machine, on which none runs.
func muteness(said []dns.Said) string {
	var why []string
	for _, s := range said {
		first := dns.Answer{Says: dns.Silent}
		if len(s.Answers) > 0 {
			first = s.Answers[0]
		}
		if first.Says.Definite() || first.Says == dns.Unreachable && len(said) == 1 &&
			s.Server.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			return ""
		}
		why = append(why, s.Server.Addr().String()+" says "+string(first.Says))
	}
	return strings.Join(why, ", ")
}

// near tells whether an address is in the network of this node in which it calls
// another.
func (n *namer) near(called, other netip.Addr) bool {
	for _, i := range n.node.Interfaces {
		if i.Up && slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool {
			return p.Contains(called) &&
				p.Contains(other)
		}) {
			return true
		}
	}
	return false
}

// found is what was found, in an order that does not depend on who was first.
func (n *namer) found() Found {
	if n == nil {
		return Found{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.names
	slices.Sort(out.Known)
	slices.Sort(out.Unknown)
	slices.SortFunc(out.Strays, func(a, b Stray) int { return a.To - b.To })
	if len(out.Known)+len(out.Unknown) > 0 {
		out.Mute = "" // a server that answered some
	}
	return out
}
