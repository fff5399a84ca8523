package diagnose

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// Of a network in two parts the nodes of one part are heard: that is said once. Hosts that another network shows, as by
// ssh, and a node that is lost alone, are another case.
func TestANetworkInTwoPartsIsOneReason(t *testing.T) {
	host := func(name, at string) *node {
		s := scene.Scene{Procs: []scene.Proc{{PID: 7}}}
		if at != "" {
			s.At = netip.MustParseAddr(at)
		}
		return &node{name: name, scene: &s}
	}
	named := func(name string) *node { return &node{name: name} }
	lost := func(from, to string) claim {
		return claimed("path.lost", verdict.Certain, from+" gets no answer from "+to).of(nil, named(from), named(to))
	}
	a, b, login := host("a", ""), host("b", "10.0.0.2"), &node{name: "login", scene: new(scene.Scene)}
	const parted = "a reaches b, and they get no answer from c, d any more: the network between these two groups was lost"
	for _, tt := range []struct {
		name  string
		heard []*node
		paths []claim
		says  string // "": no network in two parts
	}{
		{"each of one part has lost one", []*node{a, b}, []claim{lost("a", "d"), lost("b", "c")}, parted},
		{"one has lost both", []*node{a, b}, []claim{lost("a", "d"), lost("a", "c")}, parted},
		{"from a machine without ranks", []*node{a, b, login}, []claim{lost("b", "d"), lost("a", "c")}, parted},
		{"one node is lost", []*node{a, b}, []claim{lost("a", "c"), lost("b", "c")}, ""},
		{"no other one was heard", []*node{a}, []claim{lost("a", "c"), lost("a", "d")}, ""},
		{"by ssh", []*node{a, host("b", "")}, []claim{lost("a", "d"), lost("b", "c")}, ""},
		{"within one part, too", []*node{a, b}, []claim{lost("a", "b"), lost("a", "c"), lost("b", "d")}, ""},
		{"two that were not heard", []*node{a, b}, []claim{lost("c", "d"), lost("a", "c")}, ""},
	} {
		v := &view{hosts: tt.heard}
		got := v.bothEnds(slices.Clone(tt.paths))
		is := len(got) == 1 && strings.Contains(got[0].Says, "these two groups")
		if is != (tt.says != "") || is && !strings.HasPrefix(got[0].Says, tt.says) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
