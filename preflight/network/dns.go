package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"launch/fabric"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

func dnsChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "dns.servers", Limit: preflight.Network,
		Title: "the name servers answer, and say the same",
		Doc:   "A server that is dead or knows less costs every lookup of every process its time, 5 s by default, or makes a name unknown on some nodes and not on others.",
		Run:   dnsServers,
	}, {
		ID: "dns.search", Limit: preflight.Network,
		Title: "the search list makes no other host of the meeting point's name",
		Doc:   "A name with fewer dots than ndots is completed by the search list first; where a domain of it answers for any name, the node goes to another host than the one that is named.",
		Run:   preflight.One(dnsSearch),
	}, {
		ID: "dns.reverse", Limit: preflight.Network,
		Title: "the names of addresses are looked up without delay",
		Doc:   "torch's store on node rank 0 looks up the name of each process that connects, one after the other; where nobody answers, the start takes seconds for each.",
		Run:   preflight.One(dnsReverse),
	}}
}

// isLocalName tells a name that means each machine itself.
func isLocalName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// inHosts are the addresses of a name in /etc/hosts.
func inHosts(in preflight.Input, host string) []netip.Addr {
	var out []netip.Addr
	host = strings.TrimSuffix(host, ".")
	for _, l := range in.Node.System.Hosts {
		if slices.ContainsFunc(l.Names, func(n string) bool { return strings.EqualFold(n, host) }) && !slices.Contains(out, l.Addr) {
			out = append(out, l.Addr)
		}
	}
	return out
}

// toServers are the names that the name servers are asked for: the store's,
// and this node's own where nothing else knows it.
func toServers(in preflight.Input) []string {
	services := in.Node.System.Resolver.Services
	if !slices.Contains(services, "dns") && !slices.Contains(services, "resolve") {
		return nil
	}
	var all []string
	if noStore(in) == "" {
		for _, e := range endpoints(in.Job.Store.V) {
			all = append(all, e.host)
		}
		if in.Node.HostErr != "" {
			all = append(all, in.Node.Hostname)
		}
	}
	var out []string
	for _, host := range all {
		if host != "" && !isAddr(host) && !isLocalName(host) && len(inHosts(in, host)) == 0 && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

// surveys asks for all the names at once.
func surveys(in preflight.Input, ctx context.Context, names []string) [][]dns.Said {
	out := make([][]dns.Said, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { out[i] = in.Servers(ctx, name) })
	}
	wg.Wait()
	return out
}

// unasked is why no name server is asked, or "".
func unasked(in preflight.Input, names []string) string {
	switch {
	case len(names) == 0:
		return "no name of this job needs a name server"
	case in.Servers == nil:
		return "no name server is asked now"
	}
	return ""
}

func dnsServers(ctx context.Context, in preflight.Input) []finding.Finding {
	names := toServers(in)
	if why := unasked(in, names); why != "" {
		return []finding.Finding{finding.Skipf("%s", why)}
	}
	all := surveys(in, ctx, names)
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
	if len(out) > 0 {
		return out
	}
	var slowest time.Duration
	for _, said := range all {
		for _, s := range said {
			for _, a := range s.Answers {
				slowest = max(slowest, a.Took)
			}
		}
	}
	return []finding.Finding{finding.Passf("%s, each question within %v", preflight.Join(all[0], func(s dns.Said) string { return s.Server.Addr().String() }),
		slowest.Round(time.Millisecond))}
}

// troubled names the servers that did not answer a name for certain.
func troubled(in preflight.Input, name string, said []dns.Said) (finding.Finding, bool) {
	r := in.Node.System.Resolver
	var bad, good []string
	var seen []finding.Seen
	var fix string
	late := 0 // servers that are waited for before one answers
	for _, s := range said {
		a, at := s.Result(), s.Server.Addr().String()
		seen = append(seen, saidSeen(s))
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
			bad = append(bad, at+" says "+verbatim(a))
		}
		if (a.Says == dns.Silent || a.Says == dns.Garbage || a.Half) && len(good) == 0 {
			late++
		}
		if fix == "" {
			fix = at
		}
	}
	if len(bad) == 0 {
		return finding.Finding{}, false
	}
	what := strings.Join(bad, ", ")
	if len(good) > 0 {
		what += "; " + strings.Join(good, ", ") + " answers"
	}
	f := finding.Warnf("name server %s", what)
	f.Seen = seen
	switch {
	case len(good) == 0 && late > 0:
		f = f.Breaking("every lookup ends in vain after up to %d s, and nothing beside /etc/hosts has an address", r.Timeout*r.Attempts*len(said))
	case len(good) == 0:
		f = f.Breaking("nothing beside /etc/hosts has an address on this node")
	case late > 0:
		f = f.Breaking("every lookup of every process waits %d s for it, until the next server is asked", r.Timeout*late)
	default:
		f = f.Breaking("names depend on fewer servers than are listed: when the others fail, a lookup takes %d s, or has no answer", r.Timeout*r.Attempts)
	}
	return f.Do("mend the server, or take its line out of /etc/resolv.conf; to try: dig @%s %s", fix, name), true
}

// disagree finds servers of which one knows a name and another does not, or
// that know different addresses.
func disagree(name string, said []dns.Said) (finding.Finding, bool) {
	var sure []dns.Said
	for _, s := range said {
		if s.Result().Says.Definite() {
			sure = append(sure, s)
		}
	}
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
	f := finding.Warnf("the name servers do not say the same of %s: %s", name,
		preflight.Join(sure, func(s dns.Said) string { return s.Server.Addr().String() + " says " + verbatim(s.Result()) }))
	for _, s := range sure {
		f.Seen = append(f.Seen, saidSeen(s))
	}
	return f.Breaking("which host this node goes to, or whether it finds one, depends on which server it asks").
		Do("have %s corrected in the zone that %s serves, or use the address: --store ADDRESS", name, sure[i].Server.Addr()), true
}

// verbatim is an answer in a few words.
func verbatim(a dns.Answer) string {
	switch {
	case a.Says == dns.Found:
		return preflight.Join(a.Addrs, netip.Addr.String)
	case a.Says == dns.OtherError && a.Why != "":
		return a.Why
	}
	return string(a.Says)
}

// saidSeen is what one server said, as evidence.
func saidSeen(s dns.Said) finding.Seen {
	what := preflight.Join(s.Answers, func(a dns.Answer) string {
		text := a.Name + ": " + verbatim(a)
		if a.Why != "" && a.Says != dns.OtherError {
			text += " (" + a.Why + ")"
		}
		if a.Keeps > 0 {
			text += fmt.Sprintf(" (caches keep that for up to %v)", a.Keeps)
		}
		return text
	})
	return finding.Seen{Where: "ask name server " + s.Server.Addr().String(), What: what}
}

// dnsSearch compares what a name means with and without the search list.
func dnsSearch(ctx context.Context, in preflight.Input) finding.Finding {
	if why := noStore(in); why != "" {
		return finding.Skipf("%s", why)
	}
	names := slices.DeleteFunc(toServers(in), func(n string) bool { return strings.EqualFold(n, in.Node.Hostname) })
	if why := unasked(in, names); why != "" {
		return finding.Skipf("%s", why)
	}
	r := in.Node.System.Resolver
	vain, known := 0, false
	for i, said := range surveys(in, ctx, names) {
		for _, s := range said {
			got := s.Result()
			if got.Says != dns.Found {
				continue
			}
			vain, known = max(vain, len(s.Answers)-1), true
			w := s.Whole
			if w == nil || w.Says != dns.Found || slices.ContainsFunc(w.Addrs, func(a netip.Addr) bool { return slices.Contains(got.Addrs, a) }) {
				continue
			}
			return finding.Warnf("%s is taken for %s (%s) here, but by itself it is %s", names[i], got.Name, verbatim(got), verbatim(*w)).
				See("/etc/resolv.conf", "search %s, options ndots:%d", strings.Join(r.Search, " "), r.Ndots).
				Breaking("this node goes to another host than the one that is named").
				Do("use the address, --store %s, or lower ndots in /etc/resolv.conf (in Kubernetes: dnsConfig)", w.Addrs[0])
		}
	}
	if !known {
		return finding.Skipf("no name server has an address for it")
	}
	if vain > 0 {
		return finding.Passf("%d names are asked for in vain before the right one (search list, ndots:%d)", vain, r.Ndots)
	}
	return finding.Passf("the first name that is asked for is the right one")
}

// dnsReverse asks for this node's own address: those of its peers are most
// often in the same zone.
func dnsReverse(ctx context.Context, in preflight.Input) finding.Finding {
	a := in.Addr.Unmap()
	services := in.Node.System.Resolver.Services
	switch {
	case !in.Job.Several() || in.Job.Line.Kind != launcher.Torchrun:
		return finding.Skipf("torch's store serves no other node here")
	case in.Job.Index.Set && in.Job.Index.V > 0 || !in.Job.Index.Set && len(in.Serve) == 0:
		return finding.Skipf("it is looked at on node 0 only")
	case !a.IsValid() || a.IsLoopback():
		return finding.Skipf("this node's address is not known, or only its own")
	case slices.ContainsFunc(in.Node.System.Hosts, func(l fabric.HostsLine) bool { return l.Addr == a }):
		return finding.Skipf("%s stands in /etc/hosts", a)
	case !slices.Contains(services, "dns") && !slices.Contains(services, "resolve"):
		return finding.Skipf("nsswitch.conf asks no name server")
	case in.Reverse == nil:
		return finding.Skipf("no name server is asked now")
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
	f := finding.Warnf("looking up the name of %s takes %v or longer", a, waited.Round(100*time.Millisecond))
	for _, got := range answers {
		f = f.See("ask for "+got.Name, "%s after %v", verbatim(got), got.Took.Round(time.Millisecond))
	}
	return f.Breaking("torch's store waits as long for each process that connects, and all others wait meanwhile").
		Do("put the nodes' addresses and names into /etc/hosts on this node, or have the reverse zone answered (an empty one will do)")
}
