package envgen

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine/machinetest"
	"launch/fabric/rail"
	"launch/internal/setting"
)

func TestListensAreTheOtherAddressesForThePeers(t *testing.T) {
	nic := func(i int, name, addr string) fabric.Interface {
		return fabric.Interface{Index: i, Name: name, Kind: "physical", Up: true, Running: true, MTU: 1500,
			Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}}
	}
	node := fabric.Node{Hostname: "n", Interfaces: []fabric.Interface{nic(2, "eth0", "10.0.0.5/24"),
		nic(3, "eth1", "10.1.0.5/24"), nic(4, "eth2", "10.2.0.5/24")},
		GPUs: gpu.Facts{Present: true, Devices: []gpu.GPU{{Name: "H100"}}}}
	world := World{Nodes: 2, Addr: netip.MustParseAddr("10.0.0.5")}
	at := netip.MustParseAddr
	for _, tc := range []struct {
		name    string
		decided []setting.Decided
		gpus    bool
		want    []Listen
	}{
		{"NCCL takes all interfaces for data over TCP",
			nil, true, []Listen{{Library: "NCCL", Addr: at("10.1.0.5")}, {Library: "NCCL", Addr: at("10.2.0.5")}}},
		{"no GPUs", nil, false, nil},
		{"NCCL is set", []setting.Decided{{Name: "NCCL_SOCKET_IFNAME", Value: "=eth1"}}, true,
			[]Listen{{Library: "NCCL", Addr: at("10.1.0.5"), Typed: true}}},
		{"NCCL is set to the same", []setting.Decided{{Name: "NCCL_SOCKET_IFNAME", Value: "eth0"}}, true, nil},
		{"Gloo is set", []setting.Decided{{Name: "NCCL_SOCKET_IFNAME", Value: "eth0"},
			{Name: "GLOO_SOCKET_IFNAME", Value: "eth2"}}, true, []Listen{{Library: "Gloo", Addr: at("10.2.0.5"), Typed: true}}},
	} {
		n := node
		if !tc.gpus {
			n.GPUs = gpu.Facts{Absent: "none"}
		}
		in := Input{Node: n, World: world, Decided: tc.decided, Torch: true}
		if diff := cmp.Diff(tc.want, Listens(in, nil),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	second := node
	second.GPUs, second.HostAddrs = gpu.Facts{Absent: "none"}, []string{"10.0.0.77"}
	second.Interfaces = slices.Clone(node.Interfaces)
	second.Interfaces[0].Addrs = append(slices.Clone(node.Interfaces[0].Addrs), netip.MustParsePrefix("10.0.0.77/24"))
	in := Input{Node: second, World: world, Torch: true}
	if got := Listens(in, Make(in)); len(got) != 1 || got[0].Library != "Gloo" || got[0].Addr != at("10.0.0.77") {
		t.Errorf("the host name is a second address of the interface: got %v", got)
	}
	in.World.Home = true // the nodes do not reach each other there
	if got := Listens(in, Make(in)); len(got) != 0 || !slices.Contains(brief(Make(in)), "GLOO_SOCKET_IFNAME=eth0") {
		t.Errorf("the same, and it is left out: got %v, %v", got, brief(Make(in)))
	}
	if got := Listens(Input{Node: node, World: World{Nodes: 1}, Torch: true}, nil); got != nil {
		t.Errorf("one node: got %v", got)
	}
}

// Each link of Slingshot has a part of the speed, and without the plugin NCCL's data goes over these interfaces.
func TestAllLinksOfSlingshotCarryData(t *testing.T) {
	in := Input{Node: machinetest.Node(t, "slingshot-mi250x"), Torch: true, World: World{Nodes: 2}}
	links := rail.Of(in.Node, netip.Addr{}).Rails
	if len(links) < 2 {
		t.Fatalf("%d links", len(links))
	}
	var names []string
	for _, r := range links {
		names = append(names, r.Netdev)
	}
	first, _ := in.Node.Interface(names[0])
	in.World.Addr = firstAddr(first)
	in.Node.Interfaces = slices.Insert(slices.Clone(in.Node.Interfaces), 0, iface(1, "nmn0", "physical", "10.106.0.5/17"))
	want := "NCCL_SOCKET_IFNAME==" + strings.Join(names, ",")
	if !slices.Contains(brief(Make(in)), want) {
		t.Errorf("not %s: %v", want, brief(Make(in)))
	}
}
