package envgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine/machinetest"
)

// Ports that the settings select and that are no rails.
func TestSelectedPortsThatAreNoRails(t *testing.T) {
	four := machine(lo, eth0).ib("mlx5_0", "mlx5_2", "mlx5_4", "mlx5_5")
	front := four.rdma("mlx5_1", "mlx5_core", ethernet, 100, "").rdma("mlx5_3", "mlx5_core", ethernet, 25, "")
	slow := four.rdma("mlx5_1", "mlx5_core", infiniBand, 100, "")
	roce := machine(lo, eth0).roce("bnxt_re0", "gpu0", "10.7.0.5/24").roce("bnxt_re1", "gpu1", "10.7.1.5/24")
	bare := roce.rdma("bnxt_re2", "bnxt_en", ethernet, 400, "up2", "fe80::2 v1 up2", "fe80::2 v2 up2")
	faulty := bare // of three GPUs
	faulty.Node.GPUs.Devices = make([]gpu.GPU, 3)
	empty := roce.rdma("bnxt_re2", "bnxt_en", ethernet, 400, "")
	empty.Node.HCAs[2].Ports[0].GIDSlots = 128
	away := roce.rdma("bnxt_re2", "bnxt_en", ethernet, 400, "")
	away.Node.HCAs[2].Ports[0].Elsewhere = "pod7"
	pod := roce.rdma("bnxt_re2", "bnxt_en", ethernet, 400, "")
	pod.Node.HCAs[2].Closed, pod.Node.HCAs[2].Ports[0].Elsewhere = "it has no device node, unlike the others", "host2"
	rateless := machine(lo, eth0).ib("mlx5_0", "mlx5_1").rdma("mlx5_2", "mlx5_core", infiniBand, 0, "")
	many := machine(lo, eth0).ib("mlx5_0", "mlx5_12", "mlx5_13", "mlx5_20").rdma("mlx5_1", "mlx5_core", ethernet, 100, "")
	guess := machine(lo, eth0).rdma("mlx5_0", "mlx5_core", infiniBand, 400, "").
		rdma("mlx5_1", "mlx5_core", ethernet, 100, "")
	shmem := front.with("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1")
	bond := front
	bond.Node = machinetest.Node(t, "h100-ib-ndr-bond")
	const hca, ucx, list, pes = "NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST", "NVSHMEM_HCA_PE_MAPPING"
	for _, tt := range []struct {
		name string
		in   Input
		want string // status, then ports; "": nothing
	}{
		{"another node's list", front.with(hca, "=mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
			"warn mlx5_1:1, mlx5_3:1 | mlx5_4:1, mlx5_5:1"},
		{"management ports alone", front.with(hca, "mlx5_1,mlx5_3"), "warn mlx5_1:1, mlx5_3:1 | mlx5_0:1, mlx5_2:1"},
		{"all by a prefix", front.with(hca, "mlx5"), "warn mlx5_1:1, mlx5_3:1 |"},
		{"all of a port", front.with(hca, "mlx5:1"), "warn mlx5_1:1, mlx5_3:1 |"},
		{"an exclusion that leaves one", front.with(hca, "^mlx5_1"), "warn mlx5_3:1 |"},
		{"slower ones of the same kind", slow.with(hca, "mlx5_0,mlx5_1"), "warn mlx5_1:1 | mlx5_2:1, mlx5_4:1, mlx5_5:1"},
		{"without an address", bare.with(hca, "=bnxt_re2"), "warn bnxt_re2:1 | bnxt_re0:1, bnxt_re1:1"},
		{"with an empty table", empty.with(hca, "=bnxt_re2"), "fail bnxt_re2:1 | bnxt_re0:1, bnxt_re1:1"},
		{"of another namespace", away.with(hca, "=bnxt_re2"), "fail bnxt_re2:1 | bnxt_re0:1, bnxt_re1:1"},
		{"a prefix, and itself no rail", many.with(hca, "mlx5_1"), "warn mlx5_1:1 | mlx5_0:1, mlx5_20:1"},
		{"UCX's", front.with(ucx, "mlx5_1:1,mlx5_0:1"), "warn mlx5_1:1 | mlx5_2:1, mlx5_4:1, mlx5_5:1"},
		{"NVSHMEM's", shmem.with(list, "mlx5_1,mlx5_0"), "warn mlx5_1:1 | mlx5_2:1, mlx5_4:1, mlx5_5:1"},
		{"NVSHMEM's by PE", shmem.with(pes, "mlx5_1:1:2,mlx5_0:1:2"), "warn mlx5_1:1 | mlx5_2:1, mlx5_4:1, mlx5_5:1"},
		{"UCX's alone, for NIXL", front.with(ucx, "mlx5_1:1", "NIXL_LOG_LEVEL", "info"), "warn mlx5_1:1 | mlx5_0:1"},
		{"UCX's alone, without GPUs", front.noGPUs().with(ucx, "mlx5_1:1"), "warn mlx5_1:1 | mlx5_0:1"},
		{"management alone at the GPUs' rails", bond.with(hca, "mlx5_bond_0"), "warn mlx5_bond_0:1 | mlx5_0:1"},

		{"UCX for the start, NCCL for the data", front.with(ucx, "mlx5_1:1"), "ok mlx5_1:1 | mlx5_0:1"},
		{"all by a prefix, and each GPU has a nearer rail", bond.with(hca, "mlx5"), "ok mlx5_bond_0:1 |"},
		{"where the rails are a guess", guess.with(hca, "mlx5_1"), "ok mlx5_1:1 |"},

		{"a part of the rails", front.with(hca, "=mlx5_0,mlx5_4"), ""},
		{"a part by prefix and port", front.with(hca, "mlx5_0:1,mlx5_2:1"), ""},
		{"all rails", front.with(hca, "=mlx5_0,mlx5_2,mlx5_4,mlx5_5"), ""},
		{"a faulty rail, which another check names", faulty.with(hca, "=bnxt_re0,bnxt_re1,bnxt_re2"), ""},
		{"a faulty rail alone", faulty.with(hca, "=bnxt_re2"), "warn bnxt_re2:1 | bnxt_re0:1, bnxt_re1:1"},
		{"an exclusion of the others", front.with(hca, "^=mlx5_1,mlx5_3"), ""},
		{"an exclusion of the others and a rail", front.with(hca, "^mlx5_1,mlx5_3,mlx5_5"), ""},
		{"all, and all are rails", four.with(hca, "mlx5"), ""},
		{"all by a prefix, in a pod that sees the whole host", pod.with(hca, "bnxt_re"), ""},
		{"all, and the rate of one is unknown", rateless.with(hca, "mlx5"), ""},
		{"NCCL's list of the whole cluster, on a node without GPUs", front.noGPUs().with(hca, "mlx5"), ""},
		{"the list of mpirun's hosts, on a node that is none of them", front.mpirun().with(hca, "mlx5_1"), ""},
		{"RDMA is off", front.with(hca, "mlx5_1", "NCCL_NET", "Socket"), ""},
		{"a cloud's own module", front.with(hca, "mlx5_1", "NCCL_NET", "AWS Libfabric"), ""},
		{"one node", front.with(hca, "mlx5_1").nodes(1), ""},
		{"UCX with all rails and more", front.with(ucx, "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_4:1,mlx5_5:1"), ""},
		{"UCX over TCP", front.with(ucx, "eth0"), ""},
		{"UCX's pattern", front.with(ucx, "mlx5_[1-3]:1"), ""},
		{"NVSHMEM's list without its switch", front.with(list, "mlx5_1"), ""},
		{"no fabric", machine(lo, eth0).with(hca, "mlx5_1"), ""},
	} {
		got := ""
		for _, f := range Lint(tt.in) {
			if f.ID == "env.ib-hca-prefix" && strings.HasPrefix(tt.want, "warn") {
				t.Errorf("%s: two findings about one list", tt.name)
			}
			if f.ID != "env.rails" {
				continue
			}
			var wrong, left string
			words := strings.Split(strings.ReplaceAll(f.What, ")", "("), "(")
			wrong = words[1]
			if len(words) > 3 && strings.Contains(words[2], "leaves out") {
				left = " " + words[3]
			}
			got = fmt.Sprintf("%s %s |%s", f.Status, wrong, left)
			if strings.HasPrefix(f.What, ucx) && strings.Contains(f.Breaks, "InfiniBand and Ethernet") {
				t.Errorf("%s: UCX connects only ports that reach each other: %s", tt.name, f.Breaks)
			}
		}
		if ok := got == tt.want || tt.want != "" && strings.HasPrefix(got, tt.want); !ok {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	f := Lint(front.with(hca, "=mlx5_0,mlx5_1"))[0]
	if want := "export NCCL_IB_HCA='=mlx5_0:1,mlx5_2:1,mlx5_4:1,mlx5_5:1'"; f.Fix != want {
		t.Errorf("fix %q, want %q", f.Fix, want)
	}
	f = Lint(many.with(hca, "mlx5_1"))[0]
	if !strings.HasSuffix(f.What, "; mlx5_1 is a prefix and also matches mlx5_12, mlx5_13") {
		t.Errorf("the prefix is missing: %s", f.What)
	}
}

// A second port of a rail's card is described as a port, not by the card's role.
func TestTheSecondPortOfACardThatIsARail(t *testing.T) {
	in := machine(lo, eth0).ib("mlx4_0")
	in.Node.HCAs[0].Ports[0].Rate = 56
	second := fabric.Port{Num: 2, State: 4, PhysState: 5, LinkLayer: ethernet, Rate: 10}
	in.Node.HCAs[0].Ports = append(in.Node.HCAs[0].Ports, second)
	in = in.ib("mlx4_1")
	in.Node.HCAs[1].Ports[0].Rate = 56
	got := Lint(in.with("NCCL_IB_HCA", "mlx4_0"))
	if len(got) != 1 || !cmp.Equal(got[0].Seen[0].What, "port 2: Ethernet at 10 Gb/s") {
		t.Errorf("Lint = %+v", got)
	}
}
