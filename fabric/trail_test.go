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
	ends := func(from netip.Addr) icmp { return icmp{from, exceeded} }
	for name, tt := range map[string]struct {
		said []icmp
		want string // "": nothing is wrong with the way
	}{
		"the host answers":                {[]icmp{ends(near), ends(far), {from: dst}}, ""},
		"it answers, and no router does":  {[]icmp{{}, {}, {from: dst}}, ""},
		"a router without a way":          {[]icmp{ends(near), {far, noWay}, {far, noWay}}, "the router 10.2.0.254 says"},
		"nothing after the second router": {[]icmp{ends(near), ends(far), {}, {}}, "as far as the router 10.2.0.254"},
		"the first one says nothing":      {[]icmp{{}, ends(far), {}}, "as far as the router 10.2.0.254"},
		"another address of the host":     {[]icmp{ends(near), ends(far), {a("10.4.0.9"), noPort}}, ""},
		"a filter that rejects UDP":       {[]icmp{ends(near), {far, other}}, "as far as the router 10.1.0.254"},
		"silence":                         {[]icmp{{}, {}, {}}, ""},
		"silence, and no such neighbour":  {[]icmp{{}, {}, {}}, ""},
	} {
		trail := Trail{To: dst, Router: near}
		trail.read(tt.said)
		if got := trail.Fault(); !strings.Contains(got.Why, tt.want) || (tt.want == "") != (got.Why == "") {
			t.Errorf("%s: %+v says %q, want %q", name, trail, got.Why, tt.want)
		}
	}
	if got := (Trail{}).Fault(); got != (Fault{}) {
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
		"the limit ended":       {message(2, 11, 0, unix.AF_INET, 0, 0, 10, 0, 0, 1), icmp{a("10.0.0.1"), exceeded}, true},
		"no host":               {message(2, 3, 1, unix.AF_INET, 0, 0, 10, 0, 0, 1), icmp{a("10.0.0.1"), noWay}, true},
		"the limit ended, IPv6": {message(3, 3, 0, unix.AF_INET6, six...), icmp{a("fd00::1"), exceeded}, true},
		"a filter":              {message(2, 3, 13, unix.AF_INET, 0, 0, 10, 0, 0, 1), icmp{a("10.0.0.1"), other}, true},
		"no port":               {message(2, 3, 3, unix.AF_INET, 0, 0, 10, 0, 0, 1), icmp{a("10.0.0.1"), noPort}, true},
		"this machine's own":    {message(1, 0, 0, 0, 0, 0, 0, 0, 0, 0), icmp{}, false},
		"cut":                   {[]byte{113, 0, 0, 0, 2}, icmp{}, false},
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
