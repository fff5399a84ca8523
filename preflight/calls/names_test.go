package calls

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/internal/dns"
	"launch/rendezvous"
)

// nameServer is one that answers each question by a code, or not at all.
func nameServer(t *testing.T, rcode int) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 2000); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if rcode >= 0 && n > 4 { // the question as it came, with the bit of an answer (RFC 1035, 4.1.1)
				buf[2], buf[3] = buf[2]|0x80, byte(rcode)
				_, _ = conn.WriteTo(buf[:n], from)
			}
		}
	}()
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

func TestWhatComesOfANodesName(t *testing.T) {
	addr := netip.MustParseAddr
	node := fabric.Node{Hostname: "here", Interfaces: []fabric.Interface{{Name: "eth0", Up: true,
		Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}}}
	to := rendezvous.Partner{Rank: 3, Addr: addr("10.0.0.4")}
	there := about{Host: "there", Addrs: []netip.Addr{addr("10.0.0.4"), addr("192.168.9.4")}}
	is := func(addrs ...string) func(context.Context, string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, a := range addrs {
			out = append(out, addr(a))
		}
		return func(context.Context, string) ([]netip.Addr, error) { return out, nil }
	}
	fails := func(e net.DNSError) func(context.Context, string) ([]netip.Addr, error) {
		return func(context.Context, string) ([]netip.Addr, error) { return nil, &e }
	}
	slow := func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, &net.DNSError{IsTimeout: true}
	}
	well, silent, broken := nameServer(t, 3), nameServer(t, -1), nameServer(t, 2)
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	stray := func(a string, near, hosts bool) Found {
		out := Found{Known: []int{3}, Strays: []Stray{{To: 3, Addr: addr(a), Near: near, Hosts: hosts}}}
		if hosts {
			out.Known = nil
		}
		return out
	}
	for name, tc := range map[string]struct {
		said    about
		resolve func(context.Context, string) ([]netip.Addr, error)
		hosts   bool
		server  netip.AddrPort
		want    Found
	}{
		"its address":            {there, is("10.0.0.4"), false, well, Found{Known: []int{3}}},
		"another address of its": {there, is("2001:db8::9", "192.168.9.4"), false, well, Found{Known: []int{3}}},
		"from /etc/hosts":        {there, is("10.0.0.4"), true, well, Found{}},
		"a neighbour's":          {there, is("10.0.0.7"), false, well, stray("10.0.0.7", true, false)},
		"loopback in /etc/hosts": {there, is("127.0.1.1"), true, well, stray("127.0.1.1", false, true)},
		"an address far away":    {there, is("203.0.113.9"), false, well, stray("203.0.113.9", false, false)},
		"no such name": {there, fails(net.DNSError{IsNotFound: true}), false, well,
			Found{Unknown: []int{3}}},
		"a server that is silent": {there, slow, false, silent, Found{Mute: "127.0.0.1 says no answer"}},
		"a server that is broken": {there, fails(net.DNSError{IsTemporary: true}), false, broken,
			Found{Mute: "127.0.0.1 says SERVFAIL"}},
		"no server is set up":       {there, fails(net.DNSError{IsTemporary: true}), false, closed, Found{}},
		"a server that is slow":     {there, slow, false, well, Found{}},
		"the name of this node":     {about{Host: "HERE"}, is("10.0.0.7"), false, well, Found{Alike: []int{3}}},
		"nothing is known about it": {about{}, is("10.0.0.7"), false, well, Found{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &lookup{node: node, Names: Names{Resolve: tc.resolve,
				Servers: dns.Config{Servers: []netip.AddrPort{tc.server}}, InHosts: func(string) bool { return tc.hosts }}}
			text, _ := json.Marshal(tc.said)
			began := time.Now()
			n.check(t.Context(), to, text)
			if diff := cmp.Diff(tc.want, n.result(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if took := time.Since(began); took > nameBudget+time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestANodeSaysOfItselfWhatFits(t *testing.T) {
	n := fabric.Node{Hostname: string(make([]byte, 64))}
	for i := range 100 {
		at := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666").As16()
		at[15] = byte(i)
		n.Interfaces = append(n.Interfaces, fabric.Interface{Up: true,
			Addrs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16(at), 64)}})
	}
	if said := About(n, netip.Addr{}); len(said) > 1024 {
		t.Errorf("%d bytes", len(said))
	}
}
