package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"launch/fabric"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/preflight"
)

// try is a call to one address of an endpoint.
type try struct {
	endpoint
	at  string // what was called
	err error
}

// silent reports whether nothing answered, not even with a refusal.
func (t try) silent() bool {
	return timedOut(t.err) || errors.Is(t.err, syscall.EHOSTUNREACH) || errors.Is(t.err, syscall.ENETUNREACH)
}

// where names the call, with the name whose address it is.
func (t try) where() string {
	if t.at == t.endpoint.String() {
		return "connect " + t.at
	}
	return fmt.Sprintf("connect %s, which is %s", t.at, t.host)
}

// tries calls each address of each endpoint at once.
func tries(ctx context.Context, in preflight.Input, all []endpoint) (out []try) {
	for _, r := range each(all, func(e endpoint) resolved { return addrsOf(ctx, in, e) }) {
		for _, a := range r.addrs {
			out = append(out, try{endpoint: r.endpoint, at: net.JoinHostPort(a.String(), r.port)})
		}
		if len(r.addrs) == 0 {
			out = append(out, try{r.endpoint, r.String(), r.err})
		}
	}
	return each(out, func(t try) try {
		if t.err != nil {
			return t
		}
		conn, err := in.Dial(ctx, "tcp", t.at)
		if t.err = err; err == nil {
			conn.Close()
		}
		return t
	})
}

// addrsOf returns the addresses of an endpoint; without an error and an address, they are not known.
func addrsOf(ctx context.Context, in preflight.Input, e endpoint) (r resolved) {
	r.endpoint = e
	if a, err := netip.ParseAddr(e.host); err == nil {
		r.addrs = []netip.Addr{a}
	} else if in.Resolve != nil {
		r.addrs, r.err = in.Resolve(ctx, e.host)
		r.addrs = finding.Map(r.addrs, netip.Addr.Unmap)
	}
	return r
}

// lookHere bounds the look at this node's own tables after a store was silent: the kernel asks for a neighbour for 3 s,
// and it sends a call's first packet again after 1 s.
const lookHere = 4 * time.Second

func storeAnswers(ctx context.Context, in preflight.Input) finding.Finding {
	if len(in.Serve) > 0 {
		return finding.Skipf("this node hosts the store and starts it when it joins")
	}
	if in.Dial == nil {
		return finding.Skipf("this run opens no connection")
	}
	all, later := endpoints(in.Job.Store.V), ctx
	ctx, cancel := context.WithTimeout(ctx, preflight.Network)
	defer cancel()
	var more aside
	ended := more.begin(ctx, in, all)
	tried := tries(ctx, in, all)
	ended(slices.ContainsFunc(tried, func(t try) bool { return !t.silent() }))
	open, silent, unasked := 0, 0, 0
	var seen []finding.Seen
	for _, e := range all {
		of := slices.DeleteFunc(slices.Clone(tried), func(t try) bool { return t.endpoint != e })
		bad := slices.DeleteFunc(slices.Clone(of), func(t try) bool { return t.err == nil })
		switch {
		case len(bad) < len(of):
			open++
		case isNameError(bad[0].err): // store.resolves judges the name; no connection was tried
			unasked++
			continue
		case !slices.ContainsFunc(bad, func(t try) bool { return !t.silent() }):
			silent++
		}
		for _, t := range bad {
			seen = append(seen, finding.Seen{Where: t.where(), What: t.err.Error()})
		}
	}
	f := answered(later, in, all, open, silent, more)
	certain := false
	if open == 0 && silent > 0 {
		if w, sure, found := wrongHere(later, in, all); found {
			f, certain = w, sure
		}
	}
	if dead, found := deadAddress(tried); found {
		f = dead
	}
	if open == 0 && silent == len(all) && more.answersOther && !certain {
		f = more.source
	}
	if open == 0 && more.answersAny {
		f = more.wild
	}
	if open == 0 && unasked > 0 {
		f = finding.Skipf("could not tell: the address of %s was not found in time", finding.Join(all, endpoint.String))
	}
	f.Seen = append(f.Seen, seen...)
	return f
}

// deadAddress finds a name of which one address is silent while another of its family answers, be it with a refusal.
func deadAddress(tried []try) (finding.Finding, bool) {
	six := func(t try) bool { return strings.HasPrefix(t.at, "[") }
	for _, dead := range tried {
		i := slices.IndexFunc(tried, func(t try) bool {
			return t.endpoint == dead.endpoint && !t.silent() && !isNameError(t.err) && six(t) == six(dead)
		})
		if i < 0 || !dead.silent() || isNameError(dead.err) {
			continue
		}
		return finding.Warnf("%s has several addresses, and %s does not answer; %s does", dead.host, dead.at, tried[i].at).
			Breaking("each connection to the store tries the addresses one after the other, and may wait for the dead one").
			Do("take the dead address out of the DNS or /etc/hosts, or use the other one: --store %s",
				hostOnly(tried[i].at)), true
	}
	return finding.Finding{}, false
}

func hostOnly(at string) string {
	host, _, _ := net.SplitHostPort(at)
	return host
}

// anyName finds name servers that answer for any name, as for the store's: a misspelt one has an address there, too.
func anyName(ctx context.Context, in preflight.Input, all []endpoint) (finding.Finding, bool) {
	if in.Servers == nil {
		return finding.Finding{}, false
	}
	for _, host := range finding.Map(all, func(e endpoint) string { return e.host }) {
		if !slices.Contains(toServers(in), host) {
			continue
		}
		for _, said := range in.Servers(ctx, host) {
			got := said.Result()
			_, domain, whole := strings.Cut(got.Name, ".")
			if got.Says != dns.Found || !whole || domain == "" {
				continue
			}
			for _, other := range in.Servers(ctx, noSuchHost+domain+".") {
				as := other.Result()
				if other.Server != said.Server || as.Says != dns.Found || !slices.Equal(as.Addrs, got.Addrs) {
					continue
				}
				return finding.Warnf("the name servers answer for any name in %s with %s, for %s, too: is it spelt right?",
					domain, verbatim(got), host).
					See("ask name server "+said.Server.Addr().String(), "%s%s: %s", noSuchHost, domain, verbatim(as)).
					Breaking("a misspelt name leads to another machine, and this node waits until its --join-timeout").
					Do("correct the name in %s, or use the address of the store's host: --store ADDRESS",
						in.Job.Store.From.Name), true
			}
		}
	}
	return finding.Finding{}, false
}

// noSuchHost is a name that no host has.
const noSuchHost = "launch-asks-for-no-such-host."

// wrongHere finds why this node cannot send to any of the endpoints, or in which unusual way, which may be meant, it
// sends to each.
func wrongHere(ctx context.Context, in preflight.Input, all []endpoint) (f finding.Finding, certain, found bool) {
	if in.Stuck == nil {
		return f, false, false
	}
	var at []netip.AddrPort
	for _, e := range all {
		at = append(at, portsOf(ctx, in, e)...)
	}
	waits := "this node waits until its --join-timeout"
	if s := in.Stuck(at); s.Why != "" {
		return finding.Warnf("the store is not reached, and the reason is here: %s", s.Why).Breaking("%s", waits).
			Do("%s", s.Here()), true, true
	}
	var odd fabric.Detour
	for _, to := range at {
		if odd = in.Detour(to); odd.Why == "" {
			return f, false, false
		}
	}
	if odd.Why == "" {
		return f, false, false
	}
	names := finding.Join(all, endpoint.String)
	return finding.Warnf("%s does not answer, and the way to it is unusual: %s", names, odd.Why).
		Breaking("%s", waits).Do("%s", odd.Here()), false, true
}

// NotEven is what store.answers says of a store of which no packet arrives.
const NotEven = "does not answer, not even with a refusal"

// silentStore says what may be wrong where no packet of the store's host arrives.
func silentStore(ctx context.Context, in preflight.Input, all []endpoint, more aside) finding.Finding {
	names, there := finding.Join(all, endpoint.String), fabric.Unseen
	trail := more.trail
	way := trail.Fault()
	if in.Neighbour != nil && len(all) == 1 {
		for _, a := range addrsOf(ctx, in, all[0]).addrs {
			there = max(there, in.Neighbour(a))
		}
	}
	why := "that machine is down, its address belongs to another one, a firewall drops the packets, or the network " +
		"loses most of them"
	fix := "ip neigh; ip -d link   # on this node: no neighbour there? is it in the same network, VLAN or VXLAN?\n"
	host := "ip addr; ss -ltn; iptables -S; nft list ruleset; sysctl net.ipv4.conf.all.rp_filter   # on that machine, " +
		"the store host"
	cut := more.around.Fault()
	switch {
	case cut.Why != "":
		why, fix = cut.Why, cut.Here()+"\n"
	case way.Why != "":
		why, fix = way.Why, way.Do+"\n"
	case trail.Router.IsValid():
		why += fmt.Sprintf(", or the router %s on the way, which says nothing of them, does not forward them", trail.Router)
		fix = fmt.Sprintf("ip neigh show %[1]s   # here: is the router there?\n"+
			"sysctl net.ipv4.ip_forward; ip route; nft list ruleset   # on the router %[1]s, if it is yours\n", trail.Router)
	case there == fabric.Here && len(more.around.Answer) > 0:
		why = fmt.Sprintf("a machine answers for that address (ip neigh), so it is up, and %s answers this node: a firewall "+
			"or a strict rp_filter there drops the packets, or it is another machine that has the address",
			more.around.Answer[0])
		fix = ""
	case there == fabric.Here:
		why = "a machine answers for that address (ip neigh), so it is up: a firewall or a strict rp_filter there drops " +
			"the packets, a filter at this node's own port of the network (security group, anti-spoofing) does, or it is " +
			"another one that has the address"
		fix = ""
	case there == fabric.Silent:
		why, fix, host = noMachine(ctx, in, all[0], fix, host)
	}
	f := finding.Warnf("%s %s: %s", names, NotEven, why).
		Breaking("this node waits until its --join-timeout").Do("%s%s", fix, host)
	if on := sentOn(ctx, in, all); on.IsValid() {
		f = f.See("this node's NAT", "sends calls to %s on to %s, which does not answer either", names, on)
	}
	return f
}

// sentOn returns where NAT sends calls to the store's only address; the zero AddrPort: nowhere else.
func sentOn(ctx context.Context, in preflight.Input, all []endpoint) (on netip.AddrPort) {
	if in.Redirected == nil || len(all) != 1 {
		return on
	}
	if at := portsOf(ctx, in, all[0]); len(at) == 1 {
		on = in.Redirected(at[0])
	}
	return on
}

// portsOf returns the addresses of an endpoint with its port.
func portsOf(ctx context.Context, in preflight.Input, e endpoint) []netip.AddrPort {
	port, _ := strconv.ParseUint(e.port, 10, 16)
	return finding.Map(addrsOf(ctx, in, e).addrs, func(a netip.Addr) netip.AddrPort {
		return netip.AddrPortFrom(a, uint16(port))
	})
}

// answered judges how many endpoints took a connection, and how many stayed silent.
func answered(ctx context.Context, in preflight.Input, all []endpoint, open, silent int,
	more aside) finding.Finding {
	names := finding.Join(all, endpoint.String)
	switch {
	case open == len(all):
		return finding.Passf("%s answers", names)
	case in.Job.Store.V.Embedded && silent == len(all):
		// A running machine refuses the connection before its launch starts.
		return silentStore(ctx, in, all, more)
	case in.Job.Store.V.Embedded:
		return finding.Skipf("the store at %s is not up yet, launch waits for it", names)
	case open > 0:
		return finding.Warnf("%d of the store's %d endpoints answer", open, len(all)).
			Breaking("the job loses its store if the others fail, too").
			Do("repair the endpoints that are down, or drop them from --store")
	case silent > 0:
		return finding.Warnf("%s does not answer within %v", names, preflight.Network).
			Breaking("where a firewall drops the packets this node never joins").
			Do("open the port between this node and the store")
	}
	return finding.Warnf("nothing accepts connections at %s yet", names).
		Breaking("this node cannot join until a store does; launch retries for --join-timeout").
		Do("start etcd there, or correct the endpoint in %s", in.Job.Store.From.Name)
}

func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && ne.Timeout()
}

func isNameError(err error) bool {
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}
