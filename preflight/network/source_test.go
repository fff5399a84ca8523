package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"launch/fabric"
	"launch/preflight/checktest"
)

// at is a connection with a local address.
type at struct {
	net.Conn
	local netip.Addr
}

func (c at) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.local, 40000)) }
func (c at) Close() error        { return nil }

// A store that is silent to the address that the route takes may answer another one of this node.
func TestTheSourceAddressThatAStoreAnswersIsNamed(t *testing.T) {
	routed, other := netip.MustParseAddr("10.0.0.77"), netip.MustParseAddr("10.0.0.7")
	for name, tt := range map[string]struct {
		from error // what a call from the other address gives
		want string
	}{
		"answers": {nil, "warn answers calls from 10.0.0.7 of this node, but not from 10.0.0.77"},
		"refuses": {syscall.ECONNREFUSED, "warn answers calls from 10.0.0.7 of this node"},
		"silent":  {context.DeadlineExceeded, "warn does not answer, not even with a refusal"},
		"no such": {syscall.EADDRNOTAVAIL, "warn does not answer, not even with a refusal"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := checktest.Four()
				in.Job.Store.V.Host = "10.0.0.1"
				in.Node.Interfaces = []fabric.Interface{{Name: "eth0", Kind: "physical", Up: true, Addrs: []netip.Prefix{
					netip.PrefixFrom(routed, 24), netip.PrefixFrom(other, 24)}}}
				in.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if network == "udp" {
						return at{local: routed}, nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}
				in.DialFrom = func(_ context.Context, from netip.Addr, _ string) (net.Conn, error) {
					if from != other {
						t.Errorf("called from %s", from)
					}
					return at{}, tt.from
				}
				checktest.Wants(t, checktest.Verdict(t, Checks(), "store.answers", in), tt.want)
			})
		})
	}
}

// A reason that this node shows itself precedes an answer to another address: a tunnel may be dead one way only.
func TestACertainReasonPrecedesAnotherSource(t *testing.T) {
	for want, stuck := range map[string]fabric.Fault{
		"warn the reason is here: the way of this node": {Why: "the way of this node", Do: "nft list ruleset"},
		"warn answers calls from 10.0.0.7":              {},
	} {
		synctest.Test(t, func(t *testing.T) {
			in := checktest.Four()
			in.Job.Store.V.Host = "10.0.0.1"
			in.Node.Interfaces = []fabric.Interface{{Name: "eth0", Kind: "physical", Up: true, Addrs: []netip.Prefix{
				netip.MustParsePrefix("10.0.0.77/24"), netip.MustParsePrefix("10.0.0.7/24")}}}
			in.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				if network == "udp" {
					return at{local: netip.MustParseAddr("10.0.0.77")}, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			in.DialFrom = func(context.Context, netip.Addr, string) (net.Conn, error) { return at{}, nil }
			in.Stuck = func([]netip.AddrPort) fabric.Fault { return stuck }
			in.Detour = func(netip.AddrPort) fabric.Detour { return fabric.Detour{} }
			checktest.Wants(t, checktest.Verdict(t, Checks(), "store.answers", in), want)
		})
	}
}

// A store that is silent: first what this node shows of the way there, then whether a machine is there.
func TestWhatThisNodeShowsOfASilentStore(t *testing.T) {
	odd := fabric.Detour{Fault: fabric.Fault{Why: "this node sends packets to a router", Do: "ip rule"}}
	down := fabric.Fault{Why: "eth0 is down", Do: "ip link set eth0 up"}
	for name, tt := range map[string]struct {
		stuck, odd fabric.Fault
		there      fabric.Presence
		on         string // where NAT sends the calls
		want       string
		trail      fabric.Trail
		around     fabric.Around
		unheard    fabric.Fault
	}{
		"another machine answers": {there: fabric.Here, want: "warn 10.0.0.3 answers this node: a firewall or a strict " +
			"rp_filter there", around: fabric.Around{Answer: []netip.Addr{netip.MustParseAddr("10.0.0.3")}}},
		"no machine answers by IP": {there: fabric.Here, want: "warn also 10.0.0.3, 10.0.0.4 answer ARP and nothing else. " +
			"A filter at this node's own port", around: fabric.Around{Interface: "eth0",
			Own: netip.MustParseAddr("10.0.0.7"), Mute: []netip.Addr{netip.MustParseAddr("10.0.0.3"),
				netip.MustParseAddr("10.0.0.4")}}},
		"one machine has a firewall": {there: fabric.Here, want: "warn so it is up: a firewall or a strict rp_filter",
			around: fabric.Around{Interface: "eth0", Own: netip.MustParseAddr("10.0.0.7"),
				Mute: []netip.Addr{netip.MustParseAddr("10.0.0.3")}}},
		"a router": {want: "warn the router 10.1.0.1 says that packets do not get from it to 10.0.0.1",
			trail: fabric.Trail{To: netip.MustParseAddr("10.0.0.1"), Router: netip.MustParseAddr("10.9.0.1"),
				Refused: netip.MustParseAddr("10.1.0.1")}},
		"a silent router": {want: "warn that machine is down, its address belongs to another one, a firewall drops the " +
			"packets, or the network loses most of them, or the router 10.9.0.1 on the way, which says nothing of them",
			trail: fabric.Trail{Router: netip.MustParseAddr("10.9.0.1")}},
		"a reason":        {stuck: down, odd: odd.Fault, want: "warn the reason is here: eth0 is down"},
		"an unusual way":  {odd: odd.Fault, there: fabric.Here, want: "warn the way to it is unusual: this node sends"},
		"a machine there": {there: fabric.Here, want: "warn so it is up: a firewall or a strict rp_filter"},
		"no machine":      {there: fabric.Silent, want: "warn no machine answers for that address"},
		"no machine at all": {there: fabric.Silent, want: "warn eth0 is a macvlan",
			unheard: fabric.Fault{Why: "eth0 is a macvlan", Do: "ip -d link show eth0"}},
		"a machine hears it": {there: fabric.Here, want: "warn so it is up: a firewall or a strict rp_filter",
			unheard: fabric.Fault{Why: "eth0 is a macvlan", Do: "ip -d link show eth0"}},
		"not known": {want: "warn that machine is down, its address belongs"},
		"NAT":       {on: "10.0.2.2:29377", want: "warn that machine is down, its address belongs"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := checktest.Four()
				in.Job.Store.V.Host = "10.0.0.1"
				in.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				in.Stuck = func([]netip.AddrPort) fabric.Fault { return tt.stuck }
				in.Detour = func(netip.AddrPort) fabric.Detour { return fabric.Detour{Fault: tt.odd} }
				in.Neighbour = func(netip.Addr) fabric.Presence { return tt.there }
				in.Trail = func(context.Context, netip.Addr) fabric.Trail { return tt.trail }
				in.Around = func(context.Context, netip.AddrPort) fabric.Around { return tt.around }
				in.Unheard = func(netip.Addr) fabric.Fault { return tt.unheard }
				in.Redirected = func(netip.AddrPort) (on netip.AddrPort) {
					on, _ = netip.ParseAddrPort(tt.on)
					return on
				}
				got := checktest.Verdict(t, Checks(), "store.answers", in)
				checktest.Wants(t, got, tt.want)
				if seen := fmt.Sprint(got.Seen); strings.Contains(seen, "NAT") != (tt.on != "") || !strings.Contains(seen, tt.on) {
					t.Errorf("seen: %s", seen)
				}
			})
		})
	}
}
