package envgen

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/internal/setting"
)

// verdicts are the findings as "status id".
func verdicts(in Input) []string {
	var out []string
	for _, f := range Lint(in) {
		out = append(out, string(f.Status)+" "+f.ID)
	}
	return out
}

func TestLint(t *testing.T) {
	gpu := machine(lo, docker0, eth0) // two nodes, two GPUs, reached at 10.0.0.5 on eth0
	cpu := gpu.noGPUs()
	rdma := gpu.hca("mlx5_0", 4)
	keyed := gpu.ib("mlx5_0")
	keyed.Node.HCAs[0].Ports[0].PKeys = []fabric.PKey{{Index: 0, Key: "0xffff"}, {Index: 2, Key: "0x0002"}}
	ens := iface(3, "ens5", "physical", "10.0.0.5/24")
	aws := machine(lo, ens)
	aws.Node.Interfaces[1].Driver = "ena"
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"nothing set", gpu, nil},
		{"pasted eth0 where it is right", gpu.with("NCCL_SOCKET_IFNAME", "eth0"), nil},
		{"pasted eth0 on another machine", machine(lo, ens).with("NCCL_SOCKET_IFNAME", "eth0"),
			[]string{"fail env.ifname.nccl"}},
		{"the same for one node", machine(lo, ens).nodes(1).with("NCCL_SOCKET_IFNAME", "eth0"),
			[]string{"warn env.ifname.nccl"}},
		{"the same without GPUs", machine(lo, ens).noGPUs().with("NCCL_SOCKET_IFNAME", "eth0"),
			nil},
		{"the same on an interface without carrier", machine(lo, ens, down(eth0)).with("NCCL_SOCKET_IFNAME", "eth0"),
			[]string{"fail env.ifname.nccl"}},
		{"pasted exclusion that leaves nothing", gpu.with("NCCL_SOCKET_IFNAME", "^docker,lo,veth,eth"),
			[]string{"fail env.ifname.nccl"}},
		{"the same where it leaves something", machine(lo, ens).with("NCCL_SOCKET_IFNAME", "^docker,lo,veth,eth"), nil},
		{"empty counts as unset", gpu.with("NCCL_SOCKET_IFNAME", ""), nil},
		{"no facts about interfaces",
			machine().with("NCCL_SOCKET_IFNAME", "eth0", "GLOO_SOCKET_IFNAME", "eth0", "TP_SOCKET_IFNAME",
				"eth0"), nil},
		{"interfaces without their addresses",
			machine(iface(3, "eth0", "physical")).with("NCCL_SOCKET_IFNAME", "eth0", "GLOO_SOCKET_IFNAME",
				"eth0"), nil},
		{"Gloo with NCCL's mark", cpu.with("GLOO_SOCKET_IFNAME", "=eth0"), []string{"fail env.ifname.gloo"}},
		{"the same with GPUs, where Gloo may not be used", gpu.with("GLOO_SOCKET_IFNAME", "=eth0"),
			[]string{"warn env.ifname.gloo"}},
		{"Gloo with a prefix", cpu.with("GLOO_SOCKET_IFNAME", "eth"), []string{"fail env.ifname.gloo"}},
		{"Gloo with one of two missing", cpu.with("GLOO_SOCKET_IFNAME", "eth0,eth7"), []string{"fail env.ifname.gloo"}},
		{"Gloo without a lease", machine(lo, eth0, iface(4, "eth1", "physical", "169.254.7.9/16")).noGPUs().
			with("GLOO_SOCKET_IFNAME", "eth1"), []string{"warn env.ifname.gloo"}},
		{"Gloo with a lease", machine(lo, eth0, iface(4, "eth1", "physical", "169.254.7.9/16", "10.9.0.5/24")).noGPUs().
			with("GLOO_SOCKET_IFNAME", "eth1"), nil},
		{"Gloo exact", cpu.with("GLOO_SOCKET_IFNAME", "eth0"), nil},
		{"TensorPipe takes one name", gpu.with("TP_SOCKET_IFNAME", "eth0,docker0"),
			[]string{"warn env.ifname.tensorpipe"}},
		{"NCCL on loopback", gpu.with("NCCL_SOCKET_IFNAME", "lo"), []string{"fail env.ifname.loopback"}},
		{"Gloo on loopback", cpu.with("GLOO_SOCKET_IFNAME", "lo"), []string{"fail env.ifname.loopback"}},
		{"loopback for one node", gpu.nodes(1).with("NCCL_SOCKET_IFNAME", "lo"), nil},
		{"loopback where all nodes are here", gpu.reachedAt("127.0.0.1").with("NCCL_SOCKET_IFNAME", "lo"), nil},
		{"loopback among others", gpu.with("NCCL_SOCKET_IFNAME", "lo,eth0"), []string{"fail env.ifname.loopback"}},
		{"an exclusion that leaves loopback", gpu.with("NCCL_SOCKET_IFNAME", "^docker0"),
			[]string{"fail env.ifname.loopback"}},
		{"an exclusion with loopback", gpu.with("NCCL_SOCKET_IFNAME", "^docker0,lo"), nil},
		{"an exclusion on one node", gpu.with("NCCL_SOCKET_IFNAME", "^docker0").nodes(1), nil},
		{"NCCL on a bridge of containers", gpu.with("NCCL_SOCKET_IFNAME", "=docker0"),
			[]string{"warn env.ifname.virtual"}},
		{"Gloo on a bridge of containers", cpu.with("GLOO_SOCKET_IFNAME", "docker0"),
			[]string{"warn env.ifname.virtual"}},
		{"a bridge of containers among others", gpu.with("NCCL_SOCKET_IFNAME", "docker0,eth0"), nil},
		{"a bridge of containers that the peers use",
			gpu.reachedAt("172.17.0.1").with("NCCL_SOCKET_IFNAME", "docker0"), nil},
		{"a bridge of containers for one node", gpu.nodes(1).with("GLOO_SOCKET_IFNAME", "docker0"), nil},
		{"RDMA off on an RDMA node", rdma.with("NCCL_IB_DISABLE", "1"), []string{"warn env.ib-disable"}},
		{"RDMA off where there is none", gpu.with("NCCL_IB_DISABLE", "1"), nil},
		{"RDMA off where it is down", gpu.hca("mlx5_0", 1).with("NCCL_IB_DISABLE", "1"), nil},
		{"RDMA on", rdma.with("NCCL_IB_DISABLE", "0"), nil},
		{"a word for a number", rdma.with("NCCL_IB_DISABLE", "true"), []string{"warn env.number"}},
		{"P2P off", gpu.with("NCCL_P2P_DISABLE", "1", "NCCL_SHM_DISABLE", "1"),
			[]string{"warn env.p2p-disable", "warn env.p2p-disable"}},
		{"P2P off without GPUs", cpu.with("NCCL_P2P_DISABLE", "1"), nil},
		{"P2P 2 does nothing", gpu.with("NCCL_P2P_DISABLE", "2"), nil},
		{"algorithm", gpu.with("NCCL_ALGO", "Ring"), []string{"warn env.algo"}},
		{"algorithm of a vendor's module",
			gpu.with("NCCL_NET", "GPUDirectTCPX_v7", "NCCL_ALGO", "Ring", "NCCL_PROTO", "Simple"), nil},
		{"sockets without threads", gpu.with("NCCL_NSOCKS_PERTHREAD", "4"), []string{"warn env.nsocks"}},
		{"sockets with threads", gpu.with("NCCL_NSOCKS_PERTHREAD", "4", "NCCL_SOCKET_NTHREADS", "4"), nil},
		{"sockets on AWS", aws.with("NCCL_NSOCKS_PERTHREAD", "4"), nil},
		{"timeout out of range", rdma.with("NCCL_IB_TIMEOUT", "300", "NCCL_IB_RETRY_CNT", "20"),
			[]string{"warn env.ib-retry", "warn env.ib-retry"}},
		{"timeout lowered", rdma.with("NCCL_IB_TIMEOUT", "18"), []string{"warn env.ib-retry"}},
		{"timeout raised", rdma.with("NCCL_IB_TIMEOUT", "22", "NCCL_IB_RETRY_CNT", "7"), nil},
		{"timeout without RDMA", gpu.with("NCCL_IB_TIMEOUT", "300"), nil},
		{"no library reads it", gpu.with("NCCL_CHECKS_DISABLE", "1", "NCCL_RINGS", "0 1"),
			[]string{"warn env.obsolete", "warn env.obsolete"}},
		{"level as a number", gpu.with("NCCL_NET_GDR_LEVEL", "5"), []string{"warn env.level"}},
		{"level unknown", gpu.with("NCCL_P2P_LEVEL", "nvl"), []string{"warn env.level"}},
		{"level known", gpu.with("NCCL_P2P_LEVEL", "NVL", "NCCL_NET_GDR_LEVEL", "PHB"), nil},
		{"HCA that is a prefix", rdma.hca("mlx5_1", 4).hca("mlx5_10", 4).with("NCCL_IB_HCA", "mlx5_1"),
			[]string{"warn env.ib-hca-prefix"}},
		{"HCA prefix on purpose", rdma.hca("mlx5_1", 4).with("NCCL_IB_HCA", "mlx5"), nil},
		{"HCA exact", rdma.hca("mlx5_1", 4).hca("mlx5_10", 4).with("NCCL_IB_HCA", "=mlx5_1"), nil},
		{"HCA renamed", gpu.hca("ibp65s0", 4).with("NCCL_IB_HCA", "mlx5_0"), []string{"warn env.ib-hca"}},
		{"HCA renamed and the module pinned", gpu.hca("ibp65s0", 4).with("NCCL_IB_HCA", "mlx5_0", "NCCL_NET", "IB"),
			[]string{"fail env.ib-hca"}},
		{"HCA down", gpu.hca("mlx5_0", 1).with("NCCL_IB_HCA", "mlx5_0"), []string{"warn env.ib-hca"}},
		{"partition by index", keyed.with("NCCL_IB_PKEY", "0"), nil},
		{"partition by its key", keyed.with("NCCL_IB_PKEY", "0x8001"), []string{"warn env.pkey"}},
		{"partition that is not set", keyed.with("NCCL_IB_PKEY", "1"), []string{"warn env.pkey"}},
		{"partition with limited membership", keyed.with("NCCL_IB_PKEY", "2"), []string{"warn env.pkey"}},
		{"partition where the table is not known", gpu.ib("mlx5_0").with("NCCL_IB_PKEY", "3"), nil},
		{"HCA port", rdma.with("NCCL_IB_HCA", "mlx5_0:2"), []string{"warn env.ib-hca"}},
		{"HCA without GPUs", cpu.with("NCCL_IB_HCA", "mlx5_0"), nil},
		{"communicator id under torch", gpu.with("NCCL_COMM_ID", "10.0.0.5:1234"), []string{"warn env.comm-id"}},
		{"communicator id under mpirun", gpu.mpirun().with("NCCL_COMM_ID", "10.0.0.5:1234"), nil},
		{"one log for all", gpu.with("NCCL_DEBUG", "info", "NCCL_DEBUG_FILE", "/tmp/nccl.log"),
			[]string{"warn env.debug-file"}},
		{"a log each", gpu.with("NCCL_DEBUG", "INFO", "NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p"), nil},
		{"a log that is never opened", gpu.with("NCCL_DEBUG_FILE", "/tmp/nccl.log"), nil},
		{"only the value in force", gpu.with("NCCL_SOCKET_IFNAME", "eth0", "NCCL_SOCKET_IFNAME", "nope"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, verdicts(tt.in)); diff != "" {
				t.Errorf("Lint (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLintHasThePlaceAndTheFix(t *testing.T) {
	in := machine(lo, iface(3, "ens5", "physical", "10.0.0.5/24"))
	in.Decided = []setting.Decided{{Name: "NCCL_SOCKET_IFNAME", Value: "eth0", From: "environment"},
		{Name: "NCCL_ALGO", Value: "Ring", From: "/etc/nccl.conf"}}
	got := Lint(in)
	if len(got) != 2 {
		t.Fatalf("Lint = %v, want two findings", got)
	}
	if want := "export NCCL_SOCKET_IFNAME='=ens5'"; got[0].Fix != want {
		t.Errorf("fix %q, want %q", got[0].Fix, want)
	}
	if want := "remove NCCL_ALGO from /etc/nccl.conf"; got[1].Fix != want {
		t.Errorf("fix %q, want %q", got[1].Fix, want)
	}
	for _, f := range got {
		last := f.Seen[len(f.Seen)-1]
		if f.What == "" || f.Breaks == "" || (last.Where != "environment" && last.Where != "/etc/nccl.conf") {
			t.Errorf("%s does not say what, so what and where: %+v", f.ID, f)
		}
	}
}

func TestEveryLintRuleIsDistinct(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range lintRules() {
		if ids[r.id] || !strings.HasPrefix(r.id, "env.") || len(r.names) == 0 {
			t.Errorf("rule %q: ids are unique, begin with env. and look at a variable", r.id)
		}
		ids[r.id] = true
	}
}
