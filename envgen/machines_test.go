package envgen

import (
	"net/netip"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/setting"
)

// The table machines: one function for each interface and one for each fact
// that a test adds to them.

func iface(index int, name, kind string, addrs ...string) fabric.Interface {
	i := fabric.Interface{Index: index, Name: name, Kind: kind, Up: true, Running: true}
	for _, a := range addrs {
		i.Addrs = append(i.Addrs, netip.MustParsePrefix(a))
	}
	return i
}

var (
	lo         = iface(1, "lo", "loopback", "127.0.0.1/8", "::1/128")
	docker0    = iface(2, "docker0", "bridge", "172.17.0.1/16")
	bridge     = iface(2, "br-1a2b3c", "bridge", "172.18.0.1/16")
	virbr0     = iface(2, "virbr0", "bridge", "192.168.122.1/24")
	eth0       = iface(3, "eth0", "physical", "10.0.0.5/24", "fe80::5/64")
	eth1       = iface(4, "eth1", "physical", "10.1.0.5/24")
	ib0        = iface(5, "ib0", "ipoib", "10.9.0.5/24")
	tailscale0 = iface(6, "tailscale0", "tun", "100.64.0.5/32")
	wired      = iface(8, "br0", "bridge", "10.3.0.5/24")
	slave      = fabric.Interface{Index: 9, Name: "ens9", Kind: "physical", Up: true, Running: true, Master: "br0"}
	veth       = iface(7, "veth77", "veth", "fe80::77/64")
)

// machine is a node with two GPUs whose host name is what its address says.
func machine(all ...fabric.Interface) Input {
	return Input{
		Torch: true,
		Node: fabric.Node{
			Hostname: "node0", HostAddrs: []string{"10.0.0.5"}, Interfaces: all,
			GPUs: gpu.Facts{Present: true, Devices: make([]gpu.GPU, 2)},
		},
		World: World{Nodes: 2, Addr: netip.MustParseAddr("10.0.0.5"),
			Peers: []netip.Addr{netip.MustParseAddr("10.0.0.6")}},
	}
}

func (in Input) named(hostAddrs ...string) Input { in.Node.HostAddrs = hostAddrs; return in }

func (in Input) reachedAt(addr string) Input { in.World.Addr = netip.MustParseAddr(addr); return in }

func (in Input) nodes(n int) Input { in.World.Nodes = n; return in }

func (in Input) apart() Input { in.World.Apart = true; return in }

func (in Input) noGPUs() Input { in.Node.GPUs = gpu.Facts{Absent: "no driver"}; return in }

// mpirun is its line on a head that is none of its two hosts.
func (in Input) mpirun() Input {
	in.Torch, in.Mpirun = false, true
	in.World.Peers = []netip.Addr{netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("10.0.0.7")}
	return in
}

func (in Input) unnamed() Input {
	in.Node.HostAddrs, in.Node.HostErr = nil, "no such host"
	return in
}

func (in Input) with(names ...string) Input {
	for i := 0; i < len(names); i += 2 {
		in.Decided = append(in.Decided, setting.Decided{Name: names[i], Value: names[i+1], From: "environment"})
	}
	return in
}

func (in Input) hca(name string, state int) Input {
	in.Node.HCAs = append(in.Node.HCAs,
		fabric.HCA{Name: name, Ports: []fabric.Port{{Num: 1, State: state, LinkLayer: "InfiniBand"}}})
	return in
}

func down(i fabric.Interface) fabric.Interface { i.Running = false; return i }

func off(i fabric.Interface) fabric.Interface { i.Up, i.Running = false, false; return i }
