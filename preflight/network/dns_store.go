package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/fabric"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/preflight"
)

// misleads judges the addresses that the store's name has on this node.
func misleads(in preflight.Input, host string, addrs []netip.Addr) (finding.Finding, bool) {
	if isAddr(host) || isLocalName(host) || len(addrs) == 0 {
		return finding.Finding{}, false
	}
	var here, away []netip.Addr
	loops := true
	for _, a := range addrs {
		a = a.Unmap()
		loops = loops && a.IsLoopback()
		if a.IsLoopback() || in.Node.IsLocal(a) {
			here = append(here, a)
		} else {
			away = append(away, a)
		}
	}
	embedded := in.Job.Store.V.Embedded
	list := preflight.Join(addrs, func(a netip.Addr) string { return a.Unmap().String() })
	switch missing := noFamily(in, addrs); {
	case missing != "":
		return finding.Warnf("%s is %s, and this node has no %s address", host, list, missing).
			Breaking("this node cannot reach the meeting point").
			Do("give this node an %s address, or name one that it can reach: --store ADDRESS", missing), true
	case embedded && loops && !isMe(in, host):
		return hostsSeen(in, host, finding.Warnf("%s is %s on this node, which is %s", host, list, in.Node.Hostname).
			Breaking("this node takes itself for the meeting point and waits there alone").
			Do("give %s its real address in /etc/hosts, or use it: --store ADDRESS", host)), true
	case embedded && sameFamily(addrs) && strings.Contains(host+".", ".svc."):
		return finding.Warnf("%s is a Service of several pods (%s)", host, list).
			Breaking("each pod takes another one, or itself, for the meeting point").
			Do("name one pod of it: --store POD.%s", host), true
	case embedded && len(here) > 0 && len(away) > 0 && sameFamily(addrs):
		return hostsSeen(in, host, finding.Warnf("%s has addresses of this node (%s) and of others (%s)", host,
			preflight.Join(here, netip.Addr.String), preflight.Join(away, netip.Addr.String)).
			Breaking("each node that has one of them takes itself for the meeting point").
			Do("use the one address: --store %s, or drop the others from /etc/hosts or the DNS", here[0])), true
	case embedded && twoHosts(in, host):
		return hostsSeen(in, host, finding.Warnf("/etc/hosts has %s more than once, in one network: %s", host, preflight.Join(inHosts(in, host), netip.Addr.String)).
			Breaking("one of them is out of date, and programs differ in which they take").
			Do("leave one line with %s in /etc/hosts", host)), true
	}
	return finding.Finding{}, false
}

// noFamily is the family that all the addresses are of and this node has none
// of but loopback's and the link's own; "" where it fits, or cannot be told.
func noFamily(in preflight.Input, addrs []netip.Addr) string {
	if len(in.Node.Interfaces) == 0 {
		return ""
	}
	has := func(six bool) bool {
		for _, i := range in.Node.Interfaces {
			for _, p := range i.Addrs {
				a := p.Addr()
				if a.Is6() == six && (!a.IsLoopback() && !(six && a.IsLinkLocalUnicast())) {
					return true
				}
			}
		}
		return false
	}
	all := func(six bool) bool {
		return !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap().Is6() != six || a.Unmap().IsLoopback() })
	}
	switch {
	case all(true) && !has(true):
		return "IPv6"
	case all(false) && !has(false):
		return "IPv4"
	}
	return ""
}

// isMe tells whether a name is this node's own, with or without a domain.
func isMe(in preflight.Input, host string) bool {
	mine, _, _ := strings.Cut(in.Node.Hostname, ".")
	short, _, _ := strings.Cut(host, ".")
	if strings.EqualFold(mine, short) {
		return true
	}
	// another name that /etc/hosts has on the line of the own one
	return slices.ContainsFunc(in.Node.System.Hosts, func(l fabric.HostsLine) bool {
		has := func(name string) bool {
			return slices.ContainsFunc(l.Names, func(n string) bool { return strings.EqualFold(n, name) })
		}
		return has(in.Node.Hostname) && has(host)
	})
}

// sameFamily tells whether two of the addresses are of one family: those of
// one host often are one of each.
func sameFamily(addrs []netip.Addr) bool {
	var four, six []netip.Addr
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() && !slices.Contains(four, a) {
			four = append(four, a)
		} else if a.Is6() && !slices.Contains(six, a) {
			six = append(six, a)
		}
	}
	return len(four) > 1 || len(six) > 1
}

// twoHosts tells whether /etc/hosts gives a name two addresses in one network
// of this node's, which no host has.
func twoHosts(in preflight.Input, host string) bool {
	addrs := inHosts(in, host)
	for i, a := range addrs {
		for _, b := range addrs[:i] {
			for _, nic := range in.Node.Interfaces {
				if slices.ContainsFunc(nic.Addrs, func(p netip.Prefix) bool { return !a.IsLoopback() && p.Contains(a) && p.Contains(b) }) {
					return true
				}
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

// inTime is what the system's resolver would have come to, had it the time: it
// waits for a dead server before it asks the next, which may say that there is
// no such name.
func inTime(in preflight.Input, ctx context.Context, host string, err error) error {
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

// servedBeside completes a finding about a name that the system's resolver did
// not find by what each server says: one of them may know it, may not answer,
// or may keep "no such name" for a while.
func servedBeside(in preflight.Input, ctx context.Context, host string, f finding.Finding) finding.Finding {
	if in.Servers == nil || !slices.Contains(toServers(in), host) {
		return f
	}
	said := in.Servers(ctx, host)
	var keeps time.Duration
	for _, s := range said {
		f.Seen = append(f.Seen, saidSeen(s))
		for _, a := range s.Answers {
			keeps = max(keeps, a.Keeps)
		}
	}
	// What the system would come to, had it the time: the first certain answer.
	i := slices.IndexFunc(said, func(s dns.Said) bool { return s.Result().Says.Definite() })
	if i >= 0 && said[i].Result().Says == dns.Found && f.Status == finding.Skip {
		f.Status, f.What = finding.Pass, host+" is "+verbatim(said[i].Result())+", which the system's resolver does not find in time"
		return f
	}
	if keeps > 0 && f.Status == finding.Skip {
		f.What += "; name servers may keep that it does not exist for up to " + keeps.String()
	}
	if whole, dotted := strings.CutSuffix(host, "."); dotted && f.Status == finding.Fail && !strings.Contains(whole, ".") {
		f.Fix = "drop the dot at its end, so that the search list is tried: --store " + whole
	}
	if f.Status == finding.Fail && strings.Contains(host+".", ".svc.") {
		f.Fix = unready(host)
	}
	return f
}

// unready is what to do where the name of a pod does not appear.
func unready(host string) string {
	return "if it stays so: is " + host + " the name of a pod of a headless Service (clusterIP: None), which has publishNotReadyAddresses: true?"
}
