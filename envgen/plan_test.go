package envgen

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/internal/setting"
)

// planned returns the value that the plan gives a variable; "": it sets none.
func planned(in Input, name string) string {
	for _, v := range Make(in) {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// brief is a plan as name=value, with the user's value after it if it won.
func brief(p Plan) []string {
	var out []string
	for _, v := range p {
		s := v.Name + "=" + v.Value
		if v.Kept {
			s += " kept " + v.User
		}
		out = append(out, s)
	}
	return out
}

func TestMakeOnMachines(t *testing.T) {
	gloo := []string{"GLOO_SOCKET_IFNAME=eth0", "TP_SOCKET_IFNAME=eth0"}
	all := append([]string{"NCCL_SOCKET_IFNAME==eth0"}, gloo...)
	nccl := all[:1]
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"single NIC", machine(lo, eth0), nil},
		{"healthy RDMA node with IPv6 neighbours", machine(lo, eth0, veth).hca("mlx5_0", 4), nil},
		{"docker0 first, which every library avoids", machine(lo, docker0, eth0), nil},
		{"bridge of docker compose first", machine(lo, bridge, eth0), nccl},
		{"libvirt bridge first, for NCCL before 2.28.3", machine(lo, virbr0, eth0), nccl},
		{"libvirt bridge without a guest", machine(lo, down(virbr0), eth0), nil},
		{"VPN next to the network, data over TCP", machine(lo, eth0, tailscale0), nccl},
		{"VPN next to the network, data over RDMA", machine(lo, eth0, tailscale0).hca("mlx5_0", 4), nil},
		{"VPN next to a fabric that is down", machine(lo, eth0, tailscale0).hca("mlx5_0", 1), nccl},
		{"VPN next to a fabric that is switched off",
			machine(lo, eth0, tailscale0).hca("mlx5_0", 4).with("NCCL_IB_DISABLE", "1"), nccl},
		{"veth of a container, link-local only", machine(lo, eth0, veth), nccl},
		{"second network for data is left to NCCL", machine(lo, eth0, eth1), nil},
		{"peers on the second network", machine(lo, eth0, eth1).reachedAt("10.1.0.5"),
			[]string{"NCCL_SOCKET_IFNAME==eth1", "GLOO_SOCKET_IFNAME=eth1", "TP_SOCKET_IFNAME=eth1"}},
		{"bridge that has the network card in it, peers elsewhere", machine(lo, eth0, wired, slave), nil},
		{"IPoIB next to the network of the peers", machine(lo, eth0, ib0), nccl},
		{"peers over IPoIB", machine(lo, eth0, ib0).reachedAt("10.9.0.5").named("10.9.0.5"), nil},
		{"host name on 127.0.1.1", machine(lo, eth0).named("127.0.1.1"), gloo},
		{"host name on 127.0.1.1, no GPUs", machine(lo, docker0, eth0).named("127.0.1.1").noGPUs(), gloo},
		{"host name unknown", machine(lo, eth0).unnamed(), gloo},
		{"host name not asked for", machine(lo, eth0).named(), nil},
		{"host name of another machine", machine(lo, eth0).named("10.0.0.99"), gloo},
		{"host name first unusable, then right", machine(lo, eth0).named("10.0.0.99", "10.0.0.5"), nil},
		{"host name on docker0", machine(lo, docker0, eth0).named("172.17.0.1"), gloo},
		{"everything wrong", machine(lo, bridge, eth0).named("127.0.1.1"), all},
		{"no GPUs and no torch",
			func() Input { in := machine(lo, bridge, eth0).noGPUs(); in.Torch = false; return in }(), nil},
		{"one node", machine(lo, bridge, eth0).named("127.0.1.1").nodes(1), nil},
		{"all nodes on this machine", machine(lo, bridge, eth0).named("127.0.1.1").reachedAt("127.0.0.1"), nil},
		{"address after NAT", machine(lo, bridge, eth0).reachedAt("203.0.113.9"), nil},
		{"IPv4-mapped address", machine(lo, bridge, eth0).reachedAt("::ffff:10.0.0.5"), nccl},
		{"address on an interface that is off", machine(lo, bridge, off(eth0)).named("127.0.1.1"), nil},
		{"interface of the peers without carrier", machine(lo, bridge, down(eth0)), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, brief(Make(tt.in))); diff != "" {
				t.Errorf("Make (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMakeKeepsTheUsersValue(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"different", machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", "br-"),
			[]string{"NCCL_SOCKET_IFNAME==eth0 kept br-"}},
		{"different where the library alone is right", machine(lo, eth0, eth1).with("NCCL_SOCKET_IFNAME", "eth1"),
			[]string{"NCCL_SOCKET_IFNAME==eth0 kept eth1"}},
		{"other words, same effect", machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", "eth"), nil},
		{"the bridge excluded", machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", "^br-,docker,lo"), nil},
		{"empty, which NCCL takes for unset", machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", ""),
			[]string{"NCCL_SOCKET_IFNAME==eth0 kept "}},
		{"Gloo on two interfaces, ours among them",
			machine(lo, eth0, eth1).named("127.0.1.1").with("GLOO_SOCKET_IFNAME", "eth1,eth0", "TP_SOCKET_IFNAME",
				"eth0"), nil},
		{"Gloo elsewhere", machine(lo, eth0, eth1).with("GLOO_SOCKET_IFNAME", "eth1"),
			[]string{"GLOO_SOCKET_IFNAME=eth0 kept eth1"}},
		{"the first of two is in force",
			machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", "=eth0", "NCCL_SOCKET_IFNAME", "br-"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, brief(Make(tt.in))); diff != "" {
				t.Errorf("Make (-want +got):\n%s", diff)
			}
		})
	}
	in := machine(lo, bridge, eth0)
	in.Decided = []setting.Decided{{Name: "NCCL_SOCKET_IFNAME", Value: "br-1", From: "/etc/nccl.conf"}}
	if got := Make(in); len(got) != 1 || got[0].From != "/etc/nccl.conf" || got[0].User != "br-1" {
		t.Errorf("Make lacks whose value won and where it is set: %+v", got)
	}
}

func TestMakeForMpirunPlansOnlySubnets(t *testing.T) {
	both := []string{"OMPI_MCA_btl_tcp_if_include=10.0.0.0/24", "OMPI_MCA_oob_tcp_if_include=10.0.0.0/24"}
	far := machine(lo, docker0, eth0).mpirun()
	far.World.Peers = append(far.World.Peers, netip.MustParseAddr("10.7.0.6"))
	noPeers := machine(lo, docker0, eth0).mpirun()
	noPeers.World.Peers = nil
	onePeer := machine(lo, docker0, eth0).mpirun()
	onePeer.World.Peers = onePeer.World.Peers[:1]
	cloud := machine(lo, docker0, iface(3, "ens4", "physical", "10.0.0.5/32")).mpirun()
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"no decoy", machine(lo, eth0).mpirun(), nil},
		{"second real network", machine(lo, eth0, eth1).mpirun(), nil},
		{"docker0 without carrier, which Open MPI still takes", machine(lo, down(docker0), eth0).mpirun(), both},
		{"VPN", machine(lo, eth0, tailscale0).mpirun(), both},
		{"bridge that NCCL would take too", machine(lo, bridge, eth0).named("127.0.1.1").mpirun(), both},
		{"a host outside the subnet", far, nil},
		{"hosts not known", noPeers, nil},
		{"one of the hosts not known", onePeer, nil},
		{"address without a subnet", cloud, nil},
		{"user excludes", machine(lo, docker0, eth0).mpirun().with("OMPI_MCA_btl_tcp_if_exclude", "docker0"), both[1:]},
		{"user names the interface", machine(lo, docker0, eth0).mpirun().with("OMPI_MCA_btl_tcp_if_include", "eth0"),
			both[1:]},
		{"user names a wider subnet", machine(lo, docker0, eth0).mpirun().with("OMPI_MCA_btl_tcp_if_include",
			"10.0.0.0/8"), both[1:]},
		{"user names another", machine(lo, docker0, eth0).mpirun().with("OMPI_MCA_btl_tcp_if_include", "docker0"),
			[]string{both[0] + " kept docker0", both[1]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Make(tt.in)
			if diff := cmp.Diff(tt.want, brief(got)); diff != "" {
				t.Errorf("Make (-want +got):\n%s", diff)
			}
			for _, v := range got {
				if v.Scope != setting.Job {
					t.Errorf("%s has scope %q: a fact of this node must not travel", v.Name, v.Scope)
				}
			}
		})
	}
}

func TestReasonIsWhatTheLibraryWouldDo(t *testing.T) {
	plan := Make(machine(lo, bridge, eth0))
	want := "NCCL would use br-1a2b3c, the first in its own order; the other nodes reach this node at 10.0.0.5 on eth0"
	if diff := cmp.Diff(want, plan[0].Reason); diff != "" {
		t.Errorf("reason (-want +got):\n%s", diff)
	}
}

func TestGlooTakesTheSubnetOfThePeers(t *testing.T) {
	two := iface(3, "eth0", "physical", "10.0.0.5/24", "192.168.1.5/24")
	first := machine(lo, two).named("192.168.1.5")
	if diff := cmp.Diff([]string{"GLOO_SOCKET_IFNAME=eth0", "TP_SOCKET_IFNAME=eth0"}, brief(Make(first))); diff != "" {
		t.Errorf("the interface's first address is in the peers' subnet (-want +got):\n%s", diff)
	}
	// The name of the interface would give 10.0.0.5 again, so it helps nothing.
	if got := Make(machine(lo, two).named("10.0.0.5").reachedAt("192.168.1.5")); got != nil {
		t.Errorf("Make = %v, want nothing where no name can help", brief(got))
	}
}

func TestSocketFamilyIsRespected(t *testing.T) {
	v6 := iface(2, "a0", "physical", "fd00::2/64")
	both := iface(3, "b0", "physical", "10.0.0.5/24", "fd00::5/64")
	in := machine(lo, v6, both)
	if got := brief(Make(in)); got != nil {
		t.Errorf("IPv4 comes before IPv6 in NCCL's order, Make = %v", got)
	}
	want := []string{"NCCL_SOCKET_IFNAME==b0"}
	if diff := cmp.Diff(want, brief(Make(in.with("NCCL_SOCKET_FAMILY", "AF_INET6")))); diff != "" {
		t.Errorf("with IPv6 only (-want +got):\n%s", diff)
	}
}

func TestMakeIsPure(t *testing.T) {
	in := machine(lo, bridge, eth0, tailscale0).named("127.0.1.1").with("GLOO_SOCKET_IFNAME", "br-1a2b3c")
	before := append([]fabric.Interface(nil), in.Node.Interfaces...)
	if diff := cmp.Diff(Make(in), Make(in)); diff != "" {
		t.Errorf("two plans of one input differ:\n%s", diff)
	}
	if diff := cmp.Diff(before, in.Node.Interfaces,
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("Make changed its input:\n%s", diff)
	}
}
