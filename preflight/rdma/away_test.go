package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// The interface of a rail that is in another network namespace, and what looks alike.
func TestTheInterfaceOfARailIsInAnotherNamespace(t *testing.T) {
	card := func(i int, netdev, net string) string {
		return fmt.Sprintf("@.0 15b3:1021 0200 mlx5_core gen=5 lanes=16\n  hca roce%[1]d type=MT4129 "+
			"guid=08c0:eb03:0000:%04[1]x system=08c0:eb03:0000:%04[1]x\n    port 1 ACTIVE LinkUp 400 Ethernet\n"+
			"      gid 0 fe80::9:%[1]d v1 %[2]s\n      gid 1 fe80::9:%[1]d v2 %[2]s\n"+
			"      gid 2 ::ffff:10.81.%[1]d.9 v1 %[2]s\n      gid 3 ::ffff:10.81.%[1]d.9 v2 %[2]s\n%[3]s", i, netdev, net)
	}
	here := func(i int) string {
		name := fmt.Sprintf("rail%d", i)
		return card(i, name, fmt.Sprintf("  net %s speed=400000 addr=10.81.%d.9/24\n", name, i))
	}
	but := func(at int, netdev, net string) func(int) string {
		return func(i int) string {
			if i == at {
				return card(i, netdev, net)
			}
			return here(i)
		}
	}
	const net3 = "  net rail3 speed=400000\n"
	bare := func(i int) string { // an interface without an address
		return strings.Split(card(i, "rail3", net3), "      gid 2")[0] + net3
	}
	more := func(lines string) string {
		return uplink + "pci00f8:00\n " + strings.ReplaceAll(lines, "@", "00f8:01:00")
	}
	const gone = "warn the interface of roce3 is in another network namespace, unlike those of the 5 rails of this node"
	for _, tt := range []struct {
		name    string
		machine of
		want    string
	}{
		{"all are here", of{6, instinct, here, uplink}, "ok 6 RoCE rails"},
		{"one is not, and its name is known", of{6, instinct, but(3, "net1", ""), uplink}, gone},
		{"one is not, and its name is not known", of{6, instinct, but(3, "", ""), uplink}, gone},
		{"one is here without an address", of{6, instinct, func(i int) string {
			if i == 3 {
				return bare(i)
			}
			return here(i)
		}, uplink}, "warn 1 card without an IP address that a router forwards"},
		{"one more than the GPUs need", of{4, instinct, here, more(card(9, "net1", ""))}, "ok 4 RoCE rails"},
		{"a pod has the others",
			of{6, instinct, but(3, "net1", ""), uplink + "env KUBERNETES_SERVICE_HOST=10.96.0.1\n"}, "ok 5 RoCE rails"},
	} {
		f := checktest.Verdict(t, Checks(), "rdma.gid", tt.machine.input(t, "route eno1 192.168.9.7\n"))
		checktest.Wants(t, f, tt.want)
		if tt.want == gone && !strings.Contains(f.Fix, "lsns -t net") {
			t.Errorf("%s: fix %q", tt.name, f.Fix)
		}
		if t.Failed() {
			t.Fatal(tt.name)
		}
	}
}
