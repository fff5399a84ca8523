package peers

import (
	"slices"
	"strings"
	"testing"

	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// TestANodeWhoseOwnKernelRefusesIsAtFault: of two nodes without a path, the one that sends nothing leaves.
func TestANodeWhoseOwnKernelRefusesIsAtFault(t *testing.T) {
	for _, tc := range []struct {
		cause sidechannel.Cause
		sick  int
		why   string
		fix   string
	}{
		{sidechannel.Blackhole, 0, "in either direction: host0 has a blackhole route to 10.0.0.1",
			"ip rule; ip route get 10.0.0.1"},
		{sidechannel.NoRoute, 1, "in either direction: host1 has no route to 10.0.0.0", "on host1: is the netmask right"},
		{sidechannel.Denied, 0, "host0 forbids calls", "prohibit"},
		{sidechannel.NoPort, 1, "host1 has no free port", "ip_local_port_range"},
		{sidechannel.Unknown, 1, "host1 cannot call: too many open files", "ulimit -n   # on host1"},
	} {
		got := compareCalls(calling(2, func(from, _ int, c *calls.Call) {
			if drop(c); from == tc.sick {
				c.Cause, c.Err, c.Here = tc.cause, "too many open files", true
			}
		}))
		if len(got) != 1 || !strings.Contains(got[0].What, tc.why) || !slices.Equal(got[0].unfit, []int{tc.sick}) ||
			!strings.Contains(got[0].What+got[0].Fix, tc.fix) || strings.Contains(got[0].Fix, "is not known") {
			t.Errorf("%s: %+v", tc.cause, got)
		}
	}
	both := compareCalls(calling(2, func(_, _ int, c *calls.Call) { c.Cause, c.Here = sidechannel.NoRoute, true }))
	if len(both) != 1 || !strings.Contains(both[0].Fix, "is not known") {
		t.Errorf("both: %+v", both)
	}
}
