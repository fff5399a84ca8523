package envgen

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	gpulib "launch/fabric/gpu"
	"launch/internal/setting"
)

// paste adds a block as it is pasted into scripts: export NAME=VALUE words.
func (in Input) paste(block, from string) Input {
	for line := range strings.Lines(block) {
		for word := range strings.FieldsSeq(strings.TrimPrefix(strings.TrimSpace(line), "export ")) {
			name, value, ok := strings.Cut(word, "=")
			if ok {
				in.Decided = append(in.Decided,
					setting.Decided{Name: name, Value: strings.ReplaceAll(strings.Trim(value, `"`), "~", " "),
						From: from})
			}
		}
	}
	return in
}

// The blocks that clouds and guides publish (~ is a blank), each on
// the machine that it is for and on one that it is copied to.
func TestPastedBlocksAreLinted(t *testing.T) {
	ena := eth0
	ena.Driver = "ena"
	dgx := machine(lo, eth0).ib("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5").gpu("NVIDIA H100 80GB HBM3")
	oci := machine(lo, eth0).roce("mlx5_0", "rdma0", "10.224.0.5/20").roce("mlx5_1", "rdma1", "10.224.16.5/20")
	aws := efa(machine(lo, ena)).plugin("aws-ofi-nccl 1.16.0")
	azure := machine(lo, eth0).ib("mlx5_ib0", "mlx5_ib1").cloud("azure")
	gcp := machine(lo, iface(3, "enp0s12", "physical", "10.0.0.5/24"))
	gib := machine(lo, iface(3, "enp0s19", "physical", "10.0.0.5/24")).roce("mlx5_0", "gpu0rdma0",
		"10.64.0.5/24").plugin("libnccl-net.so 1f2e")
	slingshot := machine(lo, iface(3, "hsn0", "physical", "10.0.0.5/16")).plugin("aws-ofi-nccl 1.16.0")
	laptop := machine(lo, iface(3, "enp5s0", "physical", "10.0.0.5/24")).plugin("none")
	ionic := machine(lo, eth0)
	for _, n := range []string{"ionic_0", "ionic_1"} {
		ionic = ionic.rdma(n, "ionic", "Ethernet", 400, "eth0", "fe80::5 v2 eth0", "10.0.0.5 v2 eth0")
	}
	ionic.Node.Software.HIP = "6.4"
	cx3 := machine(lo, eth0).rdma("mlx4_0", "mlx4_core", "Ethernet", 40, "eth0", "fe80::5 v1 eth0", "10.0.0.5 v1 eth0")
	const (
		efaNow = "export FI_EFA_USE_HUGE_PAGE=0"
		efaOld = "export FI_PROVIDER=efa\nexport FI_EFA_USE_DEVICE_RDMA=1\nexport FI_EFA_FORK_SAFE=1\nexport " +
			"RDMAV_FORK_SAFE=1\nexport NCCL_PROTO=simple\nexport NCCL_SOCKET_IFNAME=^docker,lo,veth,eth\nexport " +
			"NCCL_ASYNC_ERROR_HANDLING=1"
		a3High = "NCCL_NET=GPUDirectTCPX_v7 NCCL_SOCKET_IFNAME=enp0s12 NCCL_CROSS_NIC=0 NCCL_ALGO=Ring " +
			"NCCL_PROTO=Simple NCCL_NET_GDR_LEVEL=PIX NCCL_P2P_PXN_LEVEL=0 NCCL_NSOCKS_PERTHREAD=4 " +
			"NCCL_SOCKET_NTHREADS=1 NCCL_BUFFSIZE=4194304 NCCL_GPUDIRECTTCPX_CTRL_DEV=enp0s12"
		a3Ultra = "NCCL_NET=gIB NCCL_CROSS_NIC=0 NCCL_NET_GDR_LEVEL=PIX NCCL_P2P_NET_CHUNKSIZE=131072 " +
			"NCCL_NVLS_CHUNKSIZE=524288 NCCL_IB_ADAPTIVE_ROUTING=1 NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_TC=52 " +
			"NCCL_IB_FIFO_TC=84"
		ndv5    = "NCCL_IB_PCI_RELAXED_ORDERING=1\nNCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml\nNCCL_IGNORE_CPU_AFFINITY=1"
		ndTest  = "UCX_TLS=tcp CUDA_DEVICE_ORDER=PCI_BUS_ID NCCL_SOCKET_IFNAME=eth0 NCCL_NET_GDR_LEVEL=5"
		ndLoop  = "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1"
		ociConf = "NCCL_CUMEM_ENABLE=0\nNCCL_IB_SPLIT_DATA_ON_QPS=0\nNCCL_IB_QPS_PER_CONNECTION=1\n" +
			"NCCL_IB_GID_INDEX=3\nNCCL_IB_TC=41\nNCCL_IB_SL=0\nNCCL_IB_TIMEOUT=22\nNCCL_NET_PLUGIN=none\n" +
			"NCCL_SOCKET_IFNAME=eth0\nNCCL_IGNORE_CPU_AFFINITY=1\nNCCL_IB_HCA==mlx5_0,mlx5_1"
		ociGB200 = "RX_QUEUE_LEN=8192 IB_RX_QUEUE_LEN=8192 coll_hcoll_enable=0 UCX_TLS=ud,self,sm " +
			"NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_NVLS_ENABLE=1 NCCL_NET_GDR_C2C=1"
		core     = "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp UCX_TLS=tcp UCX_NET_DEVICES=eth0"
		isambard = "NCCL_NET=\"AWS~Libfabric\" NCCL_SOCKET_IFNAME=hsn NCCL_NET_GDR_LEVEL=PHB NCCL_CROSS_NIC=1 " +
			"NCCL_MIN_NCHANNELS=4 NCCL_GDRCOPY_ENABLE=1 NCCL_NET_FORCE_FLUSH=0 FI_CXI_DEFAULT_CQ_SIZE=131072 " +
			"FI_MR_CACHE_MONITOR=userfaultfd"
		ainic = "NCCL_IB_HCA=ionic_0,ionic_1 NCCL_IB_GID_INDEX=1 NCCL_IB_TC=104 NCCL_IB_FIFO_TC=192 " +
			"NCCL_IB_QPS_PER_CONNECTION=1 NCCL_GDR_FLUSH_DISABLE=1 NCCL_DMABUF_ENABLE=0 NCCL_IGNORE_CPU_AFFINITY=1 " +
			"NCCL_IB_RETRY_CNT=20 NCCL_IB_TIMEOUT=300 NCCL_CHECKS_DISABLE=1"
		imbue = "NCCL_NET=IB NCCL_IB_HCA==mlx5_0,mlx5_3,mlx5_4,mlx5_5"
		guide = "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_IB_GID_INDEX=3 NCCL_DEBUG=INFO"
		debug = "TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_NCCL_ASYNC_ERROR_HANDLING=0 NCCL_BLOCKING_WAIT=1 " +
			"TORCH_NCCL_BLOCKING_WAIT=1"
		oldMPI = "OMPI_MCA_btl_openib_allow_ib=1 OMPI_MCA_orte_base_help_aggregate=0 " +
			"OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_btl_tcp_if_exclude=docker0"
		cluster = "NCCL_IB_GID_INDEX=3"
	)
	w := func(ids ...string) []string {
		var out []string
		for _, id := range ids {
			if !strings.Contains(id, " ") {
				id = "warn env." + id
			}
			out = append(out, id)
		}
		return out
	}
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"AWS today, on EFA", aws.paste(efaNow, "environment"), nil},
		{"AWS before, on EFA", aws.paste(efaOld, "environment"),
			w("fail env.ifname.nccl", "algo", "efa-rdma", "fork-safe", "fork-safe", "torch-old-name")},
		{"GCP A3 High", gcp.plugin("libnccl-net.so 1f2e").paste(a3High, "environment"), nil},
		{"GCP A3 High on a workstation", laptop.paste(a3High, "environment"),
			w("fail env.ifname.nccl", "fail env.net")},
		{"GCP A3 Ultra", gib.paste(a3Ultra, "environment"), nil},
		{"GCP's image on a machine without RDMA", gcp.plugin("libnccl-net.so 1f2e").paste(a3Ultra, "/etc/nccl.conf"),
			w("fail env.net")},
		{"Azure's file", azure.pci("0001:00:00.0", "0101:00:00.0").file("/opt/microsoft/ndv5/topo.xml",
			topo).paste(ndv5, "/etc/nccl.conf"), nil},
		{"Azure's file in a container without the topology",
			azure.file(selfStatus, mayAll).paste(ndv5, "/etc/nccl.conf"), w("topo-file")},
		{"Azure's test", azure.paste(ndTest, "environment"), w("level")},
		{"Azure's loopback test", azure.paste(ndLoop, "environment"), w("ib-disable", "p2p-disable", "p2p-disable")},
		{"OCI's file", oci.paste(ociConf, "/etc/nccl.conf"), w("cumem", "gid-index")},
		{"OCI's file on InfiniBand with other names", dgx.paste(ociConf, "/etc/nccl.conf"), w("cumem", "gid-index")},
		{"OCI's GB200 script", dgx.paste(ociGB200, "environment"),
			w("mnnvl", "ucx-tls", "no-prefix", "no-prefix", "no-prefix")},
		{"CoreWeave, on another machine", dgx.paste(core, "environment"), w("ib-hca")},
		{"Slingshot", slingshot.paste(isambard, "environment"), w("channels")},
		{"Slingshot's block on a machine without the plugin", laptop.paste(isambard, "environment"),
			w("fail env.ifname.nccl", "channels", "fail env.net")},
		{"AMD's network card", ionic.paste(ainic, "environment"), w("ib-retry", "ib-retry", "obsolete", "gid-index")},
		{"the same copied to NVIDIA's InfiniBand",
			dgx.paste(ainic, "environment"), w("ib-retry", "ib-retry", "obsolete", "ib-hca", "gid-index", "gdr-flush")},
		{"imbue's pin", dgx.paste(imbue, "environment"), nil},
		{"imbue's pin where no port is up", machine(lo, eth0).paste(imbue, "environment"),
			w("fail env.ib-hca", "fail env.net")},
		{"a guide's block on InfiniBand", dgx.paste(guide, "environment"), w("ib-disable", "p2p-disable", "gid-index")},
		{"a guide's block on a workstation", laptop.paste(guide, "environment"),
			w("fail env.ifname.nccl", "p2p-disable")},
		{"index 3 on ConnectX-3", cx3.paste(cluster, "environment"), w("fail env.gid-index")},
		{"index 3 in a pod", podRail().paste(cluster, "environment"), w("gid-index")},
		{"index 3 before 2.21", oci.nccl("2.20.5").paste(cluster, "/etc/nccl.conf"), nil},
		{"debugging left on", dgx.paste(debug, "environment"),
			w("torch-old-name", "torch-async", "torch-debug", "torch-wait", "torch-wait")},
		{"old MPI settings with Open MPI 5", machine(lo, docker0, eth0).head("openmpi5").paste(oldMPI, "environment"),
			w("ompi-exclude", "ompi-obsolete", "ompi-obsolete", "ompi-obsolete")},
		{"old MPI settings with Open MPI 4", machine(lo, docker0, eth0).head("openmpi4").paste(oldMPI, "environment"),
			w("ompi-exclude", "ompi-obsolete")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, verdicts(tt.in)); diff != "" {
				t.Errorf("Lint (-want +got):\n%s", diff)
			}
		})
	}
}

// Each finding has a fix for the place of the setting.
func TestLintOfOtherLibraries(t *testing.T) {
	gpu := machine(lo, docker0, eth0)
	verbs := gpu.ib("mlx5_0")
	wide := verbs.ib("mlx5_1", "mlx5_10")
	two := gpu.roce("mlx5_0", "r0", "10.1.0.5/24").roce("mlx5_1", "r1", "10.2.0.5/24")
	v6 := ipv6Rails()
	domain := gpu
	domain.Node.GPUs.Devices = []gpulib.GPU{{Fabric: &gpulib.Fabric{State: "completed",
		Cluster: "11111111-2222-4333-8444-555555555555"}}}
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"UCX without the GPUs' transport", gpu.with("UCX_TLS", "rc,sm,self"), []string{"warn env.ucx-tls"}},
		{"UCX with all it needs", gpu.with("UCX_TLS", "rc,sm,self,cuda_copy,cuda_ipc"), nil},
		{"UCX's denial", gpu.with("UCX_TLS", "^ud"), nil},
		{"UCX without GPUs", gpu.noGPUs().with("UCX_TLS", "rc,self"), nil},
		{"UCX on a device that is not here", verbs.with("UCX_NET_DEVICES", "mlx5_7:1"),
			[]string{"warn env.ucx-devices"}},
		{"UCX on a port that is not here", verbs.with("UCX_NET_DEVICES", "mlx5_0:2"), []string{"warn env.ucx-devices"}},
		{"UCX on a port that is down", gpu.hca("mlx5_0", 1).with("UCX_NET_DEVICES", "mlx5_0:1"),
			[]string{"warn env.ucx-devices"}},
		{"UCX on what is here", verbs.with("UCX_NET_DEVICES", "mlx5_0:1,eth0"), nil},
		{"Open MPI on a network that is not here", gpu.head("openmpi4").with("OMPI_MCA_btl_tcp_if_include",
			"192.168.7.0/24"), []string{"warn env.ompi-include"}},
		{"Open MPI with an inclusion and an exclusion", gpu.head("openmpi4").with("OMPI_MCA_btl_tcp_if_include",
			"eth0", "OMPI_MCA_btl_tcp_if_exclude", "lo"), []string{"fail env.ompi-include"}},
		{"Open MPI's exclusion with loopback", gpu.head("openmpi4").with("OMPI_MCA_btl_tcp_if_exclude",
			"127.0.0.1/8,docker0"), nil},
		{"Debian's file on InfiniBand",
			verbs.head("openmpi4").with("OMPI_MCA_pml", "^ucx", "OMPI_MCA_osc", "^ucx,pt2pt"),
			[]string{"warn env.ompi-ucx-off", "warn env.ompi-ucx-off"}},
		{"Debian's file on Ethernet", gpu.head("openmpi4").with("OMPI_MCA_pml", "^ucx"), nil},
		{"Intel MPI of old", gpu.with("I_MPI_FABRICS", "shm:dapl"), []string{"warn env.impi-fabrics"}},
		{"Intel MPI of today", gpu.with("I_MPI_FABRICS", "shm:ofi"), nil},
		{"NVSHMEM's list alone", verbs.with("NVSHMEM_HCA_LIST", "mlx5_0:1"), []string{"warn env.nvshmem-list"}},
		{"NVSHMEM's list with its switch", verbs.with("NVSHMEM_HCA_LIST", "mlx5_0:1", "NVSHMEM_ENABLE_NIC_PE_MAPPING",
			"1"), nil},
		{"TensorFlow with too few workers",
			gpu.with("TF_CONFIG", `{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}}`),
			[]string{"warn env.tf-config"}},
		{"TensorFlow with an index that is none",
			gpu.with("TF_CONFIG", `{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":"2"}}`),
			[]string{"warn env.tf-config"}},
		{"TensorFlow with a hand-made mistake", gpu.with("TF_CONFIG", `{'cluster'`), []string{"warn env.tf-config"}},
		{"TensorFlow right", gpu.with("TF_CONFIG",
			`{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}`), nil},
		{"prefix of an HCA that is listed too", wide.with("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_10"), nil},
		{"IPv6 for RoCE that has IPv4", two.with("NCCL_IB_ADDR_FAMILY", "AF_INET6"), []string{"warn env.addr-family"}},
		{"IPv6 for RoCE that has it", v6.with("NCCL_IB_ADDR_FAMILY", "AF_INET6"), nil},
		{"TCP pinned on InfiniBand", verbs.with("NCCL_NET", "Socket"), []string{"warn env.net"}},
		{"no plugin on EFA", efa(gpu).with("NCCL_NET_PLUGIN", "none"), []string{"warn env.net-plugin"}},
		{"a plugin that is not found", verbs.plugin("none").with("NCCL_NET_PLUGIN", "spcx"),
			[]string{"warn env.net-plugin"}},
		{"rails of two subnets crossed", two.with("NCCL_CROSS_NIC", "1"), []string{"warn env.cross-nic"}},
		{"rails of two subnets kept apart", two.with("NCCL_CROSS_NIC", "0"), nil},
		{"traffic class out of range", two.with("NCCL_IB_TC", "300", "NCCL_IB_SL", "16"),
			[]string{"warn env.range", "warn env.range"}},
		{"more sockets than NCCL opens", gpu.with("NCCL_SOCKET_NTHREADS", "16", "NCCL_NSOCKS_PERTHREAD", "8"),
			[]string{"warn env.range"}},
		{"log into no directory", gpu.file(selfStatus, mayAll).with("NCCL_DEBUG", "INFO", "NCCL_DEBUG_FILE",
			"/logs/nccl.%h.%p"), []string{"warn env.debug-file"}},
		{"log into a directory", gpu.file("/logs", "").with("NCCL_DEBUG", "INFO", "NCCL_DEBUG_FILE",
			"/logs/nccl.%h.%p"), nil},
		{"topology of another machine", gpu.pci("0000:17:00.0").file("/t.xml", topo).with("NCCL_TOPO_FILE", "/t.xml"),
			[]string{"warn env.topo-file"}},
		{"NVLink between nodes switched off", domain.with("NCCL_MNNVL_ENABLE", "0"), []string{"warn env.mnnvl"}},
		{"NVLink between nodes demanded where it is", domain.with("NCCL_MNNVL_ENABLE", "1"), nil},
		{"family that no interface has",
			machine(lo, iface(3, "eth0", "physical", "10.0.0.5/24"), docker0).with("NCCL_SOCKET_FAMILY", "AF_INET6"),
			[]string{"fail env.ifname.family"}},
		{"family that is none", gpu.with("NCCL_SOCKET_FAMILY", "6"), []string{"warn env.ifname.family"}},
		{"cuMem off before NCCL had it", gpu.nccl("2.18.5").with("NCCL_CUMEM_ENABLE", "0"), nil},
		{"timeout of an older NCCL", verbs.nccl("2.20.5").with("NCCL_IB_TIMEOUT", "18"), nil},
		{"a library answers for the environment", gpu.with("NCCL_ENV_PLUGIN", "x.so"), []string{"warn env.env-plugin"}},
		{"GPUDirect's check off", efa(gpu).with("OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK", "1"),
			[]string{"warn env.gdr-check"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, verdicts(tt.in)); diff != "" {
				t.Errorf("Lint (-want +got):\n%s", diff)
			}
			for _, f := range Lint(tt.in) {
				if f.What == "" || f.Fix == "" || len(f.Seen) == 0 || strings.ContainsAny(f.What+f.Fix+f.Breaks, "\n") {
					t.Errorf("%s does not say what and what to do: %+v", f.ID, f)
				}
			}
		})
	}
}

// Whatever is set, nothing panics, and what is right on every machine (nothing
// set) is silent.
func FuzzLint(f *testing.F) {
	f.Add("NCCL_SOCKET_IFNAME", "^=,:", "2.27.5")
	f.Add("NCCL_IB_GID_INDEX", "0x7fffffffffffffff", "2.20.5")
	f.Add("UCX_NET_DEVICES", "mlx5_0:,:1", "")
	f.Add("TF_CONFIG", `{"task":{"type":"worker","index":-5}}`, "0.0")
	f.Add("NCCL_IB_ADDR_RANGE", "::/0", "9")
	f.Fuzz(func(t *testing.T, name, value, version string) {
		for _, in := range []Input{podRail(), efa(machine(lo, eth0)),
			bond(machine(lo, docker0, eth0)).head("openmpi4"), machine(), {Node: fabric.Node{HCAs: []fabric.HCA{{}}}}} {
			in = in.nccl(version).with(name, value).using("nvshmem", "nixl",
				"ucx").file("/opt/microsoft/ndv5/topo.xml", value).cloud("azure")
			Lint(in)
			Make(in)
			Explain(in)
			Constants(Make(in), in.Decided)
		}
	})
}
