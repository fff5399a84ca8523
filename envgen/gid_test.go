package envgen

import (
	"net/netip"
	"testing"

	"launch/fabric"
)

// The table of a port, and what NCCL chooses of it on its own
// (src/transport/net_ib/connect.cc).
func TestGIDIsChosenAsNCCLDoes(t *testing.T) {
	table := func(entries ...string) fabric.Port {
		return Input{}.rdma("m", "mlx5_core", ethernet, 400, "r0", entries...).Node.HCAs[0].Ports[0]
	}
	const ll1, ll2 = "fe80::1 v1 r0", "fe80::1 v2 r0"
	usual := table(ll1, ll2, "10.0.0.5 v1 r0", "10.0.0.5 v2 r0")
	vlan := table(ll1, ll2, "10.0.0.5 v1 r0", "10.0.0.5 v2 r0", "10.9.0.5 v1 r0", "10.9.0.5 v2 r0")
	only6 := table(ll1, ll2, "fd01::5 v1 r0", "fd01::5 v2 r0")
	v1only6 := table(ll1, "fd01::5 v1 r0")
	dynamic := gidChoice{index: -1, version: 2}
	for _, tt := range []struct {
		name string
		port fabric.Port
		c    gidChoice
		want int
	}{
		{"usual", usual, dynamic, 3},
		{"usual, before 2.21", usual, gidChoice{}, 0},
		{"usual, index set", usual, gidChoice{index: 1}, 1},
		{"second address", vlan, dynamic, 3},
		{"second address, range", vlan, gidChoice{index: -1, version: 2, in: netip.MustParsePrefix("10.9.0.0/16")}, 5},
		{"range of none", vlan, gidChoice{index: -1, version: 2, in: netip.MustParsePrefix("10.7.0.0/16")}, 0},
		{"v1 only", table(ll1, "10.0.0.5 v1 r0"), dynamic, 1},
		{"v2 only", table(ll2, "10.0.0.5 v2 r0"), dynamic, 1},
		{"IPv6 only", only6, dynamic, 0},
		{"IPv6 only, family", only6, gidChoice{index: -1, version: 2, ipv6: true}, 3},
		{"IPv6 only on a v1 card, family", v1only6, gidChoice{index: -1, version: 2, ipv6: true}, 0},
		{"IPv6 only on a v1 card, family and version", v1only6, gidChoice{index: -1, version: 1, ipv6: true}, 1},
		{"no address", table(ll1, ll2), dynamic, 0},
		{"169.254 is an address", table(ll1, ll2, "169.254.1.2 v1 r0", "169.254.1.2 v2 r0"), dynamic, 3},
		{"both families", table(ll1, ll2, "10.0.0.5 v1 r0", "10.0.0.5 v2 r0", "fd01::5 v1 r0", "fd01::5 v2 r0"),
			dynamic, 3},
		{"first entries cannot be read", table("", "", "10.0.0.5 v1 r0", "10.0.0.5 v2 r0"), dynamic, 3},
		{"types cannot be read", table("fe80::1 - h", "10.0.0.2 - h", "10.0.0.5 v1 r0", "10.0.0.5 v2 r0"), dynamic, 3},
		{"empty", table(), dynamic, 0},
	} {
		if got := tt.c.of(tt.port); got != tt.want {
			t.Errorf("%s: entry %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Where the rails disagree about everything, nothing is set, and it is said.
func TestGIDsThatNoSettingReachesAreExplained(t *testing.T) {
	in := machine(lo, eth0).roce("mlx5_0", "r0", "10.1.0.5/24").nccl("2.20.5")
	in = in.rdma("bnxt_re0", "bnxt_en", "Ethernet", 400, "r0", "fe80::2 v2 r0", "10.1.0.5 v2 r0")
	if got := brief(Make(in)); got != nil {
		t.Errorf("Make = %v, want nothing: the right entries are 3 and 1", got)
	}
	for _, e := range Explain(in) {
		if e.Name == "NCCL_IB_GID_INDEX" {
			if want := "NCCL would use entry 0 of mlx5_0:1, and entry 3 is the RoCE v2 entry of 10.1.0.5; no " +
				"setting helps: give the interfaces of the rails addresses in one subnet, or use a newer " +
				"NCCL"; e.Why != want {
				t.Errorf("why %q, want %q", e.Why, want)
			}
			return
		}
	}
	t.Error("NCCL_IB_GID_INDEX is not explained")
}

func TestCoverIsTheSmallestCommonSubnet(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"10.1.0.0/24", "10.1.1.0/24", "10.1.0.0/23"},
		{"10.1.0.0/24", "10.1.0.128/25", "10.1.0.0/24"},
		{"10.0.0.0/24", "11.0.0.0/24", "10.0.0.0/7"},
		{"10.0.0.0/24", "192.168.0.0/24", "invalid Prefix"},
		{"fd00::/64", "fd00:0:0:1::/64", "fd00::/63"},
		{"10.0.0.0/8", "fd00::/64", "invalid Prefix"},
	} {
		if got := cover(netip.MustParsePrefix(tt.a), netip.MustParsePrefix(tt.b)).String(); got != tt.want {
			t.Errorf("%s and %s: %s, want %s", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestSpansHoldVersions(t *testing.T) {
	for _, tt := range []struct {
		span    span
		version string
		want    bool
	}{
		{span{since: "2.21"}, "2.21.5+cuda12.4", true},
		{span{since: "2.21"}, "2.20.5", false},
		{span{since: "2.21"}, "", true},
		{span{before: "2.23"}, "2.23.4", false},
		{span{before: "2.23"}, "2.22.3", true},
		{span{before: "2.23"}, "", false},
		{span{before: "2.23"}, "unknown", false},
		{span{since: "2.24", before: "2.26.5"}, "2.26.4", true},
		{span{since: "2.24", before: "2.26.5"}, "2.26.5", false},
		{span{}, "", true},
	} {
		if got := tt.span.holds(parseVersion(tt.version)); got != tt.want {
			t.Errorf("%s holds %q: %v, want %v", tt.span, tt.version, got, tt.want)
		}
	}
}
