// Package storeaddr finds where the job meets, from this node's point of view:
// what the store's name means, whether it is this machine that hosts it, and
// with which address this node is seen by the others. It compares addresses,
// never host names.
package storeaddr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"launch/fabric"
	"launch/internal/job"
)

// nameRetryMax bounds the pause between two questions for a name that does not
// resolve yet: a pod's name appears at some moment, and the wait ends then.
const nameRetryMax = 250 * time.Millisecond

// nameBudget bounds one question; glibc waits 5 s for each server.
const nameBudget = 5 * time.Second

// elsewhere is an address of a documentation network (RFC 5737): the way to it
// is the default route. It is only looked up, nothing is sent.
var elsewhere = netip.MustParseAddr("192.0.2.1")

// Place is the meeting point.
type Place struct {
	Endpoints []string         // for the store's client; names stay names, so that a reconnect resolves them again
	Serve     []netip.AddrPort // host the store here; empty: another node does, or it is external
	Addr      netip.Addr       // this node's address for its peers
	Guess     bool             // Addr is one: this node hosts the store, whose name does not say by which address the others come
	Interface string           // that carries it
	Listen    netip.Addr       // where the side channel listens: at Addr, or everywhere where that is a guess
}

// Finder is what Find asks; the zero value asks this machine.
type Finder struct {
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Route   func(dst netip.Addr) (fabric.Route, error)
	// Beside, where set, asks the name servers themselves, and around what they
	// remember: it is asked while Resolve does not know the name of an embedded
	// store. It returns soon, and nothing where there is no address yet.
	Beside func(ctx context.Context, host string) []netip.Addr
	// Hosts overrides, where set, whether this node hosts an embedded store:
	// for an endpoint behind NAT or a virtual address.
	Hosts *bool
	// Tell is called when the store's name does not resolve yet, once for each
	// reason.
	Tell func(host string, err error)
}

// NameError: the store's name did not resolve while there was time.
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

// Find waits until the store's name resolves and says what that means here.
func (f Finder) Find(ctx context.Context, j job.Job, n fabric.Node) (Place, error) {
	f = f.defaults()
	s := j.Store.V
	host := s.Host
	if !s.Embedded { // its name may have to stand in a certificate, and is nothing new
		f.Beside = nil
		var err error
		if host, err = hostOf(s.Endpoints[0]); err != nil {
			return Place{}, err
		}
	}
	addrs, beside, err := f.resolve(ctx, host)
	if err != nil {
		return Place{}, err
	}
	p := Place{Endpoints: s.Endpoints}
	if s.Embedded {
		p.Endpoints = []string{net.JoinHostPort(host, strconv.Itoa(s.Port))}
		if beside { // the store's client would not find the name
			p.Endpoints = nil
			for _, a := range addrs {
				p.Endpoints = append(p.Endpoints, netip.AddrPortFrom(a, uint16(s.Port)).String())
			}
		}
		p.Serve = f.serve(host, s.Port, addrs, n)
	}
	if err := f.own(&p, j, n, host, addrs); err != nil {
		return Place{}, err
	}
	p.Guess = len(p.Serve) > 0 && !j.Addr.Set && !loopbackName(host) && !slices.Contains(addrs, p.Addr)
	if p.Listen = p.Addr; p.Guess {
		p.Listen = netip.IPv6Unspecified()
	}
	return p, nil
}

func (f Finder) defaults() Finder {
	if f.Resolve == nil {
		f.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if f.Route == nil {
		f.Route = fabric.RouteTo
	}
	return f
}

func hostOf(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("read endpoint %q: %w", endpoint, err)
	}
	return u.Hostname(), nil
}

// resolve waits for the addresses of a name. beside: the system's resolver did
// not know them yet.
func (f Finder) resolve(ctx context.Context, host string) (addrs []netip.Addr, beside bool, err error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, false, nil
	}
	type answer struct {
		addrs []netip.Addr
		err   error
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	system, servers := make(chan answer, 1), make(chan []netip.Addr, 1)
	go func() {
		addrs, err := f.system(asking, host)
		system <- answer{addrs, err}
	}()
	if f.Beside != nil {
		go func() {
			if addrs := f.servers(asking, host); len(addrs) > 0 {
				servers <- addrs
			}
		}()
	}
	select {
	case a := <-system:
		addrs, err = a.addrs, a.err
	case addrs = <-servers:
		beside = true
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, beside, err
}

// servers asks beside the system's resolver, once that has had its time, until
// there is an address or ctx ends.
func (f Finder) servers(ctx context.Context, host string) []netip.Addr {
	tick := time.NewTicker(nameRetryMax)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if addrs := f.Beside(ctx, host); len(addrs) > 0 {
				return addrs
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// system asks the system's resolver until it knows the name.
func (f Finder) system(ctx context.Context, host string) (addrs []netip.Addr, err error) {
	var last error
	told := map[string]bool{}
	op := func() error {
		short, cancel := context.WithTimeout(ctx, nameBudget)
		defer cancel()
		found, err := f.Resolve(short, host)
		if err == nil && len(found) == 0 {
			err = errors.New("no address")
		}
		if err != nil {
			why := plain(err)
			if f.Tell != nil && ctx.Err() == nil && !told[why.Error()] {
				f.Tell(host, why)
				told[why.Error()] = true
			}
			last = why
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
		if last == nil {
			last = err
		}
		return nil, &NameError{Host: host, Err: last}
	}
	return addrs, nil
}

// plain is the useful part of a resolver's error.
func plain(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsTimeout {
			return errors.New("the name server did not answer")
		}
		if _, server, ok := strings.Cut(e.Err, "->"); ok { // read udp FROM->SERVER: why; each try is from another port
			return errors.New("the name server at " + server)
		}
		return errors.New(e.Err)
	}
	return err
}

// serve is where this node would host the store; nil when it is not its host.
func (f Finder) serve(host string, port int, addrs []netip.Addr, n fabric.Node) []netip.AddrPort {
	local := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.IsLoopback() && !n.IsLocal(a) })
	mine := len(local) > 0
	if f.Hosts != nil {
		mine = *f.Hosts
	}
	if !mine {
		return nil
	}
	// A name that means loopback here (Debian's "127.0.1.1 host0") means
	// something else on the other nodes, and an address that is not this
	// machine's (NAT) cannot be bound: listen on all addresses then.
	if len(local) == 0 || !loopbackName(host) && slices.ContainsFunc(local, netip.Addr.IsLoopback) {
		any := netip.IPv4Unspecified()
		if slices.ContainsFunc(addrs, netip.Addr.Is6) {
			any = netip.IPv6Unspecified()
		}
		return []netip.AddrPort{netip.AddrPortFrom(any, uint16(port))}
	}
	var out []netip.AddrPort
	for _, a := range local {
		if !slices.ContainsFunc(out, func(o netip.AddrPort) bool { return o.Addr() == a }) {
			out = append(out, netip.AddrPortFrom(a, uint16(port)))
		}
	}
	return out
}

// loopbackName tells whether a person meant this machine alone.
func loopbackName(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// own finds this node's address for its peers: as asked (--addr), else the one
// from which this node reaches the store.
func (f Finder) own(p *Place, j job.Job, n fabric.Node, host string, addrs []netip.Addr) error {
	if j.Addr.Set {
		a, ok := match(j.Addr.V, n)
		if !ok {
			return &AddrError{Want: j.Addr.V, Have: have(n)}
		}
		p.Addr = a
	} else {
		var errs []error
		for _, dst := range addrs {
			if dst.IsLoopback() && !loopbackName(host) {
				dst = elsewhere
			}
			r, err := f.Route(dst)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			p.Addr = r.Src.Unmap()
			break
		}
		if !p.Addr.IsValid() {
			if p.Addr = first(n); !p.Addr.IsValid() {
				return fmt.Errorf("find this node's address: %w", errors.Join(errs...))
			}
		}
	}
	if i, ok := n.InterfaceOf(p.Addr); ok {
		p.Interface = i.Name
	}
	return nil
}

// match finds the address that --addr means: an IP address, a CIDR or the name
// of an interface.
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

// first is the first address of a machine without a default route that others
// could use: up, not loopback, not link-local, hardware before software.
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
