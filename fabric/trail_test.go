package fabric

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhereTheWayOfPacketsEnds(t *testing.T) {
	a := netip.MustParseAddr
	dst, near, far := a("10.3.0.9"), a("10.1.0.254"), a("10.2.0.254")
	exceeded := func(from netip.Addr) icmp { return icmp{from, true} }
	for name, tt := range map[string]struct {
		said []icmp
		want string // "": nothing is wrong with the way
	}{
		"the host answers":                {[]icmp{exceeded(near), exceeded(far), {from: dst}}, ""},
		"it answers, and no router does":  {[]icmp{{}, {}, {from: dst}}, ""},
		"a router without a way":          {[]icmp{exceeded(near), {from: far}, {from: far}}, "the router 10.2.0.254 says"},
		"nothing after the second router": {[]icmp{exceeded(near), exceeded(far), {}, {}}, "as far as the router 10.2.0.254"},
		"the first one says nothing":      {[]icmp{{}, exceeded(far), {}}, "as far as the router 10.2.0.254"},
		"silence, and no such neighbour":  {[]icmp{{}, {}, {}}, ""},
	} {
		trail := Trail{Router: near, iface: "no such interface"}
		trail.read(dst, tt.said)
		if got := trail.Fault(dst); !strings.Contains(got.Why, tt.want) || (tt.want == "") != (got.Why == "") {
			t.Errorf("%s: %+v says %q, want %q", name, trail, got.Why, tt.want)
		}
	}
	if got := (Trail{}).Fault(dst); got != (Fault{}) {
		t.Errorf("a neighbour: %+v", got)
	}
}

// The bytes are struct sock_extended_err, and the address of who said it (linux/errqueue.h).
func TestMessagesOfICMPAreRead(t *testing.T) {
	message := func(origin, kind, code byte, family uint16, address ...byte) []byte {
		b := []byte{113, 0, 0, 0, origin, kind, code, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		return append(binary.NativeEndian.AppendUint16(b, family), address...)
	}
	a := netip.MustParseAddr
	six := append(make([]byte, 6), netip.MustParseAddr("fd00::1").AsSlice()...)
	for name, tt := range map[string]struct {
		bytes []byte
		want  icmp
		ok    bool
	}{
		"the hop limit ended":       {message(2, 11, 0, unix.AF_INET, 0, 0, 10, 0, 0, 1), icmp{a("10.0.0.1"), true}, true},
		"no host":                   {message(2, 3, 1, unix.AF_INET, 0, 0, 10, 0, 0, 1), icmp{a("10.0.0.1"), false}, true},
		"the hop limit ended, IPv6": {message(3, 3, 0, unix.AF_INET6, six...), icmp{a("fd00::1"), true}, true},
		"this machine's own":        {message(1, 0, 0, 0, 0, 0, 0, 0, 0, 0), icmp{}, false},
		"cut":                       {[]byte{113, 0, 0, 0, 2}, icmp{}, false},
	} {
		if got, ok := readExtended(tt.bytes); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

func TestTheWayToANeighbourHasNoRouter(t *testing.T) {
	if got := TrailTo(context.Background(), netip.MustParseAddr("127.0.0.1")); got.Router.IsValid() ||
		!slices.Equal(got.Hops, nil) {
		t.Errorf("%+v", got)
	}
}
