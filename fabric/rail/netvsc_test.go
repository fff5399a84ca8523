package rail

import (
	"testing"

	"launch/fabric/machine"
)

// A function below the interface of Hyper-V is no rail, alone or next to others. One below a bond or in a routing table
// of its own is.
func TestTheFastPathOfHyperVIsNoRail(t *testing.T) {
	card := func(net string) string {
		return "route eth0 10.1.0.4\npci2ea3:00\n  2ea3:00:02.0 15b3:101a 0200 mlx5_core\n    hca mlx5_an0 type=MT4122\n" +
			"      port 1 ACTIVE LinkUp 50 Ethernet\n        gid 0 fe80::6 v2 enP1\n        gid 1 ::ffff:10.1.0.4 v2 enP1\n" +
			"    net enP1 master=eth0 speed=50000" + net + "\nvirtual\n"
	}
	const (
		microsoft = "dmi sys_vendor=\"Microsoft Corporation\" product_name=\"Virtual Machine\"\n"
		master    = "  net eth0 addr=10.1.0.4/24"
		netvsc    = "\nfile sys/devices/vmbus/eth0/uevent \"DRIVER=hv_netvsc\"\n" +
			"link sys/devices/virtual/net/eth0/device ../../../vmbus/eth0\n"
		ib = "pci0101:00\n  0101:00:00.0 15b3:101e 0207 mlx5_core\n    hca mlx5_ib0 type=MT4126\n" +
			"      port 1 ACTIVE LinkUp 400 InfiniBand\n"
	)
	for _, tt := range []struct {
		name, text string
		kind       Kind
		rail       string // HCA
	}{
		{"by its driver", card("") + master + " kind=physical" + netvsc, TCP, ""},
		{"by the machine", microsoft + card("") + master + "\n", TCP, ""},
		{"next to InfiniBand", microsoft + ib + card("") + master + "\n", InfiniBand, "mlx5_ib0"},
		{"a bond", microsoft + card("") + master + " kind=bond\n", RoCE, "mlx5_an0"},
		{"a bridge", microsoft + card("") + master + " kind=bridge\n", RoCE, "mlx5_an0"},
		{"a routing table", microsoft + card(" addr=10.1.0.4/24") + "  net eth0\n", RoCE, "mlx5_an0"},
		{"a switch of another maker", card("") + master + "\n", RoCE, "mlx5_an0"},
	} {
		m, err := machine.Read([]byte("machine/1\n" + tt.text))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		n := m.Detect(t.Context())
		f := Of(n, n.Route.Src)
		if f.Kind != tt.kind || len(f.Rails) != 1 || f.Rails[0].HCA != tt.rail {
			t.Errorf("%s: %s %+v, want %s by %q", tt.name, f.Kind, f.Rails, tt.kind, tt.rail)
		}
	}
}
