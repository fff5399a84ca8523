package network

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"launch/internal/finding"
	"launch/internal/job"
	"launch/preflight"
)

func storeChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "store.resolves", Limit: preflight.Network, Title: "this node can resolve the name of the store",
		Doc:    "A node that cannot find the store never joins, and the others wait for it until their time is up.",
		Unless: noStore, Run: preflight.One(storeResolves),
	}, {
		ID: "store.port", Limit: preflight.Network, Title: "no other program listens where this node hosts the store",
		Doc: "The store cannot start where another program has its port, and the other nodes would connect to that " +
			"program.",
		Unless: noStore, Run: preflight.One(storePort),
	}, {
		ID: "store.answers", Needs: []string{"store.resolves"}, Limit: preflight.Network + lookHere,
		Title: "the store accepts connections from this node",
		Doc: "A firewall, a wrong port and a store that was never started look the same to a job: it waits. An embedded " +
			"store may start later, so its absence is never a failure.",
		Unless: noStore, Run: preflight.One(storeAnswers),
	}}
}

// endpoint is one address of the store, as the user gave it.
type endpoint struct {
	host, port string
}

func (e endpoint) String() string { return net.JoinHostPort(e.host, e.port) }

// endpoints returns the store's addresses without invalid URLs, which the reader of the command line reports.
func endpoints(s job.Store) []endpoint {
	if s.Embedded {
		return []endpoint{{s.Host, strconv.Itoa(s.Port)}}
	}
	var out []endpoint
	for _, text := range s.Endpoints {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			continue
		}
		out = append(out, endpoint{u.Hostname(), cmp.Or(u.Port(), "2379")}) // the default of etcd
	}
	return out
}

// each runs f for all at once and returns the results in their order.
func each[T, R any](all []T, f func(T) R) []R {
	out := make([]R, len(all))
	var wg sync.WaitGroup
	for i, v := range all {
		wg.Go(func() { out[i] = f(v) })
	}
	wg.Wait()
	return out
}

// noStore returns why there is no store to ask, or "".
func noStore(in preflight.Input) string {
	switch {
	case !in.Job.Several():
		return "one node needs no store"
	case !in.Job.Store.Set || len(endpoints(in.Job.Store.V)) == 0:
		return "the store is not known yet"
	}
	return ""
}

func storeResolves(ctx context.Context, in preflight.Input) finding.Finding {
	all := endpoints(in.Job.Store.V)
	if f, apart := eachItself(in); apart {
		return f
	}
	if !slices.ContainsFunc(all, func(e endpoint) bool { return !isAddr(e.host) }) {
		return finding.Passf("%s needs no name server", finding.Join(all, func(e endpoint) string { return e.host }))
	}
	if in.Resolve == nil {
		return finding.Skipf("this run asks no name server")
	}
	found := each(all, func(e endpoint) (r resolved) {
		if r.endpoint = e; !isAddr(r.host) {
			r.addrs, r.err = in.Resolve(ctx, r.host)
		}
		return r
	})
	for _, r := range found {
		if f, wrong := misleads(in, r.host, r.addrs); wrong && r.err == nil {
			return f
		}
	}
	bad := slices.IndexFunc(found, func(r resolved) bool { return r.err != nil })
	if bad < 0 {
		return finding.Passf("%s", finding.Join(found, func(r resolved) string {
			if isAddr(r.host) {
				return r.host
			}
			return r.host + " is " + finding.Some(finding.Map(r.addrs, func(a netip.Addr) string { return a.Unmap().String() }))
		}))
	}
	host, err := found[bad].host, inTime(ctx, in, found[bad].host, found[bad].err)
	others := slices.ContainsFunc(found, func(r resolved) bool { return r.err == nil })
	return withServers(ctx, in, host, unresolved(in, host, err, others))
}

// eachItself finds a store at a loopback address although the scheduler has given the job several machines.
func eachItself(in preflight.Input) (finding.Finding, bool) {
	s := in.Job.Store.V
	a, err := netip.ParseAddr(s.Host)
	loopback := s.Host == "localhost" || err == nil && a.IsLoopback()
	hosts := slices.Compact(slices.Sorted(slices.Values(in.Job.Hosts)))
	if !s.Embedded || !loopback || len(hosts) < 2 {
		return finding.Finding{}, false
	}
	return finding.Warnf("the store is at %s, which is each machine itself, and the job has %d: %s", s.Host, len(hosts),
		finding.Some(hosts)).
		Breaking("each of them takes itself for the store host and waits there alone").
		Do("drop --store %s, or name one of them on all: --store %s", s.Host, in.Job.Hosts[0]), true
}

// resolved is what the system's resolver answers for a host of the store.
type resolved struct {
	endpoint
	addrs []netip.Addr
	err   error
}

// unresolved judges a name without an address. "No such name" is an answer, the silence of a name server is not. A name
// may appear later, with the machine or the pod that registers it: the start waits for it. Where a scheduler started
// this node that is expected.
func unresolved(in preflight.Input, host string, err error, others bool) finding.Finding {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case !isDNS || !dns.IsNotFound:
		return finding.Skipf("could not tell: the name server did not answer for %s", host).
			See("look up "+host, "%v", err)
	case others:
		return finding.Warnf("%s does not resolve, the other endpoints do", host).See("look up "+host, "%v", err).
			Breaking("one endpoint is missing when another one fails").Do("correct %s in --store", host)
	case in.Job.Vouch == job.Scheduled:
		return finding.Skipf("%s does not resolve yet; launch waits until the name appears, in Kubernetes with the pod",
			host).Do("%s", unready(host))
	}
	return finding.Warnf("%s does not resolve on this node yet: there is no such name; launch asks again until the join "+
		"timeout", host).See("look up "+host, "%v", err).Breaking("this node waits, and if the name is wrong, in vain").
		Do("is it spelled right in %s? A line in /etc/hosts here ends the wait, and an address in its place needs no name",
			in.Job.Store.From.Name)
}

// storePort does not judge a port of a launch: it may be this job's, for another node on this machine.
func storePort(_ context.Context, in preflight.Input) finding.Finding {
	store := in.Job.Store.V
	switch {
	case len(in.Serve) == 0:
		return finding.Skipf("this node does not host the store, as far as is known yet")
	case in.PortUse == nil:
		return finding.Skipf("this run looks at no port")
	}
	for _, at := range in.Serve {
		u, err := in.PortUse(at)
		switch {
		case err != nil:
			return finding.Skipf("could not tell: %v", err)
		case u.Launch:
			return finding.Skipf("%s has port %d for the store of this job or of another: the start shows which",
				u.By, store.Port)
		case u.Taken && (u.By == "" || forwards(u.By)):
			return finding.Skipf("%s has port %d; the start shows whether it forwards to this job's store",
				u.Holder(), store.Port)
		case u.Taken:
			return finding.Failf("port %d, on which this node hosts the store, is taken by %s", store.Port, u.By).
				See("bind "+at.String(), "address already in use").
				Breaking("the store cannot start, and the other nodes connect to that program").
				Do("on every node: --store %s; or end %s", job.NextPort(endpoints(store)[0].String()), u.By)
		}
	}
	return finding.Passf("port %d is free", store.Port)
}

// forwards reports whether a program is known to forward connections: a tunnel, a proxy, a container's port.
func forwards(by string) bool {
	return slices.ContainsFunc([]string{"ssh", "socat", "docker-pr", "rootlessport", "conmon", "haproxy", "envoy", "nginx",
		"kubectl", "slirp4netns", "pasta", "stunnel"}, func(prefix string) bool { return strings.HasPrefix(by, prefix) })
}

func isAddr(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
