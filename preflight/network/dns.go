package network

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/fabric"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

func dnsChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "dns.servers", Limit: preflight.Network, Title: "the name servers answer, and agree",
		Doc: "A server that is dead, or knows fewer names, delays every lookup of every process, by 5 s by default, or " +
			"makes a name unknown on some nodes only.",
		Run: dnsServers,
	}, {
		ID: "dns.search", Limit: preflight.Network,
		Title: "the search list does not turn the store's name into another host",
		Doc: "The search list completes a name with fewer dots than ndots first. Where one of its domains answers for any " +
			"name, the node connects to another host than the one that is named.",
		Unless: noStore, Run: preflight.One(dnsSearch),
	}, {
		ID: "dns.reverse", Limit: preflight.Network, Title: "lookups of the names of addresses are not delayed",
		Doc: "torch's store on node rank 0 looks up the name of each process that connects, one after the other. Where " +
			"no server answers, the start takes seconds for each.",
		Run: preflight.One(dnsReverse),
	}}
}

// isLocalName reports whether a name means each machine itself.
func isLocalName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// inHosts returns the addresses of a name in /etc/hosts.
func inHosts(in preflight.Input, host string) []netip.Addr {
	var out []netip.Addr
	host = strings.TrimSuffix(host, ".")
	for _, l := range in.Node.System.Hosts {
		if l.Has(host) && !slices.Contains(out, l.Addr) {
			out = append(out, l.Addr)
		}
	}
	return out
}

// toServers returns the names to ask for: the store's, and this node's own where nothing else has its address.
func toServers(in preflight.Input) []string {
	if !asksServers(in) || noStore(in) != "" {
		return nil
	}
	all := finding.Map(endpoints(in.Job.Store.V), func(e endpoint) string { return e.host })
	if in.Node.HostErr != "" {
		all = append(all, in.Node.Hostname)
	}
	var out []string
	for _, host := range all {
		if host != "" && !isAddr(host) && !isLocalName(host) && !slices.Contains(out, host) &&
			(serversFirst(in) || len(inHosts(in, host)) == 0) {
			out = append(out, host)
		}
	}
	return out
}

// asksServers reports whether nsswitch.conf asks name servers.
func asksServers(in preflight.Input) bool {
	services := in.Node.System.Resolver.Services
	return slices.Contains(services, "dns") || slices.Contains(services, "resolve")
}

// serversFirst reports whether nsswitch.conf asks name servers before it reads /etc/hosts.
func serversFirst(in preflight.Input) bool {
	services := in.Node.System.Resolver.Services
	servers := slices.IndexFunc(services, func(s string) bool { return s == "dns" || s == "resolve" })
	files := slices.Index(services, "files")
	return servers >= 0 && servers < files
}

// filesUnread reports whether no service of nsswitch.conf reads /etc/hosts, which has a name that the job needs.
// systemd's reads it too.
func filesUnread(s fabric.System) bool {
	reads := func(service string) bool { return service == "files" || service == "resolve" || service == "compat" }
	return len(s.Resolver.Services) > 0 && !slices.ContainsFunc(s.Resolver.Services, reads) && len(s.Hosts) > 0
}

// surveys asks for all names at the same time.
func surveys(ctx context.Context, in preflight.Input, names []string) [][]dns.Said {
	return each(names, func(name string) []dns.Said { return in.Servers(ctx, name) })
}

// unasked returns why no name server is asked, or "".
func unasked(in preflight.Input, names []string) string {
	switch {
	case len(names) == 0:
		return "no name of this job needs a name server"
	case in.Servers == nil:
		return "this run asks no name server"
	}
	return ""
}

func dnsServers(ctx context.Context, in preflight.Input) []finding.Finding {
	names := toServers(in)
	if why := unasked(in, names); why != "" {
		return finding.Skips(why)
	}
	all := surveys(ctx, in, names)
	var out []finding.Finding
	for i, said := range all {
		if f, bad := troubled(in, names[i], said); bad {
			out = append(out, f)
			break // the servers are the same for all names
		}
	}
	for i, said := range all {
		if f, bad := disagree(names[i], said); bad {
			out = append(out, f)
		}
	}
	var slowest time.Duration
	for _, said := range all {
		for _, s := range said {
			for _, a := range s.Answers {
				slowest = max(slowest, a.Took)
			}
		}
	}
	return preflight.OrPass(out, "%s, each question within %v",
		finding.Join(all[0], func(s dns.Said) string { return s.Server.Addr().String() }), slowest.Round(time.Millisecond))
}

// troubled names the servers that gave no definite answer for a name.
func troubled(in preflight.Input, name string, said []dns.Said) (finding.Finding, bool) {
	r := in.Node.System.Resolver
	var bad, good []string
	var fix string
	late := 0 // servers that time out before one answers
	for _, s := range said {
		a, at := s.Result(), s.Server.Addr().String()
		switch {
		case a.Says.Definite() && !a.Half:
			good = append(good, at)
			continue
		case a.Half:
			bad = append(bad, at+" answers for one address family only")
		case a.Says == dns.Silent:
			bad = append(bad, at+" does not answer")
		case a.Says == dns.Unreachable, a.Says == dns.Garbage:
			bad = append(bad, at+" cannot be asked ("+a.Why+")")
		default:
			bad = append(bad, at+" answers "+verbatim(a))
		}
		if (a.Says == dns.Silent || a.Says == dns.Garbage || a.Half) && len(good) == 0 {
			late++
		}
		fix = cmp.Or(fix, at)
	}
	if len(bad) == 0 {
		return finding.Finding{}, false
	}
	what := strings.Join(bad, ", ")
	if len(good) > 0 {
		what += "; " + strings.Join(good, ", ") + " answers"
	}
	f := finding.Warnf("name server %s", what)
	f.Seen = finding.Map(said, saidSeen)
	switch {
	case len(good) == 0 && late > 0 && serversFirst(in):
		f = f.Breaking("every lookup waits up to %d s, also of a name in /etc/hosts: nsswitch.conf asks name servers before "+
			"it", r.Timeout*r.Attempts*len(said)).See("/etc/nsswitch.conf", "hosts: %s", strings.Join(r.Services, " "))
		return f.Do("hosts: files dns   # in /etc/nsswitch.conf; or repair the server, or take its line out of " +
			"/etc/resolv.conf"), true
	case len(good) == 0 && late > 0:
		f = f.Breaking("every lookup fails after up to %d s, and only names in /etc/hosts have an address",
			r.Timeout*r.Attempts*len(said))
		return f.Do("dig @%s %s   # here and on another node: answered there alone, a filter (network policy, firewall) "+
			"drops what this node sends to port 53; else repair the server\n"+
			"or do without: an address in place of the name, or a line in /etc/hosts", fix, name), true
	case len(good) == 0:
		f = f.Breaking("only names in /etc/hosts have an address on this node")
		return f.Do("echo ADDRESS %s >> /etc/hosts   # where there is to be no name server; else repair it: dig @%s %[1]s",
			name, fix), true
	case late > 0:
		f = f.Breaking("every lookup of every process waits %d s for it before the next server is asked", r.Timeout*late)
	default:
		f = f.Breaking("names depend on fewer servers than are listed: if the others fail, a lookup takes %d s or fails",
			r.Timeout*r.Attempts)
	}
	return f.Do("dig @%s %s   # repeats it; repair the server, or take its line out of /etc/resolv.conf", fix, name), true
}

// disagree finds servers that know different addresses of a name, or of which only some know it.
func disagree(name string, said []dns.Said) (finding.Finding, bool) {
	sure := slices.DeleteFunc(slices.Clone(said), func(s dns.Said) bool { return !s.Result().Says.Definite() })
	differ := func(a, b dns.Answer) bool {
		if a.Says != dns.Found || b.Says != dns.Found {
			return (a.Says == dns.Found) != (b.Says == dns.Found)
		}
		return !slices.ContainsFunc(a.Addrs, func(x netip.Addr) bool { return slices.Contains(b.Addrs, x) })
	}
	i := slices.IndexFunc(sure, func(s dns.Said) bool { return differ(sure[0].Result(), s.Result()) })
	if i < 0 {
		return finding.Finding{}, false
	}
	f := finding.Warnf("the name servers disagree on %s: %s", name,
		finding.Join(sure, func(s dns.Said) string {
			return s.Server.Addr().String() + " answers " + verbatim(s.Result())
		}))
	f.Seen = finding.Map(sure, saidSeen)
	return f.Breaking("the server that is asked decides which host this node connects to, or whether it finds one").
		Do("correct %s in the zone that %s serves, or use the address: --store ADDRESS", name, sure[i].Server.Addr()), true
}

// verbatim returns an answer in a few words.
func verbatim(a dns.Answer) string {
	switch {
	case a.Says == dns.Found:
		return finding.Join(a.Addrs, netip.Addr.String)
	case a.Says == dns.OtherError && a.Why != "":
		return a.Why
	}
	return string(a.Says)
}

// saidSeen returns the answers of one server as evidence.
func saidSeen(s dns.Said) finding.Seen {
	what := finding.Join(s.Answers, func(a dns.Answer) string {
		text := a.Name + ": " + verbatim(a)
		if a.Why != "" && a.Says != dns.OtherError {
			text += " (" + a.Why + ")"
		}
		if a.TTL > 0 {
			text += fmt.Sprintf(" (caches keep that for up to %v)", a.TTL)
		}
		return text
	})
	return finding.Seen{Where: "ask name server " + s.Server.Addr().String(), What: what}
}

// dnsSearch compares a name with and without the search list.
func dnsSearch(ctx context.Context, in preflight.Input) finding.Finding {
	names := slices.DeleteFunc(toServers(in), func(n string) bool { return strings.EqualFold(n, in.Node.Hostname) })
	if why := unasked(in, names); why != "" {
		return finding.Skipf("%s", why)
	}
	r := in.Node.System.Resolver
	vain, known := 0, false
	for i, said := range surveys(ctx, in, names) {
		for _, s := range said {
			got := s.Result()
			if got.Says != dns.Found {
				continue
			}
			vain, known = max(vain, len(s.Answers)-1), true
			w := s.Whole
			if w == nil || w.Says != dns.Found || slices.ContainsFunc(w.Addrs,
				func(a netip.Addr) bool { return slices.Contains(got.Addrs, a) }) {
				continue
			}
			return finding.Warnf("%s becomes %s (%s) here, but without the search list it is %s",
				names[i], got.Name, verbatim(got), verbatim(*w)).
				See("/etc/resolv.conf", "search %s, options ndots:%d", strings.Join(r.Search, " "), r.Ndots).
				Breaking("this node connects to another host than the one that is named").
				Do("--store %s   # the address; or lower ndots in /etc/resolv.conf (in Kubernetes: dnsConfig)", w.Addrs[0])
		}
	}
	if !known {
		return finding.Skipf("no name server has an address for it")
	}
	if vain > 0 {
		return finding.Passf("%d names are tried before the right one (search list, ndots:%d)", vain, r.Ndots)
	}
	return finding.Passf("the first name that is tried is the right one")
}

// dnsReverse asks for the name of this node's own address. Those of its peers are mostly in the same zone.
func dnsReverse(ctx context.Context, in preflight.Input) finding.Finding {
	a := in.Addr.Unmap()
	switch {
	case !in.Job.Several() || in.Job.Line.Kind != launcher.Torchrun:
		return finding.Skipf("torch's store serves no other node here")
	case in.Job.Index.Set && in.Job.Index.V > 0 || !in.Job.Index.Set && len(in.Serve) == 0:
		return finding.Skipf("only node 0 needs it")
	case !a.IsValid() || a.IsLoopback():
		return finding.Skipf("this node's address is not known yet, or loopback")
	case !serversFirst(in) && slices.ContainsFunc(in.Node.System.Hosts,
		func(l fabric.HostsLine) bool { return l.Addr == a }):
		return finding.Skipf("%s is in /etc/hosts", a)
	case !asksServers(in):
		return finding.Skipf("nsswitch.conf asks no name server")
	case in.Reverse == nil:
		return finding.Skipf("this run asks no name server")
	}
	limit := time.Duration(in.Threshold("dns.reverse") * float64(time.Second))
	answers := in.Reverse(ctx, a)
	waited := time.Duration(0)
	for _, got := range answers {
		if got.Says.Definite() || got.Says == dns.ServFail || got.Says == dns.Refused || got.Says == dns.Unreachable {
			if waited += got.Took; waited > limit {
				break
			}
			return finding.Passf("answered within %v", waited.Round(time.Millisecond))
		}
		waited += time.Duration(in.Node.System.Resolver.Timeout) * time.Second
	}
	if len(answers) == 0 {
		return finding.Skipf("no name server is listed")
	}
	f := finding.Warnf("a lookup of the name of %s takes %v or longer", a, waited.Round(100*time.Millisecond))
	for _, got := range answers {
		f = f.See("ask for "+got.Name, "%s after %v", verbatim(got), got.Took.Round(time.Millisecond))
	}
	return f.Breaking("torch's store waits that long for each process that connects, and all others wait for it").
		Do("put the nodes' addresses and names into /etc/hosts on this node, or serve the reverse zone (an empty one will " +
			"do)")
}
