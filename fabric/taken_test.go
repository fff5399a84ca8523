package fabric

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// A node that has another node's address in its table local takes the packets to that node.
func TestAnAddressOfAnotherNodeInTheTableLocal(t *testing.T) {
	w := newWired(t)
	there := netip.MustParseAddr("10.0.2.2")
	calls := []Gone{All, Astray}
	for _, gone := range calls {
		if f := Wrong(Call{To: netip.AddrPortFrom(there, 1), Gone: gone}); f.Why != "" {
			t.Errorf("without a route: %+v", f)
		}
	}
	w.run("ip addr add 10.0.2.8/32 dev lo; ip route add local 10.0.2.2 dev eth0 proto 66")
	if got := AllTaken(); !slices.Equal(got, []netip.Addr{there}) {
		t.Errorf("taken: %v", got)
	}
	for _, own := range []string{"10.0.2.1", "10.0.2.8", "127.0.0.1"} {
		if f := Taken(netip.MustParseAddr(own)); f.Why != "" {
			t.Errorf("%s: %+v", own, f)
		}
	}
	for _, gone := range calls {
		if f := Wrong(Call{To: netip.AddrPortFrom(there, 1), Gone: gone}); !strings.Contains(f.Why, "table local") {
			t.Errorf("got %+v", f)
		}
	}
}
