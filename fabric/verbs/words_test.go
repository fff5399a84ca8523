package verbs

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChooseFollowsNCCLsRule(t *testing.T) {
	g := func(i int, addr, kind string) gidEntry {
		return gidEntry{Index: i, Addr: netip.MustParseAddr(addr), Type: kind}
	}
	for _, tt := range []struct {
		name string
		gids []gidEntry
		want int
	}{
		{"none", nil, -1},
		{"an IPv4 address by RoCE v2", []gidEntry{g(0, "fe80::1", typeV1), g(1, "fe80::1", typeV2), g(2, "10.0.0.1", typeV1),
			g(3, "10.0.0.1", typeV2)}, 3},
		{"an IPv6 address before one that is link-local", []gidEntry{g(0, "fe80::1", typeV2), g(5, "2001:db8::1", typeV2)},
			5},
		{"169.254 is link-local too", []gidEntry{g(0, "169.254.1.1", typeV2), g(1, "2001:db8::1", typeV2)}, 1},
		{"link-local where there is no other", []gidEntry{g(0, "fe80::1", typeV1), g(1, "fe80::1", typeV2)}, 1},
		{"types unknown", []gidEntry{g(0, "fe80::1", ""), g(1, "10.0.0.1", "")}, 1},
	} {
		got := -1
		if e, ok := choose(tt.gids); ok {
			got = e.Index
		}
		if got != tt.want {
			t.Errorf("%s: index %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestRatesAreTheKernels(t *testing.T) {
	for _, tt := range []struct {
		width, speed int
		rate         float64
		lanes        int
	}{{2, 128, 400, 4}, {2, 256, 800, 4}, {2, 64, 200, 4}, {2, 32, 100, 4}, {2, 16, 56, 4}, {8, 4, 120, 12},
		{16, 64, 100, 2}, {1, 1, 2.5, 1}, {3, 1, 0, 0}, {2, 3, 0, 4}} {
		if rate, lanes := rateOf(tt.width, tt.speed); rate != tt.rate || lanes != tt.lanes {
			t.Errorf("width %d, speed %d: %g Gb/s on %d lanes, want %g on %d", tt.width, tt.speed, rate, lanes, tt.rate,
				tt.lanes)
		}
	}
	for n, bytes := range map[int]int{0: 0, 1: 256, 5: 4096, 6: 0, -1: 0} {
		if got := mtuBytes(n); got != bytes {
			t.Errorf("MTU %d is %d bytes, want %d", n, got, bytes)
		}
	}
}

func TestATestThatCannotBeIsRefused(t *testing.T) {
	ok := Test{Device: "x"}
	if got, e := ok.filled(); e != nil || got.QPs != 1 || got.Depth != 128 || got.Span != 300*time.Millisecond {
		t.Errorf("%+v, %v", got, e)
	}
	for word, bad := range map[string]Test{
		"no device":     {},
		"port 9":        {Device: "x", Port: 9},
		"33 queue":      {Device: "x", QPs: 33},
		"-1 queue":      {Device: "x", QPs: -1},
		"a depth":       {Device: "x", Depth: 5000},
		"0 bytes":       {Device: "x", Sizes: []int{0}},
		"134217728":     {Device: "x", PingSizes: []int{128 << 20}},
		"MTU of 1500":   {Device: "x", MTU: 1500},
		"pings":         {Device: "x", Pings: 1 << 30},
		"invalid index": {Device: "x", GID: 256},
		"more than 32":  {Device: "x", Sizes: bytesOf(33)},
	} {
		if _, e := bad.filled(); e == nil || e.Cause != Wrong || !strings.Contains(e.Text, word) {
			t.Errorf("%+v: %v, want %q", bad, e, word)
		}
	}
}

func bytesOf(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func TestEndsThatCannotConnectAreRefusedWithTheCause(t *testing.T) {
	roce := End{Device: "a", Port: 1, Link: linkEthernet, GID: netip.MustParseAddr("10.0.0.1"), GIDType: typeV2, Index: 3,
		PKey: "0xffff", MTU: 4096}
	ib := End{Device: "b", Port: 1, Link: linkIB, LID: 4, Index: -1, PKey: "0xffff", MTU: 4096}
	with := func(e End, f func(*End)) End { f(&e); return e }
	for _, tt := range []struct {
		name string
		a, b End
		want Cause
	}{
		{"alike", roce, roce, ""},
		{"InfiniBand", ib, ib, ""},
		{"another link", roce, ib, LinkDiffers},
		{"v1 and v2", roce, with(roce, func(e *End) { e.GIDType = typeV1 }), GIDDiffers},
		{"a type that is not known", roce, with(roce, func(e *End) { e.GIDType = "" }), ""},
		{"families", roce, with(roce, func(e *End) { e.GID = netip.MustParseAddr("2001:db8::1") }), GIDDiffers},
		{"with and without a GID", ib, with(ib, func(e *End) { e.Index = 0; e.GID = netip.MustParseAddr("fe80::1") }),
			GIDDiffers},
		{"another partition", ib, with(ib, func(e *End) { e.PKey = "0x8001" }), PKeyDiffers},
		{"one limited member", ib, with(ib, func(e *End) { e.PKey = "0x7fff" }), ""},
		{"two limited members", with(ib, func(e *End) { e.PKey = "0x7fff" }), with(ib, func(e *End) { e.PKey = "0x7fff" }),
			PKeyDiffers},
		{"MTUs set", with(roce, func(e *End) { e.Forced = 1024 }), with(roce, func(e *End) { e.Forced = 4096 }), MTUDiffers},
		{"one MTU set", with(roce, func(e *End) { e.Forced = 1024 }), roce, ""},
	} {
		for _, e := range []*Error{match(tt.a, tt.b), match(tt.b, tt.a)} {
			got := Cause("")
			if e != nil {
				got = e.Cause
			}
			if got != tt.want {
				t.Errorf("%s: %q (%v), want %q", tt.name, got, e, tt.want)
			}
		}
	}
}

func TestLatencyIsOfSortedTrips(t *testing.T) {
	trips := make([]uint64, 101)
	for i := range trips {
		trips[i] = uint64(2000 * (100 - i))
	}
	want := Latency{Size: 8, Pings: 101, Min: 0, Median: 50_000, T99: 99_000}
	if diff := cmp.Diff(want, latency(8, trips, 2)); diff != "" {
		t.Errorf("latency (-want +got):\n%s", diff)
	}
	if got := latency(8, nil, 2); got != (Latency{Size: 8}) {
		t.Errorf("of nothing: %+v", got)
	}
}
