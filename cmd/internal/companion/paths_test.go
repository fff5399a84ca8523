package companion

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"launch/diagnose/scene"
	"launch/fabric"
)

// A job of many nodes has many connections, and each look judges only some of their ways.
func TestALookJudgesAtMostSoManyWays(t *testing.T) {
	own := netip.MustParseAddr("192.0.2.1")
	var sockets []scene.Socket
	to := netip.MustParseAddr("198.51.100.1")
	for range maxWays + 20 {
		for port := range uint16(3) { // each node is judged once
			sockets = append(sockets, scene.Socket{State: "established", Local: netip.AddrPortFrom(own, 100+port),
				Remote: netip.AddrPortFrom(to, 7)})
		}
		to = to.Next()
	}
	last := &sockets[len(sockets)-1]
	last.Info = &scene.Info{Backoff: 5, Unacked: 1}
	if !last.Stuck() {
		t.Fatal("the last socket is not stuck")
	}
	for _, tt := range []struct {
		name  string
		why   string
		ended bool
		want  int
	}{
		{"nothing is wrong", "", false, maxWays},
		{"all are wrong", "no route", false, maxWays},
		{"the look has ended", "", true, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if tt.ended {
			cancel()
		}
		var judged []netip.Addr
		p := (&doctor{}).newPaths(ctx)
		p.wrong = func(c fabric.Call) fabric.Fault {
			judged = append(judged, c.To.Addr())
			return fabric.Fault{Why: tt.why}
		}
		_, ways := p.wait(sockets)
		cancel()
		if len(judged) != tt.want || len(slices.Compact(slices.Clone(judged))) != tt.want {
			t.Errorf("%s: %d are judged, want %d: %v", tt.name, len(judged), tt.want, judged)
		}
		if tt.want > 0 && judged[0] != last.Remote.Addr() {
			t.Errorf("%s: the first is %s, which is not stuck", tt.name, judged[0])
		}
		if want := map[bool]int{true: tt.want}[tt.why != ""]; len(ways) != want {
			t.Errorf("%s: %d ways, want %d", tt.name, len(ways), want)
		}
	}
}
