package sidechannel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"launch/lab/netns"
)

const loadSize = 256 << 10 // what the checks send

func at(h *netns.Host, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(h.Addr), port)
}

var anywhere = netip.MustParseAddrPort("0.0.0.0:0")

// wire joins two hosts by a cable of their own.
func wire(t *testing.T, a, b *netns.Host, ifA, ifB string, mtu int) {
	t.Helper()
	hold := b.Command(t.Context(), "sleep", "60")
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Process.Kill(); _ = hold.Wait() }()
	// Once it is what it shall become, it is in the other namespace.
	sh(t, a, `until [ "$(cat /proc/%[3]d/comm)" = sleep ]; do sleep 0.02; done
ip link add %[1]s mtu %[4]d type veth peer name %[2]s mtu %[4]d netns %[3]d; ip link set %[1]s up`,
		ifA, ifB, hold.Process.Pid, mtu)
	sh(t, b, "ip link set %s up", ifB)
}

// jumbo is caller - router - router - peer, 9000 bytes at the ends and less in
// the middle, in both families.
func jumbo(t *testing.T, middle int) (caller, peer *netns.Host, routers []*netns.Host, v4, v6 netip.Addr) {
	lab := netns.New(t, 4)
	c, r, s, p := lab.Hosts[0], lab.Hosts[1], lab.Hosts[2], lab.Hosts[3]
	wire(t, c, r, "j0", "j0", 9000)
	wire(t, r, s, "j1", "j1", middle)
	wire(t, s, p, "j2", "j2", 9000)
	ip := func(h *netns.Host, commands ...string) {
		t.Helper()
		for _, line := range commands {
			sh(t, h, "ip %s", line)
		}
	}
	ip(c, "addr add 10.1.0.1/24 dev j0", "route add 10.3.0.0/24 via 10.1.0.2",
		"addr add fd01::1/64 dev j0 nodad", "route add fd03::/64 via fd01::2")
	ip(r, "addr add 10.1.0.2/24 dev j0", "addr add 10.2.0.1/24 dev j1", "route add 10.3.0.0/24 via 10.2.0.2",
		"addr add fd01::2/64 dev j0 nodad", "addr add fd02::1/64 dev j1 nodad", "route add fd03::/64 via fd02::2")
	ip(s, "addr add 10.3.0.2/24 dev j2", "addr add 10.2.0.2/24 dev j1", "route add 10.1.0.0/24 via 10.2.0.1",
		"addr add fd03::2/64 dev j2 nodad", "addr add fd02::2/64 dev j1 nodad", "route add fd01::/64 via fd02::1")
	ip(p, "addr add 10.3.0.1/24 dev j2", "route add 10.1.0.0/24 via 10.3.0.2",
		"addr add fd03::1/64 dev j2 nodad", "route add fd01::/64 via fd03::2")
	for _, h := range []*netns.Host{r, s} {
		sh(t, h, "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
	}
	return c, p, []*netns.Host{r, s}, netip.MustParseAddr("10.3.0.1"), netip.MustParseAddr("fd03::1")
}

// mute lets routers say nothing about packets that are too big.
func mute(t *testing.T, routers []*netns.Host) {
	t.Helper()
	for _, h := range routers {
		drop(t, h, "output", "icmp type destination-unreachable drop")
		sh(t, h, "nft 'add rule inet t output icmpv6 type packet-too-big drop'")
	}
}

func TestAHealthyPathIsMeasured(t *testing.T) {
	t.Parallel()
	lab := netns.New(t, 2)
	const skew = 90 * time.Minute
	for _, token := range []string{"", "0123456789abcdef"} {
		port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere, ID: "one", Token: token, Skew: skew})
		got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port), Token: token,
			Opt: Options{IfMTU: 1500, Bulk: loadSize}})
		a := got.Answer
		if got.Cause != "" || a.ID != "one" || a.RTT <= 0 || a.From.String() != lab.Hosts[0].Addr {
			t.Errorf("token %q: got %+v", token, got)
		}
		if want := (MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1500}); a.MTU != want || a.MTU.BlackHole() {
			t.Errorf("token %q: got %+v, want %+v", token, a.MTU, want)
		}
		if a.Bulk.Out != (Flow{Arrived: loadSize}) || a.Bulk.Back != (Flow{Arrived: loadSize}) {
			t.Errorf("token %q: got %+v, want all bytes", token, a.Bulk)
		}
		if off := (a.Offset - skew).Abs(); off > a.Uncertainty || a.Uncertainty > time.Second {
			t.Errorf("token %q: offset %s ± %s, want %s", token, a.Offset, a.Uncertainty, skew)
		}
	}
}

func TestAPeerWithSeveralAddressesAnswersFromTheOneAsked(t *testing.T) {
	t.Parallel()
	lab := netns.New(t, 2)
	sh(t, lab.Hosts[1], "ip addr add 10.77.0.99/24 dev eth0; ip -6 addr add fd77::2/64 dev eth0 nodad")
	sh(t, lab.Hosts[0], "ip -6 addr add fd77::1/64 dev eth0 nodad")
	port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere})
	for _, to := range []string{"10.77.0.99", "10.77.0.2", "fd77::2"} {
		got := probeFrom(t, lab.Hosts[0], calling{To: netip.AddrPortFrom(netip.MustParseAddr(to), port),
			Opt: Options{IfMTU: 1500}})
		if !got.Answer.MTU.Answered || got.Answer.MTU.Back != 1500 {
			t.Errorf("%s: got %+v", to, got.Answer.MTU)
		}
	}
}

func TestABlackHoleIsFoundWithTheSizeThatWorks(t *testing.T) {
	t.Parallel()
	needNft(t)
	for _, tc := range []struct {
		middle int
		mute   bool
	}{{1500, true}, {1500, false}, {1438, true}, {1280, true}} {
		t.Run(fmt.Sprintf("%d bytes in the middle, ICMP dropped %v", tc.middle, tc.mute), func(t *testing.T) {
			t.Parallel()
			caller, peer, routers, v4, v6 := jumbo(t, tc.middle)
			if tc.mute {
				mute(t, routers)
			}
			port := serveOn(t, peer, "listen", listening{At: anywhere, Token: "0123456789abcdef"})
			for _, to := range []netip.Addr{v4, v6} {
				got := probeFrom(t, caller, calling{To: netip.AddrPortFrom(to, port), Token: "0123456789abcdef",
					Opt: Options{IfMTU: 9000, Bulk: loadSize}})
				m, b := got.Answer.MTU, got.Answer.Bulk
				if m.Tried != 9000 || m.Out < tc.middle-30 || m.Out > tc.middle || m.Out != m.Back || m.BlackHole() != tc.mute {
					t.Errorf("%s: got %+v", to, m)
				}
				if want := 0; !tc.mute {
					if want = tc.middle; m.Reported != want || b.Out.Arrived != loadSize || b.Back.Arrived != loadSize {
						t.Errorf("%s: got %+v, %+v; want all bytes, and a report of %d", to, m, b, want)
					}
				} else if !b.Out.Stalled || !b.Back.Stalled || got.Answer.Retrans == 0 {
					t.Errorf("%s: got %+v, %d retransmissions; want both ways stalled", to, b, got.Answer.Retrans)
				}
				if got.Cause != "" || got.Took > 3*time.Second {
					t.Errorf("%s: got %+v, want an answer within 3 s", to, got)
				}
			}
		})
	}
}

func TestABlackHoleInOneDirectionIsDistinguished(t *testing.T) {
	t.Parallel()
	needNft(t)
	for _, there := range []bool{true, false} {
		lab := netns.New(t, 2)
		host := lab.Hosts[1]
		port := serveOn(t, host, "listen", listening{At: anywhere})
		hook := map[bool]string{true: "input", false: "output"}[there]
		drop(t, host, hook, "ip length > 1400 drop")
		got := probeFrom(t, lab.Hosts[0], calling{To: at(host, port), Opt: Options{IfMTU: 1500, Bulk: loadSize}})
		m, b := got.Answer.MTU, got.Answer.Bulk
		if wantOut := map[bool]int{true: 1400, false: 1500}[there]; m.Out != wantOut || m.Back != 1400 || !m.BlackHole() {
			t.Errorf("%s: got %+v, want out %d, back 1400", hook, m, wantOut)
		}
		if b.Out.Stalled != there || b.Back.Stalled == there {
			t.Errorf("%s: got %+v", hook, b)
		}
		if whole := map[bool]Flow{true: b.Back, false: b.Out}[there]; whole.Arrived != loadSize {
			t.Errorf("%s: got %+v, want all bytes on the other way", hook, b)
		}
	}
}

// If only the path back takes less, a router reports to the peer, not to the caller.
func TestANarrowPathBackIsNoBlackHoleToALoad(t *testing.T) {
	t.Parallel()
	caller, peer, routers, v4, _ := jumbo(t, 9000)
	sh(t, routers[1], "ip route change 10.1.0.0/24 via 10.2.0.1 mtu lock 1500")
	port := serveOn(t, peer, "listen", listening{At: anywhere})
	got := probeFrom(t, caller, calling{To: netip.AddrPortFrom(v4, port), Opt: Options{IfMTU: 9000, Bulk: loadSize}})
	if want := (MTU{Answered: true, Tried: 9000, Out: 9000, Back: 1500}); got.Answer.MTU != want {
		t.Errorf("got %+v, want %+v", got.Answer.MTU, want)
	}
	if b := got.Answer.Bulk; b.Out.Arrived != loadSize || b.Back.Arrived != loadSize {
		t.Errorf("got %+v, want all bytes", b)
	}
}

func TestASwitchThatTakesLessIsABlackHole(t *testing.T) {
	t.Parallel()
	lab := netns.New(t, 2) // its switch takes 1500
	for _, h := range lab.Hosts {
		// A veth passes several segments in one, whatever its MTU.
		sh(t, h, "ip link set eth0 mtu 9000 gso_max_segs 1")
	}
	port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere})
	got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port), Opt: Options{IfMTU: 9000, Bulk: loadSize}})
	// A veth lets a VLAN tag more pass than its MTU.
	if m := got.Answer.MTU; !m.BlackHole() || m.Back < 1500 || m.Back > 1504 {
		t.Errorf("got %+v", m)
	}
	if b := got.Answer.Bulk; !b.Out.Stalled || !b.Back.Stalled {
		t.Errorf("got %+v", b)
	}
}

func TestLostDatagramsAreNoBlackHole(t *testing.T) {
	t.Parallel()
	needNft(t)
	lab := netns.New(t, 2)
	port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere})
	drop(t, lab.Hosts[1], "input", "meta l4proto udp numgen inc mod 3 0 drop")
	got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port), Opt: Options{IfMTU: 1500}})
	if want := (MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1500}); got.Answer.MTU != want {
		t.Errorf("got %+v, want %+v", got.Answer.MTU, want)
	}
}

func TestFilteredUDPIsNotAnswered(t *testing.T) {
	t.Parallel()
	needNft(t)
	for _, verdict := range []string{"drop", "reject"} {
		lab := netns.New(t, 2)
		port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere, ID: "x"})
		drop(t, lab.Hosts[1], "input", "meta l4proto udp "+verdict)
		got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port), Opt: Options{IfMTU: 1500, Bulk: loadSize}})
		if m := got.Answer.MTU; got.Cause != "" || got.Answer.ID != "x" || m.Answered || m.BlackHole() {
			t.Errorf("%s: got %+v", verdict, got)
		}
		if got.Took > 2*time.Second {
			t.Errorf("%s: took %s", verdict, got.Took)
		}
	}
}

// An interface of a size that the caller did not expect is no finding.
func TestALargerSizeThanTheInterfaceTakesIsLessTried(t *testing.T) {
	t.Parallel()
	lab := netns.New(t, 2)
	sh(t, lab.Hosts[1], "ip -6 addr add fd77::2/64 dev eth0 nodad")
	sh(t, lab.Hosts[0], "ip -6 addr add fd77::1/64 dev eth0 nodad")
	port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere})
	for _, to := range []string{"10.77.0.2", "fd77::2"} {
		got := probeFrom(t, lab.Hosts[0], calling{To: netip.AddrPortFrom(netip.MustParseAddr(to), port),
			Opt: Options{IfMTU: 9000}})
		if want := (MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1500}); got.Answer.MTU != want {
			t.Errorf("%s: got %+v, want %+v", to, got.Answer.MTU, want)
		}
	}
}

func TestEveryKindOfSilenceHasItsCause(t *testing.T) {
	t.Parallel()
	needNft(t)
	const open = 34017 // for what needs a port before the listener is there
	for _, tc := range []struct {
		name  string
		serve string    // the role; "": nothing listens
		says  string    // of a stranger
		host  int       // where the rule goes
		rule  [2]string // hook, rule
		line  string    // on the caller's host
		to    string
		token string
		want  Cause
	}{
		{name: "nothing listens", want: Refused},
		{name: "rejected with a reset", serve: "listen", host: 1,
			rule: [2]string{"input", "tcp flags syn reject with tcp reset"}, want: Refused},
		{name: "rejected by ICMP, port", serve: "listen", host: 1,
			rule: [2]string{"input", "tcp flags syn reject with icmp type port-unreachable"}, want: Refused},
		{name: "rejected by ICMP, prohibited", serve: "listen", host: 1,
			rule: [2]string{"input", "tcp flags syn reject with icmp type admin-prohibited"}, want: NoHost},
		{name: "dropped there", serve: "listen", host: 1, rule: [2]string{"input", "tcp flags syn drop"}, want: Dropped},
		{name: "dropped on the way back", serve: "listen", host: 0,
			rule: [2]string{"input", "meta l4proto tcp drop"}, want: Dropped},
		{name: "dropped here", serve: "listen", host: 0, rule: [2]string{"output", "meta l4proto tcp drop"}, want: Dropped},
		{name: "reset once connected", serve: "listen", host: 1,
			rule: [2]string{"input", "tcp flags & psh == psh reject with tcp reset"}, want: Reset},
		{name: "every word dropped", serve: "listen", host: 1,
			rule: [2]string{"input", "tcp flags & psh == psh drop"}, want: Silent},
		{name: "no machine has the address", to: "10.77.0.200", want: NoHost},
		{name: "no route", to: "192.0.2.1", want: NoRoute},
		{name: "a route that drops", line: "ip route add blackhole 192.0.2.0/24", to: "192.0.2.1", want: Blackhole},
		{name: "a route that prohibits", line: "ip route add prohibit 192.0.2.0/24", to: "192.0.2.1", want: Denied},
		{name: "it hangs up", serve: "stranger", says: "-", want: Reset},
		{name: "it hangs up, with a token", serve: "stranger", says: "-", token: "0123456789abcdef", want: Reset},
		{name: "it says nothing", serve: "stranger", want: Silent},
		{name: "it says nothing, with a token", serve: "stranger", token: "0123456789abcdef", want: Silent},
		{name: "an SSH server", serve: "stranger", says: "SSH-2.0-OpenSSH_9.6\r\n", want: Stranger},
		{name: "an SSH server, with a token", serve: "stranger",
			says: "SSH-2.0-OpenSSH_9.6\r\n", token: "0123456789abcdef", want: Stranger},
		{name: "another version", serve: "stranger", says: answer + "0099", want: Version},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			lab := netns.New(t, 2)
			port := uint16(open)
			if tc.serve != "" {
				port = serveOn(t, lab.Hosts[1], tc.serve, listening{At: anywhere, ID: tc.says})
			}
			if tc.rule[0] != "" {
				drop(t, lab.Hosts[tc.host], tc.rule[0], tc.rule[1])
			}
			if tc.line != "" {
				sh(t, lab.Hosts[0], "%s", tc.line)
			}
			to := at(lab.Hosts[1], port)
			if tc.to != "" {
				to = netip.AddrPortFrom(netip.MustParseAddr(tc.to), port)
			}
			got := probeFrom(t, lab.Hosts[0], calling{To: to, Token: tc.token, Timeout: 4 * time.Second,
				Opt: Options{IfMTU: 1500}})
			if got.Cause != tc.want || got.Text == "" {
				t.Errorf("got %q: %s; want %q", got.Cause, got.Text, tc.want)
			}
		})
	}
}

func TestOneWayIsFilteredAndTheOtherIsNot(t *testing.T) {
	t.Parallel()
	needNft(t)
	lab := netns.New(t, 2)
	a, b := lab.Hosts[0], lab.Hosts[1]
	pa := serveOn(t, a, "listen", listening{At: anywhere, ID: "a"})
	pb := serveOn(t, b, "listen", listening{At: anywhere, ID: "b"})
	drop(t, b, "input", "ct state new meta l4proto tcp drop")
	if got := probeFrom(t, a, calling{To: at(b, pb), Timeout: 2 * time.Second}); got.Cause != Dropped {
		t.Errorf("towards the filter: got %+v", got)
	}
	if got := probeFrom(t, b, calling{To: at(a, pa)}); got.Cause != "" || got.Answer.ID != "a" {
		t.Errorf("from behind it: got %+v", got)
	}
}

func TestTheNamedSourceAddressIsUsed(t *testing.T) {
	t.Parallel()
	lab := netns.New(t, 2)
	sh(t, lab.Hosts[0], "ip addr add 10.77.0.55/24 dev eth0")
	port := serveOn(t, lab.Hosts[1], "listen", listening{At: anywhere})
	from := netip.MustParseAddr("10.77.0.55")
	got := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port), Opt: Options{From: from, IfMTU: 1500}})
	if got.Cause != "" || got.Answer.From != from || got.Answer.MTU.Back != 1500 {
		t.Errorf("got %+v", got)
	}
	gone := probeFrom(t, lab.Hosts[0], calling{To: at(lab.Hosts[1], port),
		Opt: Options{From: netip.MustParseAddr("10.77.0.56")}})
	if gone.Cause != Unknown {
		t.Errorf("an unused address: got %+v", gone)
	}
}
