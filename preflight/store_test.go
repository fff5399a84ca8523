package preflight

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/job"
)

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
	scheduled := four()
	scheduled.Job.Vouch = job.Scheduled
	for _, tt := range []struct {
		name    string
		in      Input
		resolve func(context.Context, string) ([]netip.Addr, error)
		want    string
	}{
		{"known", four(), here, "ok host0 is 10.0.0.1"},
		{"an address", four().external("http://10.0.0.1:2379"), nil, "ok needs no name server"},
		{"an IPv6 address", four().external("https://[fd00::1]:2379"), nil, "ok fd00::1 needs no name server"},
		{"unknown", four(), resolver(nil), "fail host0 does not resolve"},
		{"unknown yet, in Kubernetes", scheduled, resolver(nil), "skip does not resolve yet"},
		{"name server in trouble", four(), busy, "skip could not tell"},
		{"one of two unknown", four().external("http://host0:2379", "http://host1:2379"), here, "warn host1 does not resolve"},
		{"both unknown", four().external("http://host1:2379", "http://host2:2379"), here, "fail host1 does not resolve"},
		{"dry run", four(), nil, "skip no name server is asked"},
		{"one node", four().nodes(1), here, "skip one node"},
		{"no store", func() Input { in := four(); in.Job.Store.Set = false; return in }(), here, "skip no meeting point"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Resolve = tt.resolve
			wants(t, verdict(t, "store.resolves", tt.in), tt.want)
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
			return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "i/o timeout", Name: addr, IsTimeout: true}}
		case strings.Contains(silent, addr):
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
}

func TestStoreAnswers(t *testing.T) {
	ext := four().external("http://a:2379", "http://b:2379")
	own := four()
	own.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
	for _, tt := range []struct {
		name         string
		in           Input
		open, silent string
		want         string
	}{
		{"embedded, up", four(), "host0:29377", "", "ok host0:29377 answers"},
		{"embedded, not up yet", four(), "", "", "skip launch waits for it"},
		{"embedded, silent", four(), "", "host0:29377", "warn host0:29377 does not answer at all"},
		{"embedded, its name not found in time", four(), "", "?host0:29377", "skip could not tell: the address of host0:29377"},
		{"embedded here", own, "", "", "skip this node hosts the store"},
		{"external, all", ext, "a:2379 b:2379", "", "ok a:2379, b:2379 answers"},
		{"external, one of two", ext, "a:2379", "", "warn 1 of the store's 2"},
		{"external, none", ext, "", "", "warn nothing takes connections at a:2379, b:2379 yet"},
		{"external, silent", ext, "", "a:2379 b:2379", "warn does not answer within 2s"},
		{"external, without a port", four().external("http://a"), "a:2379", "", "ok a:2379"},
		{"one node", four().nodes(1), "", "", "skip one node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Dial = dialer(t, tt.open, tt.silent)
			wants(t, verdict(t, "store.answers", tt.in), tt.want)
		})
	}
	wants(t, verdict(t, "store.answers", four()), "skip no connection is opened")
}

func TestStorePort(t *testing.T) {
	own := four()
	own.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
	for _, tt := range []struct {
		name string
		in   Input
		use  PortUse
		err  error
		want string
	}{
		{"free", own, PortUse{}, nil, "ok port 29377 is free"},
		{"taken", own, PortUse{Taken: true, By: "python3 (pid 7)"}, nil, "fail port 29377, where this node is to host the store, is taken by python3 (pid 7)"},
		{"by a launch", own, PortUse{Taken: true, Launch: true, By: "launch (pid 7)"}, nil, "skip launch (pid 7) has port 29377"},
		{"by somebody", own, PortUse{Taken: true}, nil, "skip a process that this user cannot see has port"},
		{"by a tunnel to the store", own, PortUse{Taken: true, By: "ssh (pid 7)"}, nil, "skip ssh (pid 7) has port"},
		{"no such address", own, PortUse{}, syscall.EADDRNOTAVAIL, "skip could not tell"},
		{"another node's", four(), PortUse{Taken: true, By: "python3 (pid 7)"}, nil, "skip this node does not host"},
		{"one node", own.nodes(1), PortUse{Taken: true, By: "python3 (pid 7)"}, nil, "skip one node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PortUse = func(at netip.AddrPort) (PortUse, error) {
				if at != own.Serve[0] {
					t.Errorf("asked for %s", at)
				}
				return tt.use, tt.err
			}
			f := verdict(t, "store.port", tt.in)
			wants(t, f, tt.want)
			if want := "on every node: --store host0:29378; or end python3 (pid 7)"; tt.use.Taken && f.Fix != "" && f.Fix != want {
				t.Errorf("fix %q, want %q", f.Fix, want)
			}
		})
	}
	wants(t, verdict(t, "store.port", own), "skip no port is looked at")
}

func TestAUnknownStoreIsNotDialled(t *testing.T) {
	in := four()
	in.Resolve = resolver(nil)
	in.Dial = func(context.Context, string, string) (net.Conn, error) { panic("dialled") }
	got, err := Local(t.Context(), in, Options{Only: []string{"store.resolves", "store.answers"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fail store.resolves: host0 does not resolve on this node", "skip store.answers: needs store.resolves"}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
