package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/dns"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/preflight"
	"launch/preflight/checktest"
)

// external sets an external store.
func external(in preflight.Input, urls ...string) preflight.Input {
	in.Job.Store.V = job.Store{Endpoints: urls}
	return in
}

// resolver knows host0 only.
func resolver(answers map[string]error) func(context.Context, string) ([]netip.Addr, error) {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		err, known := answers[host]
		if !known {
			err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		if err != nil {
			return nil, err
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
}

func TestStoreResolves(t *testing.T) {
	here := resolver(map[string]error{"host0": nil})
	busy := resolver(map[string]error{"host0": &net.DNSError{Err: "server misbehaving", Name: "host0", IsTemporary: true}})
	scheduled := checktest.Four()
	scheduled.Job.Vouch = job.Scheduled
	for _, tt := range []struct {
		name    string
		in      preflight.Input
		resolve func(context.Context, string) ([]netip.Addr, error)
		want    string
	}{
		{"known", checktest.Four(), here, "ok host0 is 10.0.0.1"},
		{"an address", external(checktest.Four(), "http://10.0.0.1:2379"), nil, "ok needs no name server"},
		{"an IPv6 address", external(checktest.Four(), "https://[fd00::1]:2379"), nil,
			"ok fd00::1 needs no name server"},
		{"unknown", checktest.Four(), resolver(nil), "warn host0 does not resolve on this node yet"},
		{"unknown yet, in Kubernetes", scheduled, resolver(nil), "skip does not resolve yet"},
		{"name server in trouble", checktest.Four(), busy, "skip could not tell"},
		{"one of two unknown", external(checktest.Four(), "http://host0:2379", "http://host1:2379"), here,
			"warn host1 does not resolve"},
		{"both unknown", external(checktest.Four(), "http://host1:2379", "http://host2:2379"), here,
			"warn host1 does not resolve on this node yet"},
		{"dry run", checktest.Four(), nil, "skip this run asks no name server"},
		{"one node", checktest.Nodes(checktest.Four(), 1), here, "skip one node"},
		{"no store", func() preflight.Input { in := checktest.Four(); in.Job.Store.Set = false; return in }(), here,
			"skip the store is not known yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Resolve = tt.resolve
			checktest.Wants(t, checktest.Verdict(t, Checks(), "store.resolves", tt.in), tt.want)
		})
	}
}

// dialer connects to what is listed, refuses the rest and never answers for
// what is silent.
func dialer(t *testing.T, open, silent string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		switch {
		case strings.Contains(open, addr):
			a, b := net.Pipe()
			t.Cleanup(func() {
				b.Close()
				if _, err := a.Write(nil); err == nil {
					t.Errorf("the connection to %s was left open", addr)
				}
			})
			return a, nil
		case strings.Contains(silent, "?"+addr):
			return nil, &net.OpError{Op: "dial", Net: network,
				Err: &net.DNSError{Err: "i/o timeout", Name: addr, IsTimeout: true}}
		case strings.Contains(silent, addr):
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
}

func TestStoreAnswers(t *testing.T) {
	ext := external(checktest.Four(), "http://a:2379", "http://b:2379")
	own := checktest.Four()
	own.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
	for _, tt := range []struct {
		name         string
		in           preflight.Input
		open, silent string
		want         string
	}{
		{"embedded, up", checktest.Four(), "host0:29377", "", "ok host0:29377 answers"},
		{"embedded, not up yet", checktest.Four(), "", "", "skip launch waits for it"},
		{"embedded, silent", checktest.Four(), "", "host0:29377", "warn host0:29377 does not answer, not even"},
		{"embedded, its name not found in time", checktest.Four(), "", "?host0:29377",
			"skip could not tell: the address of host0:29377"},
		{"embedded here", own, "", "", "skip this node hosts the store"},
		{"external, all", ext, "a:2379 b:2379", "", "ok a:2379, b:2379 answers"},
		{"external, one of two", ext, "a:2379", "", "warn 1 of the store's 2"},
		{"external, none", ext, "", "", "warn nothing accepts connections at a:2379, b:2379 yet"},
		{"external, silent", ext, "", "a:2379 b:2379", "warn does not answer within 2s"},
		{"external, without a port", external(checktest.Four(), "http://a"), "a:2379", "", "ok a:2379"},
		{"one node", checktest.Nodes(checktest.Four(), 1), "", "", "skip one node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Dial = dialer(t, tt.open, tt.silent)
			checktest.Wants(t, checktest.Verdict(t, Checks(), "store.answers", tt.in), tt.want)
		})
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "store.answers", checktest.Four()),
		"skip this run opens no connection")
}

// A name may have several addresses, and name servers may answer for any name.
func TestStoreAnswersAtTheAddressesOfItsName(t *testing.T) {
	is := func(addrs ...string) func(context.Context, string) ([]netip.Addr, error) {
		return func(context.Context, string) ([]netip.Addr, error) {
			return finding.Map(addrs, netip.MustParseAddr), nil
		}
	}
	server := netip.MustParseAddrPort("10.0.0.53:53")
	says := func(all map[string]string) func(context.Context, string) []dns.Said {
		return func(_ context.Context, name string) []dns.Said {
			a := dns.Answer{Name: strings.TrimSuffix(name, "."), Says: dns.NotFound}
			at, ok := all[name]
			if !ok {
				at, ok = all["*"]
			}
			if ok {
				a.Says, a.Addrs = dns.Found, []netip.Addr{netip.MustParseAddr(at)}
			}
			return []dns.Said{{Server: server, Answers: []dns.Answer{a}}}
		}
	}
	timeout := func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	}
	for name, tt := range map[string]struct {
		resolve      func(context.Context, string) ([]netip.Addr, error)
		servers      map[string]string
		open, silent string
		want, seen   string
	}{
		"two addresses, one dead": {is("10.0.0.9", "10.0.0.1"), nil, "10.0.0.1:29377", "10.0.0.9:29377",
			"warn host0.lab has several addresses, and 10.0.0.9:29377 does not answer; 10.0.0.1:29377 does",
			"connect 10.0.0.9:29377, which is host0.lab"},
		"two addresses, one dead, no store yet": {is("10.0.0.9", "10.0.0.1"), nil, "", "10.0.0.9:29377",
			"warn 10.0.0.9:29377 does not answer; 10.0.0.1:29377 does", "connect 10.0.0.9:29377"},
		"both dead": {is("10.0.0.9", "10.0.0.8"), nil, "", "10.0.0.9:29377 10.0.0.8:29377",
			"warn host0.lab:29377 does not answer, not even", "connect 10.0.0.8:29377"},
		"no IPv6 on the way": {is("fd00::9", "10.0.0.1"), nil, "10.0.0.1:29377", "[fd00::9]:29377",
			"ok host0.lab:29377 answers", ""},
		"two addresses that answer": {is("10.0.0.9", "10.0.0.1"), nil, "10.0.0.1:29377 10.0.0.9:29377", "",
			"ok host0.lab:29377 answers", ""},
		"the name was not found in time": {timeout, nil, "host0.lab:29377", "", "skip could not tell: the address of", ""},
		"servers that answer for any name": {is("10.0.0.9"), map[string]string{"*": "10.0.0.9"}, "", "",
			"warn the name servers answer for any name in lab with 10.0.0.9, for host0.lab, too", "no-such-host.lab: 10.0.0.9"},
		"servers that answer for any other name": {is("10.0.0.1"),
			map[string]string{"*": "10.0.0.9", "host0.lab": "10.0.0.1"}, "", "", "skip launch waits for it", ""},
		"any name, and a store is there": {is("10.0.0.9"), map[string]string{"*": "10.0.0.9"}, "10.0.0.9:29377", "",
			"ok host0.lab:29377 answers", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := storeAt(checktest.Four(), "host0.lab")
			in.Resolve, in.Dial, in.Servers = tt.resolve, dialer(t, tt.open, tt.silent), says(tt.servers)
			in.Node.System.Resolver.Services = []string{"files", "dns"}
			got := checktest.Verdict(t, Checks(), "store.answers", in)
			checktest.Wants(t, got, tt.want)
			if text := fmt.Sprint(got.Seen); !strings.Contains(text, tt.seen) {
				t.Errorf("seen %s, want %q", text, tt.seen)
			}
		})
	}
}

func TestStorePort(t *testing.T) {
	own := checktest.Four()
	own.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		use  preflight.PortUse
		err  error
		want string
	}{
		{"free", own, preflight.PortUse{}, nil, "ok port 29377 is free"},
		{"taken", own, preflight.PortUse{Taken: true, By: "python3 (pid 7)"}, nil,
			"fail port 29377, on which this node hosts the store, is taken by python3 (pid 7)"},
		{"by a launch", own, preflight.PortUse{Taken: true, Launch: true, By: "launch (pid 7)"}, nil,
			"skip launch (pid 7) has port 29377"},
		{"by an unknown process", own, preflight.PortUse{Taken: true}, nil,
			"skip a process that this user cannot see has port"},
		{"by a tunnel to the store", own, preflight.PortUse{Taken: true, By: "ssh (pid 7)"}, nil,
			"skip ssh (pid 7) has port"},
		{"no such address", own, preflight.PortUse{}, syscall.EADDRNOTAVAIL, "skip could not tell"},
		{"another node's", checktest.Four(), preflight.PortUse{Taken: true, By: "python3 (pid 7)"}, nil,
			"skip this node does not host"},
		{"one node", checktest.Nodes(own, 1), preflight.PortUse{Taken: true, By: "python3 (pid 7)"}, nil, "skip one node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PortUse = func(at netip.AddrPort) (preflight.PortUse, error) {
				if at != own.Serve[0] {
					t.Errorf("asked for %s", at)
				}
				return tt.use, tt.err
			}
			f := checktest.Verdict(t, Checks(), "store.port", tt.in)
			checktest.Wants(t, f, tt.want)
			if want := "on every node: --store host0:29378; or end python3 (pid 7)"; tt.use.Taken && f.Fix != "" &&
				f.Fix != want {
				t.Errorf("fix %q, want %q", f.Fix, want)
			}
		})
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "store.port", own), "skip this run looks at no port")
}

func TestAUnknownStoreIsNotDialled(t *testing.T) {
	in := checktest.Four()
	in.Resolve = resolver(nil)
	in.Dial = func(context.Context, string, string) (net.Conn, error) { panic("dialled") }
	got, err := preflight.Run(t.Context(), Checks(), in,
		preflight.Options{Only: []string{"store.resolves", "store.answers"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"warn store.resolves: host0 does not resolve on this node yet: there is no such name; launch asks " +
		"again until the join timeout",
		"skip store.answers: could not tell: the address of host0:29377 was not found in time"}
	if diff := cmp.Diff(want, checktest.Lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
