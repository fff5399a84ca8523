// Package storeaddr finds the store's address from this node's point of view: what
// the store's name resolves to, whether this machine hosts the store, and at which
// address the other nodes see this one. It compares addresses, never host names.
package storeaddr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"launch/fabric"
	"launch/internal/job"
)

// nameRetryMax bounds the pause between two questions for a name, such as that of a pod that starts.
const nameRetryMax = 250 * time.Millisecond

// nameBudget bounds one question; glibc waits 5 s for each server.
const nameBudget = 5 * time.Second

// elsewhere is in a documentation network (RFC 5737): its route, to which nothing is sent, is the default one.
var elsewhere = netip.MustParseAddr("192.0.2.1")

// Place is where the store is, and where this node is.
type Place struct {
	Endpoints []string         // for the store's client, by name, so that a reconnect resolves again
	Means     []netip.Addr     // what the store's name leads to on this node
	Serve     []netip.AddrPort // host the store here; empty: another node does, or it is external
	Addr      netip.Addr       // this node's address for its peers
	Guess     bool             // Addr is a guess: this node hosts the store, but the store's name has another address
	Listen    netip.Addr       // where the side channel listens: at Addr, or everywhere if Addr is a guess
	// Contested says that the store's name may have the addresses of several nodes, now or later: Serve is where this node
	// hosts the store if it is chosen.
	Contested bool
	// At is where the store is that this node joins; zero: where the name leads.
	At netip.Addr
}

// Finder is what Find asks.
type Finder struct {
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Route   func(dst netip.Addr) (fabric.Route, error)
	// Servers, if set, asks the name servers themselves, without their caches, while Resolve does
	// not know the name of an embedded store. It returns soon: nil if there is no address yet.
	Servers func(ctx context.Context, host string) []netip.Addr
	// Hosts, if set, overrides whether this node hosts an embedded store: behind NAT or a virtual address.
	Hosts *bool
	// Report, if set, is called if the store's name does not resolve yet, once for each reason.
	Report func(host string, err error)
}

// NameError: the store's name did not resolve in time.
type NameError struct {
	Host string
	Err  error
}

func (e *NameError) Error() string { return fmt.Sprintf("%q does not resolve: %v", e.Host, e.Err) }
func (e *NameError) Unwrap() error { return e.Err }

// AddrError: --addr matches no address of this node.
type AddrError struct {
	Want string
	Have []string
}

func (e *AddrError) Error() string {
	return fmt.Sprintf("no address of this node matches %q; it has %s", e.Want, strings.Join(e.Have, ", "))
}

// Find waits until the store's name resolves, and returns the store's place.
func (f Finder) Find(ctx context.Context, j job.Job, n fabric.Node) (Place, error) {
	s := j.Store.V
	host := s.Host
	if !s.Embedded { // a certificate may name it, and its name is not new
		f.Servers = nil
		u, err := url.Parse(s.Endpoints[0])
		if err != nil {
			return Place{}, fmt.Errorf("read endpoint %q: %w", s.Endpoints[0], err)
		}
		host = u.Hostname()
	}
	addrs, early, err := f.resolve(ctx, host)
	if err != nil {
		return Place{}, err
	}
	p := Place{Endpoints: s.Endpoints, Means: addrs}
	if s.Embedded {
		p.Endpoints = []string{net.JoinHostPort(host, strconv.Itoa(s.Port))}
		if early { // the store's client would not find the name
			p.Endpoints = nil
			for _, a := range addrs {
				p.Endpoints = append(p.Endpoints, netip.AddrPortFrom(a, uint16(s.Port)).String())
			}
		}
		_, named := netip.ParseAddr(host)
		p.Contested = !s.Shared && f.Hosts == nil && named != nil && !LoopbackName(host)
		if s.Shared && f.Hosts == nil {
			zero := j.Index.V == 0
			f.Hosts = &zero
		}
		p.Serve = f.serve(host, s.Port, addrs, n)
		if at, ok := around(p.Serve, addrs, n); ok {
			p.Endpoints = []string{at.String()}
		}
	}
	if p.Addr, err = f.own(j, n, host, addrs); err != nil {
		return Place{}, err
	}
	p.Guess = len(p.Serve) > 0 && !j.Addr.Set && !LoopbackName(host) && !slices.Contains(addrs, p.Addr)
	if p.Listen = p.Addr; p.Guess {
		p.Listen = netip.IPv6Unspecified()
	}
	return p, nil
}

// resolve waits for the addresses of a name; early: name servers know them before the system's resolver.
func (f Finder) resolve(ctx context.Context, host string) (addrs []netip.Addr, early bool, err error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, false, nil
	}
	type answer struct {
		addrs []netip.Addr
		early bool
		err   error
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answers := make(chan answer, 2)
	go func() {
		addrs, err := f.askSystem(asking, host)
		answers <- answer{addrs, false, err}
	}()
	if f.Servers != nil {
		go func() {
			if addrs := f.askServers(asking, host); len(addrs) > 0 {
				answers <- answer{addrs, true, nil}
			}
		}()
	}
	first := <-answers
	return first.addrs, first.early, first.err
}

// askServers asks the name servers, later than the system's resolver, until there is an address.
func (f Finder) askServers(ctx context.Context, host string) []netip.Addr {
	tick := time.NewTicker(nameRetryMax)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if addrs := f.Servers(ctx, host); len(addrs) > 0 {
				return addrs
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// askSystem asks the system's resolver until it knows the name.
func (f Finder) askSystem(ctx context.Context, host string) (addrs []netip.Addr, err error) {
	var last error
	reported := map[string]bool{}
	op := func() error {
		short, cancel := context.WithTimeout(ctx, nameBudget)
		defer cancel()
		found, err := f.Resolve(short, host)
		if err == nil && len(found) == 0 {
			err = errors.New("no address")
		}
		if err != nil {
			last = plain(err)
			if f.Report != nil && ctx.Err() == nil && !reported[last.Error()] {
				f.Report(host, last)
				reported[last.Error()] = true
			}
			return err
		}
		addrs = found
		return nil
	}
	// Each pause is up to half as long again.
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(nameRetryMax*2/3), backoff.WithMaxElapsedTime(0))
	if err := backoff.Retry(op, backoff.WithContext(b, ctx)); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		return nil, &NameError{Host: host, Err: cmp.Or(last, err)}
	}
	return addrs, nil
}

// plain returns the useful part of a resolver's error.
func plain(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsTimeout {
			return errors.New("the name server did not answer")
		}
		// In "read udp FROM->SERVER: why" each try is from another port.
		if _, server, ok := strings.Cut(e.Err, "->"); ok {
			return errors.New("the name server at " + server)
		}
		return errors.New(e.Err)
	}
	return err
}

// serve returns where this node hosts the store, or nil if it is not the store host.
func (f Finder) serve(host string, port int, addrs []netip.Addr, n fabric.Node) []netip.AddrPort {
	local := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.IsLoopback() && !n.IsLocal(a) })
	mine := len(local) > 0
	if f.Hosts != nil {
		mine = *f.Hosts
	}
	if !mine {
		return nil
	}
	// Listen on all addresses if a name is loopback here alone (Debian's "127.0.1.1 host0"), or if its
	// address is another machine's (NAT) and cannot be bound.
	if len(local) == 0 || !LoopbackName(host) && slices.ContainsFunc(local, netip.Addr.IsLoopback) {
		any := netip.IPv4Unspecified()
		if slices.ContainsFunc(addrs, netip.Addr.Is6) {
			any = netip.IPv6Unspecified()
		}
		return []netip.AddrPort{netip.AddrPortFrom(any, uint16(port))}
	}
	if apart(host, local, n) {
		local = append(local, reachable(local, n)...)
	}
	var out []netip.AddrPort
	for _, a := range local {
		if !slices.ContainsFunc(out, func(o netip.AddrPort) bool { return o.Addr() == a }) {
			out = append(out, netip.AddrPortFrom(a, uint16(port)))
		}
	}
	return out
}

// apart reports whether a name's addresses on its own host lead to that host's containers and guests alone, as where a
// hosts file gives it docker0's: for the other machines it is another address.
func apart(host string, addrs []netip.Addr, n fabric.Node) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		i, ok := n.InterfaceOf(a)
		return !ok || !n.RuntimeBridge(i)
	})
}

// reachable returns the addresses of this node at which another machine may look for the store, of the families of
// those that its name has here.
func reachable(addrs []netip.Addr, n fabric.Node) (out []netip.Addr) {
	for _, i := range n.Interfaces {
		for _, p := range i.Addrs {
			a := p.Addr()
			family := slices.ContainsFunc(addrs, func(b netip.Addr) bool { return a.Is4() == b.Is4() })
			if i.Up && a.IsGlobalUnicast() && family && !n.RuntimeBridge(i) {
				out = append(out, a)
			}
		}
	}
	return out
}

// around returns the store's address on its own host, where the others reach it at an address of another machine: a
// gateway that translates addresses need not send this host's packets back to it.
func around(serve []netip.AddrPort, addrs []netip.Addr, n fabric.Node) (at netip.AddrPort, ok bool) {
	if len(serve) == 0 || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.IsLoopback() || n.IsLocal(a) }) {
		return at, false
	}
	lo := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if serve[0].Addr().Is6() {
		lo = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(lo, serve[0].Port()), true
}

// LoopbackName reports whether a name of the store means this machine alone.
func LoopbackName(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Chosen returns the address of a node that --addr names.
func Chosen(j job.Job, n fabric.Node) (netip.Addr, error) {
	a, ok := match(j.Addr.V, n)
	if !ok {
		return a, &AddrError{Want: j.Addr.V, Have: have(n)}
	}
	return a, nil
}

// own returns this node's address for its peers: the one of --addr, or the source of the route to the store.
func (f Finder) own(j job.Job, n fabric.Node, host string, addrs []netip.Addr) (netip.Addr, error) {
	if j.Addr.Set {
		return Chosen(j, n)
	}
	var errs []error
	apart := apart(host, addrs, n)
	for _, dst := range addrs {
		if apart || dst.IsLoopback() && !LoopbackName(host) {
			dst = elsewhere
		}
		r, err := f.Route(dst)
		if err == nil && r.Src.IsValid() {
			return r.Src.Unmap(), nil
		}
		errs = append(errs, err)
	}
	a := first(n)
	if !a.IsValid() {
		return a, fmt.Errorf("find this node's address: %w", errors.Join(errs...))
	}
	return a, nil
}

// Advertised returns this machine's name for other machines, or an address where the name is unknown
// or loopback here (Debian's "127.0.1.1 host0").
func Advertised(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, nameBudget)
	defer cancel()
	host, _ := os.Hostname()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && !slices.ContainsFunc(addrs, netip.Addr.IsLoopback) {
		return host
	}
	if r, err := fabric.RouteTo(elsewhere); err == nil && r.Src.IsValid() {
		return r.Src.Unmap().String()
	}
	all, _ := net.InterfaceAddrs()
	for _, a := range all { // there is no default route
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return host
}

// match returns the address that --addr means: an IP address, a CIDR or the name of an interface.
func match(want string, n fabric.Node) (netip.Addr, bool) {
	prefix, cidrErr := netip.ParsePrefix(want)
	addr, addrErr := netip.ParseAddr(want)
	for _, i := range n.Interfaces {
		for _, a := range i.Addrs {
			switch {
			case addrErr == nil && a.Addr() == addr.Unmap(),
				cidrErr == nil && prefix.Contains(a.Addr()),
				addrErr != nil && cidrErr != nil && i.Name == want && !a.Addr().IsLinkLocalUnicast():
				return a.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}

func have(n fabric.Node) []string {
	var out []string
	for _, i := range n.Interfaces {
		for _, a := range i.Addrs {
			if !a.Addr().IsLinkLocalUnicast() {
				out = append(out, a.Addr().String()+" ("+i.Name+")")
			}
		}
	}
	return out
}

// first returns the first address that other nodes could use, hardware before software.
func first(n fabric.Node) netip.Addr {
	for _, hardware := range []bool{true, false} {
		for _, i := range n.Interfaces {
			for _, a := range i.Addrs {
				if i.Up && (i.Kind == "physical") == hardware && a.Addr().IsGlobalUnicast() {
					return a.Addr()
				}
			}
		}
	}
	return netip.Addr{}
}
