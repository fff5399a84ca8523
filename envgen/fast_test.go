package envgen

import (
	"net/netip"
	"strings"
	"testing"

	"launch/fabric"
)

// two is a node with a slow network, which has its address, and others.
func two(slow, fast fabric.Interface, more ...fabric.Interface) Input {
	return machine(append([]fabric.Interface{lo, slow, fast}, more...)...).reachedAt("10.0.0.5")
}

func speed(i fabric.Interface, mbits int) fabric.Interface {
	i.Speed, i.Running = mbits, true
	return i
}

// The nodes' addresses may be in a slow network, and NCCL alone might take a fast one.
func TestTheFasterNetworkIsOffered(t *testing.T) {
	slow := speed(iface(2, "eth0", "physical", "10.0.0.5/24"), 1000)
	fast := speed(iface(3, "eth1", "physical", "10.9.0.5/24"), 25000)
	for _, tt := range []struct {
		name string
		in   Input
		want string // the address that is offered
		set  string // NCCL_SOCKET_IFNAME, once all nodes agreed; "": nothing is set
	}{
		{"1 and 25 Gb/s", two(slow, fast), "10.9.0.5", "=eth1"},
		{"25 and 40 Gb/s", two(speed(slow, 25000), speed(fast, 40000)), "", "=eth0"},
		{"25 and 50 Gb/s", two(speed(slow, 25000), speed(fast, 50000)), "10.9.0.5", "=eth1"},
		{"the fast one first", two(fast, speed(iface(4, "eth4", "physical", "10.0.0.5/24"), 1000)), "10.9.0.5", "=eth1"},
		{"two fast ones", two(slow, fast, speed(iface(5, "eth2", "physical", "10.8.0.5/24"), 25000)), "10.9.0.5",
			"=eth1,eth2"},
		{"no cable", two(slow, speed(iface(3, "br0", "bridge", "10.9.0.5/24"), 25000)), "", ""},
		{"a veth has no speed of its own", two(speed(iface(2, "eth0", "veth", "10.0.0.5/24"), 10000), fast), "", ""},
		{"an address of the link alone", two(slow, speed(iface(3, "eth1", "physical", "169.254.9.5/16"), 25000)), "", ""},
		{"data over InfiniBand", two(slow, fast).ib("mlx5_0"), "", ""},
		{"the user says which", two(slow, fast).with("NCCL_SOCKET_IFNAME", "eth0"), "", ""},
	} {
		got := ""
		for _, l := range Listens(tt.in, Make(tt.in)) {
			if l.Library == FastNetwork {
				got = l.Addr.String()
			}
		}
		if got != tt.want {
			t.Errorf("%s: offers %q, want %q", tt.name, got, tt.want)
		}
		if tt.want == "" {
			continue
		}
		tt.in.World.Fast = true
		set := planned(tt.in, "NCCL_SOCKET_IFNAME")
		if set != tt.set {
			t.Errorf("%s: sets %q, want %q", tt.name, set, tt.set)
		}
		for _, l := range Listens(tt.in, Make(tt.in)) {
			if l.Addr == netip.MustParseAddr(tt.want) {
				t.Errorf("%s: offers the network again", tt.name)
			}
		}
	}
}

// Once the nodes have called each other, the reason promises no change of network.
func TestTheReasonOffersTheFasterNetworkBeforeTheCallsOnly(t *testing.T) {
	in := two(speed(iface(3, "eth1", "physical", "10.9.0.5/24"), 25000),
		speed(iface(4, "eth4", "physical", "10.0.0.5/24"), 1000))
	for called, want := range map[bool]bool{false: true, true: false} {
		in.World.Called = called
		got := ""
		for _, x := range Make(in) {
			got += x.Reason
		}
		if strings.Contains(got, "a start takes that one") != want {
			t.Errorf("called %v: %s", called, got)
		}
	}
}

// A second network, at whose addresses the nodes do not reach each other, carries nothing.
func TestAnotherNetworkThatIsClosedIsLeftOut(t *testing.T) {
	in := two(iface(2, "eth0", "physical", "10.0.0.5/24"), iface(3, "eth1", "physical", "192.168.50.1/24"))
	for home, want := range map[bool]string{false: "", true: "=eth0"} {
		in.World.Home = home
		set := planned(in, "NCCL_SOCKET_IFNAME")
		if set != want {
			t.Errorf("home %v: sets %q, want %q", home, set, want)
		}
	}
}
