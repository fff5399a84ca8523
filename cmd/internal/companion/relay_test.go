package companion

import (
	"net/netip"
	"slices"
	"testing"

	"launch/internal/secret"
	"launch/rendezvous"
)

// TestAThirdNodePassesOnWhatANodeSees: with where it reached that node, and from where it was asked.
func TestAThirdNodePassesOnWhatANodeSees(t *testing.T) {
	other := netip.MustParseAddr("127.0.0.9")
	const token = secret.Token("0123456789abcdef")
	for _, tt := range []struct {
		name       string
		here, they secret.Token // of the node that asks, and of the others
		want       bool
	}{
		{"a node of the job asks", "", "", true},
		{"the token", token, token, true},
		{"no token", "", token, false},
		{"another token", "fedcba9876543210", token, false},
	} {
		_, far := nodeOf(t, tt.they, lo, rendezvous.Partner{Addr: lo})
		far.Rank, far.Name = 5, "far"
		_, third := nodeOf(t, tt.they, lo, rendezvous.Partner{Addr: lo}, far)
		third.ID, third.Name, third.Rank = "id", "third", 3
		asked := far
		asked.ID = "another" // its own address does not answer under this ID
		d, _ := nodeOf(t, tt.here, lo, asked, third)
		s, ok := d.through(t.Context(), asked)
		if ok != tt.want || ok && (s.Via == nil || s.Via.Name != "third" || s.Via.At != lo || s.Via.From != lo ||
			s.At.IsValid()) {
			t.Errorf("%s: %v, %+v", tt.name, ok, s.Via)
		}
		if got := d.beyond(t.Context(), []netip.Addr{lo}); (len(got) > 0) != tt.want {
			t.Errorf("%s: %d by address", tt.name, len(got))
		}
		if got := d.beyond(t.Context(), []netip.Addr{other}); len(got) > 0 {
			t.Errorf("%s: %d of another address", tt.name, len(got))
		}
	}
}

// TestANodeThatTheThirdOneDoesNotReachIsNotPassedOn: nor is one whose rank it does not know.
func TestANodeThatTheThirdOneDoesNotReachIsNotPassedOn(t *testing.T) {
	gone := rendezvous.Partner{Name: "gone", Rank: 5, ID: "gone", Addr: lo, Peer: 1}
	_, third := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo}, gone)
	third.Rank = 3
	for _, rank := range []int{5, 6} {
		asked := gone
		asked.Rank = rank
		d, _ := nodeOf(t, "", lo, asked, third)
		if s, ok := d.through(t.Context(), asked); ok {
			t.Errorf("rank %d: %+v", rank, s)
		}
	}
}

func TestNodesThatAskDoNotAllAskTheSame(t *testing.T) {
	var all []rendezvous.Partner
	for rank := range 8 {
		id := string(rune('a' + rank))
		all = append(all, rendezvous.Partner{Rank: rank, ID: id, Addr: lo, Peer: 1})
	}
	without := func(ranks ...int) (out []rendezvous.Partner) {
		for _, n := range all {
			if !slices.Contains(ranks, n.Rank) {
				out = append(out, n)
			}
		}
		return out
	}
	for _, tt := range []struct {
		own, lost int
		known     []rendezvous.Partner
		want      []int
	}{
		{0, 5, without(0), []int{1, 4}},
		{7, 5, without(7), []int{0, 3}},
		{3, 4, without(3), []int{5, 0}},
		{0, 1, without(0, 3, 4, 5, 6, 7), []int{2}},
		{0, 1, without(0, 2, 3, 4, 5, 6, 7), nil},
	} {
		d, _ := nodeOf(t, "", lo, tt.known...)
		d.world.Store(&rendezvous.World{Rank: tt.own})
		var got []int
		for _, n := range d.relays(t.Context(), all[tt.lost]) {
			got = append(got, n.Rank)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("node %d asks %v about node %d, want %v", tt.own, got, tt.lost, tt.want)
		}
	}
}
