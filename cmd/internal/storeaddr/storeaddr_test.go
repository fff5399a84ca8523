package storeaddr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/internal/job"
	"launch/internal/setting"
)

func prefixes(ss ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range ss {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// host0 is a machine with one fabric interface, a bridge and Debian's line for
// its own name.
var host0 = fabric.Node{Hostname: "host0", Interfaces: []fabric.Interface{
	{Index: 1, Name: "lo", Kind: "loopback", Up: true, Addrs: prefixes("127.0.0.1/8")},
	{Index: 2, Name: "docker0", Kind: "bridge", Up: true, Addrs: prefixes("172.17.0.1/16")},
	{Index: 3, Name: "eth0", Kind: "physical", Up: true, Addrs: prefixes("10.77.0.1/24", "fd00::1/64")},
}}

// route answers like the kernel of host0.
func route(dst netip.Addr) (fabric.Route, error) {
	switch {
	case dst.IsLoopback(), dst == netip.MustParseAddr("172.17.0.1"):
		return fabric.Route{Src: dst, Interface: "lo"}, nil
	case dst.Is6():
		return fabric.Route{}, errors.New("network is unreachable")
	}
	return fabric.Route{Src: netip.MustParseAddr("10.77.0.1"), Interface: "eth0"}, nil
}

func embedded(host string) job.Job {
	return job.Job{Store: setting.Value[job.Store]{Set: true, V: job.Store{Embedded: true, Host: host, Port: 29377}}}
}

func names(m map[string]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		a, ok := m[host]
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
}

func TestFind(t *testing.T) {
	yes, no := true, false
	resolve := names(map[string]string{"host0": "10.77.0.1", "self": "127.0.1.1", "host1": "10.77.0.2",
		"vip": "10.99.0.1", "bridged": "172.17.0.1", "localhost": "127.0.0.1"})
	for _, tc := range []struct {
		name, store, addr string
		hosts             *bool
		serve, own        string
		guess             bool
	}{
		{name: "the host of the store is known by its address", store: "host0",
			serve: "10.77.0.1:29377", own: "10.77.0.1"},
		{name: "an address literal", store: "10.77.0.1", serve: "10.77.0.1:29377", own: "10.77.0.1"},
		{name: "another node hosts it", store: "host1", own: "10.77.0.1"},
		{name: "a name that is loopback on this node is another address on others", store: "self",
			serve: "0.0.0.0:29377", own: "10.77.0.1", guess: true},
		{name: "a typed address is no guess", store: "self", addr: "docker0",
			serve: "0.0.0.0:29377", own: "172.17.0.1"},
		{name: "a name that is docker0's on this node is another address on others", store: "bridged",
			serve: "172.17.0.1:29377 10.77.0.1:29377", own: "10.77.0.1", guess: true},
		{name: "docker0's address, as typed: for containers of this machine", store: "172.17.0.1",
			serve: "172.17.0.1:29377", own: "172.17.0.1"},
		{name: "all nodes on one machine", store: "localhost", serve: "127.0.0.1:29377", own: "127.0.0.1"},
		{name: "a virtual address", store: "vip", hosts: &yes,
			serve: "0.0.0.0:29377", own: "10.77.0.1", guess: true},
		{name: "--store-host no", store: "host0", hosts: &no, own: "10.77.0.1"},
		{name: "an interface as address", store: "host1", addr: "docker0", own: "172.17.0.1"},
		{name: "a network as address", store: "host1", addr: "10.77.0.0/16", own: "10.77.0.1"},
		{name: "an address as address", store: "host1", addr: "fd00::1", own: "fd00::1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := embedded(tc.store)
			if tc.addr != "" {
				j.Addr = setting.Value[string]{V: tc.addr, Set: true}
			}
			p, err := Finder{Resolve: resolve, Route: route, Hosts: tc.hosts}.Find(t.Context(), j, host0)
			if err != nil {
				t.Fatal(err)
			}
			serve := strings.Trim(fmt.Sprint(p.Serve), "[]")
			if diff := cmp.Diff([]string{tc.serve, tc.own}, []string{serve, p.Addr.String()}); diff != "" {
				t.Errorf("serve, address (-want +got):\n%s", diff)
			}
			at := tc.store + ":29377"
			if tc.name == "a virtual address" { // the gateway need not send its packets back
				at = "127.0.0.1:29377"
			}
			if !slices.Equal(p.Endpoints, []string{at}) {
				t.Errorf("endpoints %q, want %s", p.Endpoints, at)
			}
			if p.Guess != tc.guess {
				t.Errorf("a guess: %v, want %v", p.Guess, tc.guess)
			}
		})
	}
}

// TestFindReportsEachReasonOnce: the resolver's error contains the port of each try,
// and alternates between several name servers.
func TestFindReportsEachReasonOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var reasons []string
	tries := 0
	report := func(_ string, err error) { reasons = append(reasons, err.Error()) }
	f := Finder{Route: route, Report: report, Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		tries++
		why := fmt.Sprintf("read udp 10.0.0.7:%d->10.0.0.%d:53: read: connection refused", 30000+tries, 2+tries%2)
		return nil, &net.DNSError{Name: host, Err: why}
	}}
	_, err := f.Find(ctx, embedded("host0"), host0)
	if e, ok := errors.AsType[*NameError](err); !ok || strings.Contains(e.Error(), "->") {
		t.Errorf("got %v", err)
	}
	want := []string{"the name server at 10.0.0.3:53: read: connection refused",
		"the name server at 10.0.0.2:53: read: connection refused"}
	if diff := cmp.Diff(want, reasons); tries < 4 || diff != "" {
		t.Errorf("%d tries (-want +got):\n%s", tries, diff)
	}
}

func TestFindEndsTheMomentTheNameAppears(t *testing.T) {
	appears := time.Now().Add(300 * time.Millisecond)
	reports := 0
	report := func(string, error) { reports++ }
	f := Finder{Route: route, Report: report, Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
		if time.Now().Before(appears) {
			return names(nil)(ctx, host)
		}
		return names(map[string]string{host: "10.77.0.2"})(ctx, host)
	}}
	if _, err := f.Find(t.Context(), embedded("late"), host0); err != nil {
		t.Fatal(err)
	}
	if reports != 1 {
		t.Errorf("%d reports that the name does not resolve, want one", reports)
	}
}

func TestFindReportsAnUnknownName(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Finder{Route: route, Resolve: names(nil)}.Find(ctx, embedded("hsot0"), host0)
	if e, ok := errors.AsType[*NameError](err); !ok || e.Host != "hsot0" || e.Err.Error() != "no such host" {
		t.Errorf("got %v", err)
	}
}

func TestFindReportsANameThatNoServerKnows(t *testing.T) {
	for range 20 { // both give up at the same moment
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		f := Finder{Route: route, Resolve: names(nil), Servers: func(context.Context, string) []netip.Addr { return nil }}
		_, err := f.Find(ctx, embedded("hsot0"), host0)
		cancel()
		if _, ok := errors.AsType[*NameError](err); !ok {
			t.Fatalf("got %v", err)
		}
	}
}

func TestFindListsTheAddressesOfThisNode(t *testing.T) {
	j := embedded("10.77.0.2")
	j.Addr = setting.Value[string]{V: "ib0", Set: true}
	_, err := Finder{Route: route}.Find(t.Context(), j, host0)
	if e, ok := errors.AsType[*AddrError](err); !ok || len(e.Have) != 4 {
		t.Errorf("got %v", err)
	}
}

// A resolver that hangs at a dead server, or that caches a missing name, does not
// delay the start.
func TestFindAsksTheServersAsWellAsTheSystem(t *testing.T) {
	gone := names(nil)
	hangs := func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, resolve := range map[string]func(context.Context, string) ([]netip.Addr, error){
		"it hangs": hangs, "no such name": gone} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			asked := 0
			f := Finder{Route: route, Resolve: resolve, Servers: func(context.Context, string) []netip.Addr {
				if asked++; asked < 3 {
					return nil
				}
				return []netip.Addr{netip.MustParseAddr("10.77.0.2")}
			}}
			p, err := f.Find(ctx, embedded("host1"), host0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"10.77.0.2:29377"}, p.Endpoints); diff != "" || p.Serve != nil {
				t.Errorf("the store's client would not find the name: endpoints (-want +got):\n%s, serve %v", diff, p.Serve)
			}
		})
	}
}

func TestFindAsksTheSystemFirst(t *testing.T) {
	known := names(map[string]string{"host1": "10.77.0.2"})
	f := Finder{Route: route, Resolve: known, Servers: func(context.Context, string) []netip.Addr {
		t.Error("a server was asked, though the system knows the name")
		return nil
	}}
	p, err := f.Find(t.Context(), embedded("host1"), host0)
	if diff := cmp.Diff([]string{"host1:29377"}, p.Endpoints); err != nil || diff != "" {
		t.Errorf("%v; endpoints (-want +got):\n%s", err, diff)
	}
	// An external store keeps its name, which may be in its certificate.
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	j := job.Job{Store: setting.Value[job.Store]{Set: true, V: job.Store{Endpoints: []string{"https://etcd:2379"}}}}
	if _, err := f.Find(ctx, j, host0); err == nil {
		t.Error("an unknown etcd was found")
	}
}

// One Service has the addresses of all pods, or of those that run already: node 0 hosts the store.
func TestNodeZeroHostsTheStoreOfASharedName(t *testing.T) {
	resolve := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "early" { // only this pod is in the record so far
			return []netip.Addr{netip.MustParseAddr("10.77.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.1")}, nil
	}
	for _, host := range []string{"train", "early"} {
		for index := range 2 {
			j := embedded(host)
			j.Store.V.Shared, j.Index = true, setting.Value[int]{V: index, Set: true}
			p, err := Finder{Resolve: resolve, Route: route}.Find(t.Context(), j, host0)
			if err != nil || (len(p.Serve) > 0) != (index == 0) {
				t.Errorf("%s, node %d: hosts at %v, %v", host, index, p.Serve, err)
			}
		}
	}
}

// Only a name can have the addresses of several nodes, and only where nothing else says which node hosts the store.
func TestWhereTheNodesChooseTheHost(t *testing.T) {
	no, several := false, func(context.Context, string) (out []netip.Addr, err error) {
		for _, a := range []string{"10.77.0.2", "10.77.0.1", "127.0.1.1"} {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	shared := embedded("train")
	shared.Store.V.Shared = true
	for name, tt := range map[string]struct {
		j     job.Job
		hosts *bool
		want  bool
	}{
		"a name":              {embedded("train"), nil, true},
		"node 0 of a Service": {shared, nil, false},
		"--store-host no":     {embedded("train"), &no, false},
		"an address":          {embedded("10.77.0.1"), nil, false},
		"localhost":           {embedded("localhost"), nil, false},
	} {
		p, err := Finder{Resolve: several, Route: route, Hosts: tt.hosts}.Find(t.Context(), tt.j, host0)
		if err != nil || p.Contested != tt.want {
			t.Errorf("%s: the nodes choose: %v, %v; want %v", name, p.Contested, err, tt.want)
		}
	}
	p, err := Finder{Resolve: several, Route: route}.Find(t.Context(), embedded("train"), host0)
	if others := fmt.Sprint(p.Others(host0)); err != nil || others != "[10.77.0.2]" {
		t.Errorf("addresses of others: %s, %v", others, err)
	}
	if p.Join(netip.MustParseAddr("10.77.0.2")); len(p.Serve) > 0 || p.Guess || p.Listen != p.Addr {
		t.Errorf("after it joins another node: %+v", p)
	}
}
