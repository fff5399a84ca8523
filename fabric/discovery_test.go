package fabric

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A firewall of this node that drops ICMPv6 hides the machines of its network; one of another machine, and a machine
// that is not there, are no reason here.
func TestAFilterOfNeighbourDiscovery(t *testing.T) {
	w := newWired(t)
	w.run("ip addr add fd02::1/64 dev eth0 nodad")
	w.far("ip addr add fd02::2/64 dev eth0 nodad")
	time.Sleep(100 * time.Millisecond)
	there := netip.MustParseAddrPort("[fd02::2]:29500")
	table := func(hook string) string {
		return "nft 'table ip6 f { chain c { type filter hook " + hook + " priority 0; meta l4proto ipv6-icmp drop; }; }'"
	}
	const again = "; ip -6 neigh flush all"
	for _, tt := range []struct{ here, far, want string }{
		{want: ""},
		{here: table("input"), want: "the answers arrive on eth0 and are dropped here"},
		{here: table("output"), want: "does not leave by eth0"},
		{far: strings.ReplaceAll(table("input"), "'", "\""), want: ""},
	} {
		w.run("nft flush ruleset" + again)
		w.far("nft flush ruleset" + again)
		if tt.here != "" {
			w.run(tt.here)
		}
		if tt.far != "" {
			w.far(tt.far)
		}
		f := Wrong(Call{To: there, Gone: All})
		if tt.want == "" && f.Why != "" || !strings.Contains(f.Why, tt.want) {
			t.Errorf("%+v: got %+v", tt, f)
		}
	}
	w.far("nft flush ruleset; ip addr del fd02::2/64 dev eth0")
	if f := Wrong(Call{To: there, Gone: All}); f.Why != "" {
		t.Errorf("no machine: %+v", f)
	}
}
