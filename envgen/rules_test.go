package envgen

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/software"
	"launch/internal/setting"
)

// Facts that a test adds to a machine; see also machines_test.go.

// rdma adds an HCA with one ACTIVE port and the GIDs, each "ADDR TYPE NETDEV".
func (in Input) rdma(name, driver, link string, rate float64, netdev string, gids ...string) Input {
	p := fabric.Port{Num: 1, State: 4, PhysState: 5, LinkLayer: link, Rate: rate, Netdev: netdev}
	for i, g := range gids {
		w := strings.Fields(g)
		if len(w) == 3 {
			kind := map[string]string{"v1": "IB/RoCE v1", "v2": "RoCE v2", "-": ""}[w[1]]
			p.GIDs = append(p.GIDs, fabric.GID{Index: i, Addr: netip.MustParseAddr(w[0]), Type: kind, Netdev: w[2]})
		}
	}
	h := fabric.HCA{Name: name, Driver: driver, NodeType: 1, NUMA: -1, Ports: []fabric.Port{p}}
	in.Node.HCAs = append(slices.Clone(in.Node.HCAs), h)
	return in
}

func (in Input) ib(names ...string) Input {
	for _, n := range names {
		in = in.rdma(n, "mlx5_core", "InfiniBand", 400, "")
	}
	return in
}

// roce adds a RoCE HCA whose interface has the address, with the usual four
// GIDs.
func (in Input) roce(name, netdev, addr string) Input {
	p := netip.MustParsePrefix(addr)
	in.Node.Interfaces = append(slices.Clone(in.Node.Interfaces),
		iface(20+len(in.Node.Interfaces), netdev, "physical", addr))
	a := p.Addr().String()
	return in.rdma(name, "mlx5_core", "Ethernet", 400, netdev, "fe80::1 v1 "+netdev, "fe80::1 v2 "+netdev,
		a+" v1 "+netdev, a+" v2 "+netdev)
}

func (in Input) nccl(version string) Input {
	in.Node.Software.NCCL = software.Item{Version: version, Path: "/opt/libnccl.so.2"}
	return in
}

func (in Input) plugin(version string) Input {
	in.Node.Software.Plugin = software.Item{Version: version, Path: "/opt/libnccl-net.so"}
	return in
}

func (in Input) using(libraries ...string) Input { in.Uses = libraries; return in }

func (in Input) gpu(model string) Input {
	in.Node.GPUs.Devices = slices.Clone(in.Node.GPUs.Devices)
	for i := range in.Node.GPUs.Devices {
		in.Node.GPUs.Devices[i].Name = model
	}
	return in
}

func (in Input) file(name, text string) Input {
	files := map[string]string{name: text}
	for n, t := range in.Files {
		files[n] = t
	}
	in.Files = files
	return in
}

func (in Input) cloud(provider string) Input { in.Node.Cloud.Provider = provider; return in }

func (in Input) pci(addrs ...string) Input {
	for _, a := range addrs {
		in.Node.PCI = append(in.Node.PCI, fabric.PCI{Addr: a})
	}
	return in
}

func (in Input) head(mpi string) Input {
	in = in.mpirun()
	in.MPI = mpi
	in.World.Peers = []netip.Addr{in.World.Addr, netip.MustParseAddr("10.0.0.6")}
	return in
}

func (in Input) started() Input {
	in.World.Master, in.World.Job = netip.MustParseAddrPort("10.0.0.6:29500"), "j1"
	in.World.Store = []string{"http://10.0.0.6:29377"}
	return in
}

func efa(in Input) Input {
	for i := range 4 {
		in = in.rdma(fmt.Sprintf("rdmap%ds27", 16+i), "efa", "Unspecified", 100, "")
	}
	for i := range in.Node.HCAs {
		in.Node.HCAs[i].NodeType = 7
	}
	return in.cloud("aws")
}

func bond(in Input) Input {
	in = in.roce("mlx5_bond_0", "bond0", "10.20.0.5/24")
	for i, f := range in.Node.Interfaces {
		if f.Name == "bond0" {
			in.Node.Interfaces[i].Kind = "bond"
		}
	}
	for i, name := range []string{"p0", "p1"} {
		f := iface(30+i, name, "physical")
		f.Master = "bond0"
		in.Node.Interfaces = append(in.Node.Interfaces, f)
	}
	return in
}

const (
	noNUMA = "Name:\tlaunch\nSeccomp:\t2\nCapEff:\t00000000a80425fb\nCpus_allowed_list:\t0-31\n"
	mayAll = "Seccomp:\t0\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-7\n"
	topo   = `<system version="1"><cpu numaid="0"><pci busid="ffff:ff:01.0" class="0x060400">` +
		`<pci busid="0001:00:00.0" class="0x030200"/><pci busid="0101:00:00.0" class="0x020700"/></pci></cpu></system>`
)

// planCase is a machine and its plan.
type planCase struct {
	name string
	in   Input
	want []string
}

// ipv6Rails are RoCE rails with IPv6 addresses alone.
func ipv6Rails() Input {
	in := machine(lo, eth0).rdma("mlx5_0", "mlx5_core", "Ethernet", 400, "r0", "fe80::1 v1 r0", "fe80::1 v2 r0",
		"fd01::5 v1 r0", "fd01::5 v2 r0")
	in.Node.Interfaces = append(in.Node.Interfaces, iface(9, "r0", "physical", "fd01::5/64"))
	return in
}

// v1Rails are those of a ConnectX-3: RoCE v1 alone.
func v1Rails(addr string) Input {
	p := netip.MustParsePrefix(addr)
	in := machine(lo, eth0).rdma("mlx4_0", "mlx4_core", "Ethernet", 40, "r0", "fe80::1 v1 r0", p.Addr().
		String()+" v1 r0")
	in.Node.Interfaces = append(in.Node.Interfaces, iface(9, "r0", "physical", addr))
	return in
}

// podRail is a pod's: the first addresses of its port are the host's.
func podRail() Input {
	in := machine(lo, eth0).rdma("mlx5_0", "mlx5_core", "Ethernet", 400, "net1",
		"fe80::1 v1 host0", "fe80::1 v2 host0", "10.64.0.2 v1 host0", "10.64.0.2 v2 host0", "10.65.0.2 v1 net1",
		"10.65.0.2 v2 net1")
	in.Node.Interfaces = append(in.Node.Interfaces, iface(9, "net1", "ipvlan", "10.65.0.2/24"))
	return in
}

// linkLocalRail has no address but its link's own.
func linkLocalRail() Input {
	in := machine(lo, eth0).rdma("mlx5_0", "mlx5_core", "Ethernet", 400, "r0", "fe80::1 v1 r0", "fe80::1 v2 r0")
	in.Node.Interfaces = append(in.Node.Interfaces, iface(9, "r0", "physical", "fe80::1/64"))
	return in
}

// fabricCases are about the fabric and what is around it. The interfaces are
// all right on these.
func fabricCases() []planCase {
	base := machine(lo, eth0)
	fast := eth0
	fast.Speed = 100_000
	v6 := machine(lo, iface(3, "eth0", "physical", "10.0.0.5/24", "fd00::5/64")).reachedAt("fd00::5").named("fd00::5")
	rails := base.roce("mlx5_0", "r0", "10.1.0.5/24").roce("mlx5_1", "r1", "10.2.0.5/24")
	limited := base.ib("mlx5_0", "mlx5_1")
	for i := range limited.Node.HCAs {
		limited.Node.HCAs[i].Ports[0].PKeys = []fabric.PKey{{Index: 0, Key: "0x7fff"}, {Index: 1, Key: "0x8001"}}
	}
	gap := base.ib("mlx5_0", "mlx5_1")
	for i := range gap.Node.HCAs {
		gap.Node.HCAs[i].Ports[0].PKeys = []fabric.PKey{{Index: 2, Key: "0x8001"}, {Index: 3, Key: "0x8002"}}
	}
	full := base.ib("mlx5_0")
	full.Node.HCAs[0].Ports[0].PKeys = []fabric.PKey{{Index: 0, Key: "0xffff"}, {Index: 1, Key: "0x8001"}}
	return []planCase{
		{"healthy InfiniBand", base.ib("mlx5_0", "mlx5_1"), nil},
		{"healthy RoCE", rails, nil},
		{"healthy RoCE, current NCCL", rails.nccl("2.27.5"), nil},
		{"healthy EFA", efa(base).plugin("aws-ofi-nccl 1.16.0"), nil},
		{"EFA, plugin not known", efa(base), nil},
		{"EFA, old plugin", efa(base).plugin("aws-ofi-nccl 1.5.0"), []string{"FI_PROVIDER=efa"}},
		{"EFA next to HCAs that only manage NVLink",
			efa(base).rdma("ibp1", "mlx5_core", "InfiniBand", 4, "").plugin("aws-ofi-nccl 1.16.0"), nil},
		{"InfiniBand next to an Ethernet bond",
			base.ib("mlx5_0", "mlx5_1").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0"),
			[]string{"NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"}},
		{"the same under a plugin of its own choice",
			base.ib("mlx5_0", "mlx5_1").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0").with("NCCL_NET",
				"gIB"), nil},
		{"the same, and the user's list says so",
			base.ib("mlx5_0", "mlx5_1").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0").with("NCCL_IB_HCA",
				"^mlx5_bond"), nil},
		{"the same, and the user's list is another",
			base.ib("mlx5_0", "mlx5_1").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0").with("NCCL_IB_HCA",
				"mlx5"),
			[]string{"NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 kept mlx5"}},
		{"one node", base.ib("mlx5_0", "mlx5_1").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0").nodes(1),
			nil},
		{"no GPUs", base.ib("mlx5_0", "mlx5_1").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0").noGPUs(), nil},
		{"Soft-RoCE alone", base.rdma("rxe0", "rdma_rxe", "Ethernet", 2.5, "eth0"), []string{"NCCL_NET=Socket"}},
		{"Soft-RoCE, and the user says so",
			base.rdma("rxe0", "rdma_rxe", "Ethernet", 2.5, "eth0").with("NCCL_NET", "socket"), nil},
		{"Soft-RoCE, and the user wants it",
			base.rdma("rxe0", "rdma_rxe", "Ethernet", 2.5, "eth0").with("NCCL_NET", "IB"),
			[]string{"NCCL_NET=Socket kept IB"}},
		{"Soft-RoCE next to InfiniBand", base.ib("mlx5_0").rdma("rxe0", "rdma_rxe", "Ethernet", 2.5, "eth0"),
			[]string{"NCCL_IB_HCA==mlx5_0:1"}},
		{"IPv6 between nodes, IPv4 on the interface", v6, []string{"NCCL_SOCKET_FAMILY=AF_INET6"}},
		{"InfiniBand rails that reach their like alone", base.ib("mlx5_0", "mlx5_1").apart(),
			[]string{"NCCL_CROSS_NIC=0"}},
		{"the same, said", base.ib("mlx5_0", "mlx5_1").apart().with("NCCL_CROSS_NIC", "0"), nil},
		{"one rail has no other", base.ib("mlx5_0").apart(), nil},
		{"RoCE before NCCL 2.21", rails.nccl("2.20.5"), []string{"NCCL_IB_GID_INDEX=3"}},
		{"RoCE before NCCL 2.21, set", rails.nccl("2.20.5").with("NCCL_IB_GID_INDEX", "3"), nil},
		{"RoCE before NCCL 2.21 on many nodes",
			rails.nccl("2.20.5").nodes(128), []string{"NCCL_IB_TIMEOUT=22", "NCCL_IB_GID_INDEX=3"}},
		{"many nodes, current NCCL", rails.nccl("2.23.4").nodes(128), nil},
		{"many nodes, NCCL not known", rails.nodes(128), nil},
		{"RoCE with IPv6 alone", ipv6Rails(), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}},
		{"RoCE with IPv6 alone, said", ipv6Rails().with("NCCL_IB_ADDR_FAMILY", "AF_INET6"), nil},
		{"RoCE v1 with IPv4", v1Rails("10.1.0.5/24"), nil},
		{"RoCE v1 with IPv4 before 2.21", v1Rails("10.1.0.5/24").nccl("2.18.3"), []string{"NCCL_IB_GID_INDEX=1"}},
		{"RoCE v1 with IPv6 alone", v1Rails("fd01::5/64"), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6",
			"NCCL_IB_ROCE_VERSION_NUM=1"}},
		{"the host's address before the pod's", podRail(), []string{"NCCL_IB_ADDR_RANGE=10.65.0.0/24"}},
		{"limited partition first", limited, []string{"NCCL_IB_PKEY=1"}},
		{"no partition in the first entries", gap, []string{"NCCL_IB_PKEY=2"}},
		{"full partition first", full, nil},
		{"bond of two cables", bond(base), []string{"NCCL_IB_QPS_PER_CONNECTION=2"}},
		{"bond of two cables in 2.19", bond(base).nccl("2.19.3").with("NCCL_IB_GID_INDEX", "3"),
			[]string{"NCCL_IB_QPS_PER_CONNECTION=2", "NCCL_IB_SPLIT_DATA_ON_QPS=0"}},
		{"bond, more queue pairs already", bond(base).with("NCCL_IB_QPS_PER_CONNECTION", "4"), nil},
		{"GB200 with 2.26", base.ib("mlx5_0").gpu("NVIDIA GB200").nccl("2.26.5"), []string{"NCCL_NET_GDR_C2C=1"}},
		{"GB200 with 2.27", base.ib("mlx5_0").gpu("NVIDIA GB200").nccl("2.27.3"), nil},
		{"H100 with 2.26.5", base.ib("mlx5_0").gpu("NVIDIA H100").nccl("2.26.5"), nil},
		{"Azure's file next to the container's NCCL",
			base.ib("mlx5_0").cloud("azure").pci("0001:00:00.0", "0101:00:00.0").file("/opt/microsoft/ndv5/topo.xml",
				topo),
			[]string{"NCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml"}},
		{"Azure's file of another size",
			base.ib("mlx5_0").cloud("azure").pci("0001:00:00.0").file("/opt/microsoft/ndv5/topo.xml", topo), nil},
		{"Azure's file, and NVIDIA's",
			base.ib("mlx5_0").cloud("azure").pci("0001:00:00.0", "0101:00:00.0").file("/opt/microsoft/ndv5/topo.xml",
				topo).file(virtualTopology, topo), nil},
		{"Azure's file is damaged", base.ib("mlx5_0").cloud("azure").file("/opt/microsoft/ndv5/topo.xml",
			"<system><pci"), nil},
		{"container without the right to NUMA, 2.26.2", base.nccl("2.26.2").file(selfStatus, noNUMA),
			[]string{"NCCL_CUMEM_HOST_ENABLE=0"}},
		{"the same on one node", base.nccl("2.26.2").file(selfStatus, noNUMA).nodes(1),
			[]string{"NCCL_CUMEM_HOST_ENABLE=0"}},
		{"the same with a current NCCL", base.nccl("2.26.5").file(selfStatus, noNUMA), nil},
		{"no container, 2.26.2", base.nccl("2.26.2").file(selfStatus, mayAll), nil},
		{"TCP at 100G with cores", machine(lo, fast).file(selfStatus, noNUMA),
			[]string{"NCCL_SOCKET_NTHREADS=4", "NCCL_NSOCKS_PERTHREAD=4"}},
		{"TCP at 100G with few cores", machine(lo, fast).file(selfStatus, mayAll), nil},
		{"TCP at 25G", machine(lo, func() fabric.Interface { f := eth0; f.Speed = 25_000; return f }()).file(
			selfStatus, noNUMA), nil},
		{"TCP at 100G on AWS", machine(lo, func() fabric.Interface { f := fast; f.Driver = "ena"; return f }()).file(
			selfStatus, noNUMA), nil},
		{"TCP at 100G next to InfiniBand", machine(lo, fast).ib("mlx5_0").file(selfStatus, noNUMA), nil},
		{"only link-local RoCE addresses", linkLocalRail(), []string{"NCCL_IB_GID_INDEX=1"}},
	}
}

// libraryCases are about what is not NCCL.
func libraryCases() []planCase {
	base := machine(lo, eth0)
	mixed := base.ib("mlx5_0").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0").with("NCCL_IB_HCA", "=mlx5_0")
	ucx := func(in Input) Input { in.Node.Software.UCX = software.Item{Version: "libucp.so.0"}; return in }
	libfabric := func(in Input) Input {
		in.Node.Software.Libfabric = software.Item{Version: "libfabric.so.1"}
		return in
	}
	vpn := machine(lo, eth0, tailscale0).ib("mlx5_0").with("NCCL_SOCKET_IFNAME", "=eth0")
	bnxt := base.rdma("bnxt_re0", "bnxt_en", "Ethernet", 400, "eth0", "fe80::1 v2 eth0", "10.0.0.5 v2 eth0")
	ibgda := base.rdma("ibp1s0", "mlx5_core", "InfiniBand", 400, "").rdma("ibp2s0", "mlx5_core", "InfiniBand", 400, "")
	return []planCase{
		{"UCX not in use", mixed, nil},
		{"UCX in the program", ucx(mixed), []string{"UCX_NET_DEVICES=mlx5_0:1,eth0"}},
		{"UCX by a variable of its own", mixed.with("UCX_LOG_LEVEL", "info"),
			[]string{"UCX_NET_DEVICES=mlx5_0:1,eth0"}},
		{"UCX, the same in another order", mixed.with("UCX_NET_DEVICES", "eth0,mlx5_0:1"), nil},
		{"UCX, healthy", ucx(base.ib("mlx5_0")), nil},
		{"UCX over TCP with a VPN", ucx(machine(lo, eth0, tailscale0).noGPUs()), []string{"UCX_NET_DEVICES=eth0"}},
		{"libfabric over TCP with a VPN", libfabric(machine(lo, eth0, tailscale0).noGPUs()),
			[]string{"FI_TCP_IFACE=eth0"}},
		{"libfabric on InfiniBand", libfabric(vpn), nil},
		{"nixlbench", base.using("nixl").started(), []string{"NIXL_ETCD_ENDPOINTS=http://10.0.0.6:29377",
			"NIXL_ETCD_NAMESPACE=/nixl/agents/j1"}},
		{"nixlbench with an etcd of its own", base.using("nixl").started().with("NIXL_ETCD_ENDPOINTS", "http://e:2379"),
			[]string{"NIXL_ETCD_ENDPOINTS=http://10.0.0.6:29377 kept http://e:2379"}},
		{"nixlbench before the start", base.using("nixl"), nil},
		{"NVSHMEM not in use", machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", "=eth0"), nil},
		{"NVSHMEM on another interface",
			machine(lo, bridge, eth0).with("NCCL_SOCKET_IFNAME", "=eth0").using("nvshmem"),
			[]string{"NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME==eth0"}},
		{"NVSHMEM next to an Ethernet bond", mixed.using("nvshmem"), []string{"NVSHMEM_HCA_LIST=mlx5_0:1",
			"NVSHMEM_ENABLE_NIC_PE_MAPPING=1"}},
		{"NVSHMEM on EFA", efa(base).plugin("aws-ofi-nccl 1.16.0").using("nvshmem"),
			[]string{"NVSHMEM_REMOTE_TRANSPORT=libfabric", "NVSHMEM_LIBFABRIC_PROVIDER=efa"}},
		{"NVSHMEM by IPv6", machine(lo,
			iface(3, "eth0", "physical", "fd00::5/64")).reachedAt("fd00::5").named("fd00::5").using("nvshmem"),
			[]string{"NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY=AF_INET6"}},
		{"NVSHMEM's IBGDA on renamed HCAs", ibgda.using("nvshmem").with("NVSHMEM_IB_ENABLE_IBGDA", "1"),
			[]string{"NVSHMEM_HCA_PREFIX=ibp"}},
		{"NVSHMEM's IBGDA on HCAs with their names",
			base.ib("mlx5_0").using("nvshmem").with("NVSHMEM_IB_ENABLE_IBGDA", "1"), nil},
		{"NVSHMEM with IPv6 alone", ipv6Rails().with("NCCL_IB_ADDR_FAMILY", "AF_INET6").using("nvshmem"),
			[]string{"NVSHMEM_IB_ADDR_FAMILY=AF_INET6"}},
		{"NVSHMEM with RoCE v1 and IPv6", v1Rails("fd01::5/64").with("NCCL_IB_GID_INDEX", "1").using("nvshmem"),
			[]string{"NVSHMEM_IB_ADDR_FAMILY=AF_INET6", "NVSHMEM_IB_ROCE_VERSION_NUM=1"}},
		{"NVSHMEM in a pod", podRail().with("NCCL_IB_ADDR_RANGE", "10.65.0.0/16").using("nvshmem"),
			[]string{"NVSHMEM_IB_ADDR_RANGE=10.65.0.0/24"}},
		{"NVSHMEM with link-local addresses", linkLocalRail().with("NCCL_IB_GID_INDEX", "1").using("nvshmem"),
			[]string{"NVSHMEM_IB_GID_INDEX=1"}},
		{"Open MPI 5", machine(lo, docker0, eth0).head("openmpi5"),
			[]string{"OMPI_MCA_btl_tcp_if_include=10.0.0.0/24", "PRTE_MCA_prte_if_include=10.0.0.0/24"}},
		{"Open MPI on another vendor's RoCE", bnxt.head("openmpi4"), []string{"OMPI_MCA_opal_common_ucx_devices=any"}},
		{"Open MPI on NVIDIA's InfiniBand", base.ib("mlx5_0").head("openmpi4"), nil},
		{"Open MPI from a head that is no host", bnxt.mpirun(), nil},
		{"MPICH whose host name is loopback", base.named("127.0.1.1").head("mpich"), []string{"HYDRA_IFACE=eth0"}},
		{"MPICH", base.head("mpich"), nil},
		{"Intel MPI whose host name is loopback", base.named("127.0.1.1").head("intel"),
			[]string{"I_MPI_HYDRA_IFACE=eth0"}},
	}
}

func TestRules(t *testing.T) {
	for _, tt := range slices.Concat(fabricCases(), libraryCases(), frameworkCases()) {
		t.Run(tt.name, func(t *testing.T) {
			plan := slices.DeleteFunc(Make(tt.in),
				func(v setting.Var) bool { return v.Kept && v.Name == "NCCL_SOCKET_IFNAME" })
			if diff := cmp.Diff(tt.want, brief(plan)); diff != "" {
				t.Errorf("Make (-want +got):\n%s", diff)
			}
		})
	}
}

// Every rule is right somewhere, and says why, from what and by whose word.
func TestEveryRuleHasAReasonAndEvidence(t *testing.T) {
	ins := []Input{machine(lo, bridge, eth0).named("127.0.1.1"), machine(lo, docker0, eth0).mpirun()}
	for _, c := range slices.Concat(fabricCases(), libraryCases(), frameworkCases()) {
		ins = append(ins, c.in)
	}
	set := map[string]bool{}
	for _, in := range ins {
		for _, v := range Make(in) {
			set[v.Name] = set[v.Name] || !v.Kept
			if v.Reason == "" || v.Source == "" || len(v.Seen) == 0 || strings.ContainsAny(v.Reason, "\n") ||
				v.Value == "" {
				t.Errorf("%s: reason %q, source %q, evidence %v", v.Name, v.Reason, v.Source, v.Seen)
			}
			for _, s := range v.Seen {
				if s.Where == "" || s.What == "" {
					t.Errorf("%s: evidence %+v", v.Name, s)
				}
			}
		}
	}
	names := map[string]bool{}
	for _, r := range rules() {
		if !set[r.name] {
			t.Errorf("no machine of the tests needs %s", r.name)
		}
		if names[r.name] || r.alone == "" || r.when == "" || r.value == "" || r.source == "" ||
			setting.Library(r.name) == "" {
			t.Errorf("rule %s: names are unique, and it says what the library does alone, when that is wrong and "+
				"what is set then", r.name)
		}
		names[r.name] = true
	}
	for _, u := range unsets() {
		if names[u.name] || u.alone == "" || u.why == "" || u.source == "" || setting.Library(u.name) == "" {
			t.Errorf("%s is in both tables, or lacks its reasons", u.name)
		}
		names[u.name] = true
	}
}
