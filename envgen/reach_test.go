package envgen

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	recorded "launch/fabric/machine"
)

// described returns the plan's input for a machine, as its peers reach it.
func described(t *testing.T, addr, text string) Input {
	t.Helper()
	m, err := recorded.Read([]byte("machine/1\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	n := m.Detect(t.Context())
	n.HostAddrs = []string{addr}
	return Input{Node: n, Torch: true, World: World{Nodes: 2, Addr: netip.MustParseAddr(addr)}}
}

const oneGPU = "pci0000:10\n  0000:11:00.0 10de:20b7 0302 nvidia\n    gpu \"NVIDIA A30\"\n"

// The kernel makes an entry for each interface that is up: an empty table has no interface here.
func TestRoCEWithoutAUsableEntryIsNotGivenToNCCL(t *testing.T) {
	const pod = "env KUBERNETES_SERVICE_HOST=10.96.0.1\nroute eth0 10.244.1.7\nvirtual\n" +
		"  net eth0 kind=veth addr=10.244.1.7/32\n"
	card := func(table string) string {
		return pod + oneGPU + "pci0000:20\n  0000:21:00.0 15b3:1017 0200 mlx5_core\n    hca mlx5_0 type=MT4119\n" +
			"      port 1 ACTIVE LinkUp 100 Ethernet" + table
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":         {card(" slots=16\n"), "NCCL_NET=Socket"},
		"unread":        {card("\n"), ""},
		"link-local":    {card("\n        gid 0 fe80::1 v1\n        gid 1 fe80::1 v2\n"), ""}, // and no index either
		"another pod's": {card("\n        gid 0 ::ffff:10.9.0.3 v2 net1\n"), "NCCL_NET=Socket"},
	} {
		got := brief(Make(described(t, "10.244.1.7", tt.text)))
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %q", name, got, tt.want)
		}
	}
}

// A service network may lead to the peers: NCCL's data belongs on the links, with or without the plugin.
func TestSlingshotIsUsedWhereAnotherNetworkLeadsToTheNodes(t *testing.T) {
	links := func(third string) string {
		return "route nmn0 10.100.8.7\n" + oneGPU + "pci0000:20\n" +
			"  0000:21:00.0 17db:0501 0200 cxi_core\n    net hsn0 speed=200000 addr=172.28.0.7/16\n" +
			"  0000:22:00.0 17db:0501 0200 cxi_core\n    net hsn1 speed=200000 addr=172.28.1.7/16\n" +
			"  0000:23:00.0 17db:0501 0200 cxi_core\n    net hsn2 " + third + "\n" +
			"  0000:24:00.0 8086:1563 0200 ixgbe\n    net nmn0 speed=10000 addr=10.100.8.7/17\n"
	}
	whole, dark := links("speed=200000 addr=172.28.2.7/16"), links("nocarrier")
	for _, tt := range []struct {
		name, addr, text, want string
		home, plugin           bool
	}{
		{"by the service network", "10.100.8.7", whole, "NCCL_SOCKET_IFNAME==hsn0,hsn1,hsn2", false, false},
		{"a link has no carrier", "10.100.8.7", dark, "NCCL_SOCKET_IFNAME==hsn0,hsn1", false, false},
		{"by a link", "172.28.1.7", whole, "NCCL_SOCKET_IFNAME==hsn0,hsn1,hsn2", false, false},
		{"with the plugin NCCL's own choice is right", "10.100.8.7", whole, "", false, true},
		{"the links do not reach the others", "10.100.8.7", whole, "NCCL_SOCKET_IFNAME==nmn0", true, false},
	} {
		in := described(t, tt.addr, tt.text)
		in.World.Home = tt.home
		if tt.plugin {
			in = in.plugin("aws-ofi-nccl 1.16.0")
		}
		got := slices.DeleteFunc(brief(Make(in)), func(s string) bool { return !strings.HasPrefix(s, "NCCL_SOCKET_IFNAME") })
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAnAddressOnLoopbackIsExplained(t *testing.T) {
	in := machine(iface(1, "lo", "loopback", "127.0.0.1/8", "10.0.0.5/32"), iface(2, "lan0", "physical", "fe80::5/64"))
	i := slices.IndexFunc(Explain(in), func(e Explanation) bool { return e.Name == "NCCL_SOCKET_IFNAME" })
	if i < 0 || !strings.Contains(Explain(in)[i].Why, "is on a loopback interface") {
		t.Errorf("not explained: %v", Explain(in))
	}
}
