package start

import (
	"net/netip"
	"strings"
	"testing"

	"launch/diagnose/scene"
	"launch/internal/sidechannel"
)

func TestNodesThatDoNotHearTheStoreAreNamed(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.7")
	k := scene.Socket{SendQ: 844, Info: &scene.Info{Backoff: 4}}
	for _, tt := range []struct{ got, want string }{
		{halfOpen(a, "a permanent entry"), "10.0.0.7 calls the store here, and does not acknowledge this node's answer: a"},
		{halfOpen(a, ""), "ip neigh show 10.0.0.7   # here"},
		{unheard(a, k, ""), "844 bytes were sent 5 times without an acknowledgement"},
		{unheard(a, k, "a permanent entry"), "10.0.0.7 does not acknowledge the answers of the store here: a perm"},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestConnectionsToASilentStoreShowWhy(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    sidechannel.Flows
		want string // "": nothing
	}{
		{"all open", sidechannel.Flows{Tried: 12}, ""},
		{"none opens", sidechannel.Flows{Tried: 12, Late: 12, Never: 12, Again: sidechannel.Others}, ""},
		{"one path of several", sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.Same},
			"of 12 new connections to the store at h:1 at once, 7 opened, and tried again from the same ports, exactly"},
		{"a limit", sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.Others}, "a limit on new connections"},
		{"lost packets", sidechannel.Flows{Tried: 12, Late: 7, Never: 1, Again: sidechannel.Others},
			"6 of them only when the first packet was sent again: packets"},
		{"a moment", sidechannel.Flows{Tried: 12, Late: 5, Never: 5, Again: sidechannel.All}, ""},
	} {
		if got := unopened("h:1", tt.f); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
