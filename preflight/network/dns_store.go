package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/internal/dns"
	"launch/internal/finding"
	"launch/preflight"
)

// misleads judges the addresses of the store's name on this node.
func misleads(in preflight.Input, host string, addrs []netip.Addr) (finding.Finding, bool) {
	if isAddr(host) || isLocalName(host) || len(addrs) == 0 {
		return finding.Finding{}, false
	}
	var here []netip.Addr
	loops := true
	for _, a := range addrs {
		a = a.Unmap()
		loops = loops && a.IsLoopback()
		if a.IsLoopback() || in.Node.IsLocal(a) {
			here = append(here, a)
		}
	}
	embedded := in.Job.Store.V.Embedded && !in.Job.Store.V.Shared // node 0 hosts the store, whatever the name has
	list := finding.Join(addrs, func(a netip.Addr) string { return a.Unmap().String() })
	switch missing := noFamily(in, addrs); {
	case missing != "":
		return finding.Warnf("%s is %s, and this node has no %s address", host, list, missing).
			Breaking("this node cannot reach the store").
			Do("give this node an %s address, or name an address that it can reach: --store ADDRESS", missing), true
	case embedded && loops && !in.Node.IsNamed(host):
		return hostsSeen(in, host, finding.Warnf("%s is %s on this node, which is %s", host, list, in.Node.Hostname).
			Breaking("this node takes itself for the store host and waits there alone").
			Do("give %s its real address in /etc/hosts, or use that address: --store ADDRESS", host)), true
	case embedded && len(here) == 0 && len(in.Serve) == 0 && in.Node.IsNamed(host):
		return hostsSeen(in, host, finding.Warnf("%s is this node's own name, and %s is no address of this node", host, list).
			Breaking("no node hosts the store: the one that has its address does").
			Do("in a container: --network host; or --store ADDRESS, an address of one of the nodes\n"+
				"where NAT forwards the port to this node: LAUNCH_STORE_HOST=yes launch …   # on this node")), true
	case embedded && twoHosts(in, host) && (len(here) == 0 || len(addrs) < in.Job.Nodes.V): // else all nodes have it
		return hostsSeen(in, host, finding.Warnf("/etc/hosts has %s more than once, in one network: %s",
			host, finding.Join(inHosts(in, host), netip.Addr.String)).
			Breaking("one of the lines is out of date, and programs differ in which they use").
			Do("leave one line with %s in /etc/hosts", host)), true
	}
	return finding.Finding{}, false
}

// noFamily returns the family of all the addresses if this node has no address of it
// except loopback and link-local; "" if it has one, or if that is not known.
func noFamily(in preflight.Input, addrs []netip.Addr) string {
	if len(in.Node.Interfaces) == 0 {
		return ""
	}
	six := addrs[0].Unmap().Is6()
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap().Is6() != six || a.Unmap().IsLoopback() }) {
		return ""
	}
	for _, i := range in.Node.Interfaces {
		for _, p := range i.Addrs {
			a := p.Addr()
			if a.Is6() == six && !a.IsLoopback() && !(six && a.IsLinkLocalUnicast()) {
				return ""
			}
		}
	}
	if six {
		return "IPv6"
	}
	return "IPv4"
}

// twoHosts reports whether /etc/hosts gives a name two addresses in one network of this node: no host has two.
func twoHosts(in preflight.Input, host string) bool {
	addrs := slices.DeleteFunc(inHosts(in, host), netip.Addr.IsLoopback)
	for _, nic := range in.Node.Interfaces {
		for _, p := range nic.Addrs {
			if outside := slices.DeleteFunc(slices.Clone(addrs), p.Contains); len(addrs)-len(outside) > 1 {
				return true
			}
		}
	}
	return false
}

// hostsSeen adds the lines of /etc/hosts as evidence.
func hostsSeen(in preflight.Input, host string, f finding.Finding) finding.Finding {
	for _, a := range inHosts(in, host) {
		f = f.See("/etc/hosts", "%s %s", a, host)
	}
	return f
}

// inTime returns the result that the system's resolver would have with more time: it waits for a
// dead server before it asks the next, which may know that the name does not exist.
func inTime(ctx context.Context, in preflight.Input, host string, err error) error {
	e, ok := errors.AsType[*net.DNSError](err)
	if in.Servers == nil || ok && e.IsNotFound || !slices.Contains(toServers(in), host) {
		return err
	}
	said := in.Servers(ctx, host)
	i := slices.IndexFunc(said, func(s dns.Said) bool { return s.Result().Says.Definite() })
	if i < 0 || said[i].Result().Says != dns.NotFound {
		return err
	}
	return &net.DNSError{Err: "no such host", Name: host, Server: said[i].Server.String(), IsNotFound: true}
}

// withServers adds the answer of each server to a finding about a name that the system's resolver
// did not find: a server may know it, may not answer, or may keep "no such name" in its cache.
func withServers(ctx context.Context, in preflight.Input, host string, f finding.Finding) finding.Finding {
	if in.Servers == nil || !slices.Contains(toServers(in), host) {
		return f
	}
	said := in.Servers(ctx, host)
	var ttl time.Duration
	for _, s := range said {
		f.Seen = append(f.Seen, saidSeen(s))
		for _, a := range s.Answers {
			ttl = max(ttl, a.TTL)
		}
	}
	// The first definite answer is the one that the system would get with more time.
	i := slices.IndexFunc(said, func(s dns.Said) bool { return s.Result().Says.Definite() })
	if i >= 0 && said[i].Result().Says == dns.Found && f.Status == finding.Skip {
		f.Status = finding.Pass
		f.What = host + " is " + verbatim(said[i].Result()) + ", which the system's resolver does not find in time"
		return f
	}
	if ttl > 0 && f.Status != finding.Pass {
		f.What += "; name servers may cache its absence for up to " + ttl.String()
	}
	if whole, dotted := strings.CutSuffix(host, "."); dotted && f.Status == finding.Warn && !strings.Contains(whole, ".") {
		f.Fix = "drop the dot at its end, so that the search list applies: --store " + whole
	}
	if f.Status == finding.Warn && strings.Contains(host+".", ".svc.") {
		f.Fix = unready(host)
	}
	return f
}

// unready returns what to do where the name of a pod does not appear.
func unready(host string) string {
	return "if it stays away: is " + host + " the name of a pod of a headless Service (clusterIP: None) " +
		"with publishNotReadyAddresses: true?"
}
