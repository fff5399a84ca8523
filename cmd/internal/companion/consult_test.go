package companion

import (
	"net/netip"
	"slices"
	"testing"

	"launch/diagnose/scene"
	"launch/rendezvous"
)

// What a third node passes on counts only where no address of a node answers.
func TestANodeIsAskedAtItsFurtherAddressesAndThroughOthers(t *testing.T) {
	unreachable := netip.MustParseAddr("255.255.255.255") // the kernel refuses to call it
	refuses := netip.MustParseAddr("127.0.0.9")
	for _, tt := range []struct {
		name   string
		first  netip.Addr
		others []netip.Addr
		via    bool
		want   bool
	}{
		{"its first address", lo, nil, false, true},
		{"a further one, after one without a path", unreachable, []netip.Addr{lo}, false, true},
		{"a further one, after one that refuses", refuses, []netip.Addr{unreachable, lo}, false, true},
		{"a third node", unreachable, nil, true, true},
		{"a third node, where no address has a path", unreachable, []netip.Addr{unreachable}, true, true},
		{"it has ended", unreachable, []netip.Addr{refuses}, false, false},
	} {
		_, far := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo})
		far.Rank = 5
		_, third := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo}, far)
		third.Rank = 3
		far.Addr, far.Addrs = tt.first, tt.others
		if tt.via {
			far.ID = "far" // the third node asks for another one
		} else {
			third.Addr = refuses
		}
		d, _ := nodeOf(t, "", lo, far, third)
		got := d.consult(t.Context())
		if seen := slices.ContainsFunc(got, func(s scene.Scene) bool {
			return (s.Via != nil) == tt.via && len(s.Ended) == 0
		}); seen != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
