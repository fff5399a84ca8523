package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// lossless returns the lines of a RoCE card whose driver shows its flow and congestion control for priority 4.
func lossless(i int) string {
	text := fmt.Sprintf("@.0 15b3:101d 0200 mlx5_core\n  hca mlx5_%[1]d type=MT4125 board=MT_0000000359\n"+
		"    port 1 ACTIVE LinkUp 100 Ethernet\n      gid 3 ::ffff:10.66.%[1]d.9 v2 p%[1]d\n"+
		"  net p%[1]d speed=100000 addr=10.66.%[1]d.9/24\n"+
		"    file qos/trust dscp\n    file qos/pfc 0,0,0,0,1,0,0,0\n", i)
	for priority := range 8 {
		on := map[bool]int{true: 1}[priority == 4]
		text += fmt.Sprintf("    file ecn/roce_np/enable/%[1]d %[2]d\n    file ecn/roce_rp/enable/%[1]d %[2]d\n",
			priority, on)
	}
	return text
}

// Each fault is on one port of a machine whose other ports are alike, next to machines that are in order.
func TestQoSOfTheRails(t *testing.T) {
	one := func(at int, old, new string) func(int) string {
		return func(i int) string {
			if i == at {
				return strings.ReplaceAll(lossless(i), old, new)
			}
			return lossless(i)
		}
	}
	without := func(marks ...string) func(int) string {
		return func(i int) string {
			var out string
			for line := range strings.Lines(lossless(i)) {
				keep := true
				for _, m := range marks {
					keep = keep && !strings.Contains(line, m)
				}
				if keep {
					out += line
				}
			}
			return out
		}
	}
	tagged := func(i int) string { // the address is on a VLAN, and the files are those of the port
		return strings.Replace(strings.Replace(one(1, "trust dscp", "trust pcp")(i), fmt.Sprintf("v2 p%d", i),
			fmt.Sprintf("v2 p%d.7", i), 1), fmt.Sprintf(" addr=10.66.%d.9/24", i), "", 1)
	}
	vlans := "virtual\n"
	for i := range 3 {
		vlans += fmt.Sprintf("  net p%[1]d.7 kind=vlan addr=10.66.%[1]d.9/24\n", i)
	}
	for _, tt := range []struct {
		name      string
		machine   of
		want, fix string
	}{
		{"all alike", of{4, instinct, lossless, uplink}, "ok 4 rails treat congestion alike", ""},
		{"another driver", of{4, instinct, without("qos/", "ecn/"), uplink}, "skip no rail shows", ""},
		{"one shows nothing", of{4, instinct, func(i int) string {
			if i == 2 {
				return without("qos/", "ecn/")(i)
			}
			return lossless(i)
		}, uplink}, "ok 4 rails", ""},
		{"two that differ", of{2, instinct, one(1, "trust dscp", "trust pcp"), uplink}, "ok 2 rails", ""},
		{"one trusts another mark", of{3, instinct, one(1, "trust dscp", "trust pcp"), uplink},
			"warn mlx5_1 has trust pcp; 2 of the 3 rails of its kind have trust dscp", "mlnx_qos -i p1 --trust dscp"},
		{"one has no flow control", of{4, instinct, one(3, "qos/pfc 0,0,0,0,1", "qos/pfc 0,0,0,0,0"), uplink},
			"warn mlx5_3 has PFC for no priority; 3 of the 4 rails of its kind have PFC for priority 4",
			"mlnx_qos -i p3 --pfc 0,0,0,0,1,0,0,0"},
		{"one has DCQCN for another priority", of{4, instinct, func(i int) string {
			if i == 0 {
				return strings.NewReplacer("enable/4 1", "enable/4 0", "enable/3 0", "enable/3 1").Replace(lossless(i))
			}
			return lossless(i)
		}, uplink}, "warn mlx5_0 has DCQCN for priority 3; 3 of the 4 rails of its kind have DCQCN for priority 4",
			"echo 0 > /sys/class/net/p0/ecn/roce_np/enable/3; echo 1 > /sys/class/net/p0/ecn/roce_np/enable/4; echo 0"},
		{"one has DCQCN for more priorities", of{4, instinct, one(0, "enable/5 0", "enable/5 1"), uplink},
			"ok 4 rails", ""},
		{"one has flow control for more", of{4, instinct, one(0, "qos/pfc 0,0,0,0,1", "qos/pfc 0,0,0,1,1"), uplink},
			"ok 4 rails", ""},
		{"one does not slow down", of{4, instinct, one(2, "roce_rp/enable/4 1", "roce_rp/enable/4 0"), uplink},
			"warn mlx5_2 has DCQCN reports (roce_np) for priority 4 and reaction (roce_rp) for no priority",
			"echo 1 > /sys/class/net/p2/ecn/roce_rp/enable/4   # "},
		{"one trusts another mark below its VLAN", of{3, instinct, tagged, uplink + vlans}, "warn mlx5_1 has trust pcp",
			"mlnx_qos -i p1 --trust dscp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := checktest.Verdict(t, Checks(), "rdma.qos", tt.machine.input(t, "route eno1 192.168.9.7\n"))
			checktest.Wants(t, f, tt.want)
			if !strings.Contains(f.Fix, tt.fix) {
				t.Errorf("fix %q", f.Fix)
			}
		})
	}
}
