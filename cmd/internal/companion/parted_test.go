package companion

import (
	"net/netip"
	"strings"
	"testing"

	"launch/rendezvous"
)

// Several nodes that are lost while another one answers are on the other side of something. One that is lost alone, or
// all others, or one whose machine answers, are not.
func TestANetworkInTwoParts(t *testing.T) {
	node := func(name string) rendezvous.Partner { return rendezvous.Partner{Name: name} }
	others := []rendezvous.Partner{node("d"), node("b")}
	for _, tt := range []struct {
		answers []presence
		says    string // "": nothing
	}{
		{[]presence{isAbsent, isBack}, "nothing answers at c, d, and this node reaches b (seen"},
		{[]presence{isBack, isBack}, ""},
		{[]presence{isAbsent, isAbsent}, ""},
		{[]presence{hasEnded, isBack}, ""},
		{[]presence{isAbsent, hasEnded}, ""},
	} {
		f, ok := groups(node("c"), others, tt.answers, "10:00:00")
		if ok != (tt.says != "") || !strings.Contains(f.What, tt.says) {
			t.Errorf("%v: %q, want %q", tt.answers, f.What, tt.says)
		}
	}
}

// Nodes on one host are lost with it: that is no network in two parts. One on this host does not use the network.
func TestNodesOnOneHostCountOnce(t *testing.T) {
	node := func(name, addr string) rendezvous.Partner {
		return rendezvous.Partner{Name: name, Addr: netip.MustParseAddr(addr), Peer: 9}
	}
	all := []rendezvous.Partner{node("own", "10.0.0.1"), node("lost", "10.0.0.2"), node("with-it", "10.0.0.2"),
		node("b", "10.0.0.3"), node("c", "10.0.0.3"), {Name: "unknown"}}
	got := elsewhere(all, all[1].Addr, all[0].Addr)
	if len(got) != 1 || got[0].Name != "b" {
		t.Errorf("%+v", got)
	}
}
