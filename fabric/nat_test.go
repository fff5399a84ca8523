package fabric

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// entry is the kernel's answer about a connection from one address whose replies are from another one.
func entry(caller, reply netip.AddrPort) []byte {
	return append(append([]byte{unix.AF_INET, 0, 0, 0}, direction(nl.CTA_TUPLE_ORIG, caller)...),
		direction(nl.CTA_TUPLE_REPLY, reply)...)
}

func direction(which int, reply netip.AddrPort) []byte {
	tuple := nl.NewRtAttr(unix.NLA_F_NESTED|which, nil)
	ip := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	kind := nl.CTA_IP_V4_SRC
	if reply.Addr().Is6() {
		kind = nl.CTA_IP_V6_SRC
	}
	ip.AddRtAttr(kind, reply.Addr().AsSlice())
	proto := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	proto.AddRtAttr(nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_TCP})
	proto.AddRtAttr(nl.CTA_PROTO_SRC_PORT, binary.BigEndian.AppendUint16(nil, reply.Port()))
	return tuple.Serialize()
}

func TestFromWhereTheKernelExpectsAnswers(t *testing.T) {
	for _, at := range []string{"10.66.0.99:29500", "[fd66::9]:29500"} {
		want, caller := netip.MustParseAddrPort(at), netip.MustParseAddrPort("10.66.0.2:40000")
		if own, got := tupleOf(entry(caller, want)); got != want || own != caller {
			t.Errorf("got %s and %s, want %s and %s", own, got, caller, want)
		}
		whole := entry(caller, want)
		for n := range len(whole) {
			if _, got := tupleOf(whole[:n]); got.IsValid() {
				t.Errorf("%d bytes of %d: %s", n, len(whole), got)
			}
		}
	}
}

func TestTheTableOfConnectionsAsText(t *testing.T) {
	own, to := netip.MustParseAddrPort("10.66.0.2:40000"), netip.MustParseAddrPort("10.66.0.1:29500")
	const other = "ipv4     2 tcp      6 117 SYN_SENT src=10.66.0.2 dst=10.66.0.1 sport=40001 dport=29500 [UNREPLIED] " +
		"src=10.66.0.77 dst=10.66.0.2 sport=29500 dport=40001 mark=0 zone=0 use=2\n" +
		"ipv4     2 udp      17 20 src=10.66.0.2 dst=10.66.0.1 sport=40000 dport=29500 [UNREPLIED] " +
		"src=10.66.0.78 dst=10.66.0.2 sport=29500 dport=40000 mark=0 zone=0 use=2\n"
	line := func(reply string) string {
		return "ipv4     2 tcp      6 117 SYN_SENT src=10.66.0.2 dst=10.66.0.1 sport=40000 dport=29500 [UNREPLIED] src=" +
			reply + " sport=29500 dport=40000 mark=0 zone=0 use=2\n"
	}
	for name, tt := range map[string]struct{ table, want string }{
		"sent on":          {other + line("10.66.0.99 dst=10.66.0.2"), "10.66.0.99:29500"},
		"as it was called": {other + line("10.66.0.1 dst=10.66.0.2"), "10.66.0.1:29500"},
		"of others":        {other, ""},
		"none":             {"", ""},
	} {
		got := replyOf(strings.NewReader(tt.table), own, to)
		if got.IsValid() != (tt.want != "") || got.IsValid() && got.String() != tt.want {
			t.Errorf("%s: got %s, want %q", name, got, tt.want)
		}
	}
}

// No NAT is between this machine and itself.
func TestACallThatNoNATSendsOn(t *testing.T) {
	for _, at := range []string{"127.0.0.1:9", "[::1]:9"} {
		if on := Redirected(netip.Addr{}, netip.MustParseAddrPort(at)); on.IsValid() {
			t.Errorf("%s: sent on to %s", at, on)
		}
	}
}

// A firewall that was started after a connection has no entry for it, and one for a new call.
func TestWhetherAConnectionIsForgotten(t *testing.T) {
	const tracks = "nft 'table ip f { chain i { type filter hook input priority 0; ct state established accept; }; }'"
	for name, tt := range map[string]struct {
		before, after     string
		forgotten, tracks bool
	}{
		"a firewall that was restarted": {"true", tracks, true, true},
		"a firewall that knows it":      {tracks, "true", false, true},
		"no firewall":                   {"true", "true", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWired(t)
			w.listens(true, 29500)
			w.run(tt.before)
			to := netip.MustParseAddrPort("10.0.2.2:29500")
			fd, own, err := begin(netip.Addr{}, to)
			if err != nil || !answers(fd, answerWait) {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			w.run(tt.after)
			if got := Untracked(own, to); got != tt.forgotten {
				t.Errorf("without an entry: %t", got)
			}
			if got := Untracked(to, own); got != tt.forgotten {
				t.Errorf("seen from its other end: %t", got)
			}
			if got := Tracks(own.Addr(), to); got != tt.tracks {
				t.Errorf("it tracks new ones: %t", got)
			}
		})
	}
}
