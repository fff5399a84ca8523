package start

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/sidechannel"
)

func TestNodesThatDoNotHearTheStoreAreNamed(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.7")
	entry := fabric.Fault{Why: "a permanent entry"}
	k := scene.Socket{SendQ: 844, Info: &scene.Info{Backoff: 4}}
	for _, tt := range []struct{ got, want string }{
		{halfOpen(a, entry), "10.0.0.7 calls the store here, and does not acknowledge this node's answer: a"},
		{halfOpen(a, fabric.Fault{}), "ip neigh show 10.0.0.7   # here"},
		{unheardBy(a, k, fabric.Fault{}), "844 bytes were sent 5 times without an acknowledgement"},
		{unheardBy(a, k, entry), "10.0.0.7 does not acknowledge the answers of the store here: a perm"},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestNodesThatDoNotHearTheStoreAreFound(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")
	end := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }
	stuck := func(ports ...uint16) (out []scene.Socket) {
		for _, p := range ports {
			out = append(out, scene.Socket{Remote: end(p), SendQ: 844, Info: &scene.Info{Backoff: 4}})
		}
		return out
	}
	type seen struct {
		half    []netip.Addr
		unheard []scene.Socket
		open    []netip.AddrPort
	}
	var many []netip.Addr
	for next := a; len(many) < 9; next = next.Next() {
		many = append(many, next)
	}
	for _, tt := range []struct {
		name  string
		looks []seen // 2 s apart
		want  int
	}{
		{"half open for long", []seen{{half: many[:1]}, {half: many[:1]}, {half: many[:1]}, {half: many[:1]}}, 1},
		{"half open for a moment", []seen{{half: many[:1]}, {half: many[:1]}, {}, {half: many[:1]}}, 0},
		{"it has heard this node", []seen{{half: many[:1]}, {half: many[:1], open: []netip.AddrPort{end(1)}},
			{half: many[:1]}}, 0},
		{"another has", []seen{{half: many[:1]}, {half: many[:1], open: []netip.AddrPort{netip.AddrPortFrom(b, 1)}},
			{half: many[:1]}}, 1},
		{"a full queue", []seen{{half: many}, {half: many}, {half: many}}, 0},
		{"a node that connects again", []seen{{unheard: stuck(1)}, {}, {unheard: stuck(2)}, {unheard: stuck(3)}}, 1},
		{"one that does not", []seen{{unheard: stuck(1)}, {unheard: stuck(1)}}, 0},
		{"two connections at once", []seen{{unheard: stuck(1, 2)}, {unheard: stuck(1, 2)}}, 0},
		{"two, one after the other", []seen{{unheard: stuck(1), open: []netip.AddrPort{end(1), end(2)}},
			{unheard: stuck(1, 2)}}, 0},
	} {
		c := newUnreachedCallers(func(netip.Addr, fabric.Gone) fabric.Fault { return fabric.Fault{} })
		now, said := time.Now(), 0
		for _, l := range tt.looks {
			said += len(c.look(now, l.half, l.unheard, l.open))
			now = now.Add(2 * time.Second)
		}
		if said != tt.want {
			t.Errorf("%s: said %d times, want %d", tt.name, said, tt.want)
		}
	}
	c := newUnreachedCallers(func(netip.Addr, fabric.Gone) fabric.Fault { return fabric.Fault{} })
	said, now := 0, time.Now()
	for range 30 {
		said += len(c.look(now, many[:2], nil, nil))
		for i := range many[:2] {
			many[i] = many[i].Next()
			c.since[many[i]] = now.Add(-time.Minute)
		}
	}
	if said != maxNotes {
		t.Errorf("said %d times, want %d", said, maxNotes)
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
			"7 of 12 new connections to the store at h:1 opened. A second try from the same ports had the same result: one of"},
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
