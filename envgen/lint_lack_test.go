package envgen

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine/machinetest"
)

func TestLintFindsMissingFilesOfAVendor(t *testing.T) {
	const mega = "/var/lib/tcpxo/lib64/nccl-env-profile.sh"
	bare := efa(machine(lo, eth0)).plugin("none")
	ultra := machine(lo, eth0).roce("mlx5_0", "rdma0", "10.64.0.5/24").cloud("gcp").file(gibScript, "")
	a3 := machine(lo, eth0).cloud("gcp").file(mega, "")
	inside := func(in Input) Input { in.Script = true; return in }
	slingshot := Input{Node: machinetest.Node(t, "slingshot-mi250x"), World: World{Nodes: 2}}.plugin("none")
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"EFA without its plugin", bare, []string{"warn env.plugin"}},
		{"EFA with it", efa(machine(lo, eth0)).plugin("aws-ofi-nccl 1.16.0"), nil},
		{"EFA with unknown files", efa(machine(lo, eth0)), nil},
		{"EFA with a module that the user pins", bare.with("NCCL_NET", "Socket"), nil},
		{"EFA without GPUs", bare.noGPUs(), nil},
		{"EFA in a script", inside(bare), nil},
		{"Slingshot without it", slingshot, []string{"warn env.plugin"}},
		{"InfiniBand without a plugin", machine(lo, eth0).ib("mlx5_0").plugin("none"), nil},
		{"A3 Ultra without its script", ultra, []string{"warn env.vendor-script"}},
		{"A3 Ultra with it", ultra.with("NCCL_NET", "gIB"), nil},
		{"A3 Ultra's image without RDMA", machine(lo, eth0).cloud("gcp").file(gibScript, ""), nil},
		{"A3 Ultra in a script", inside(ultra), nil},
		{"A3 Ultra, one node", ultra.nodes(1), nil},
		{"A3 Mega without its script", a3, []string{"warn env.vendor-script"}},
		{"A3 Mega with it", a3.with("NCCL_FASTRAK_CTRL_DEV", "eth0"), nil},
		{"another machine of Google's", machine(lo, eth0).cloud("gcp").file(selfStatus, mayAll), nil},
	} {
		if diff := cmp.Diff(tt.want, verdicts(tt.in)); diff != "" {
			t.Errorf("%s: Lint (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, f := range Lint(a3) {
		if !strings.Contains(f.Fix, "source "+mega) || !strings.Contains(f.Fix, "NCCL_LIB_DIR=/var/lib/tcpxo/lib64 ") {
			t.Errorf("the line to paste is %q", f.Fix)
		}
	}
	if !slices.Contains(Paths(a3), mega) || slices.Contains(Paths(machine(lo, eth0)), mega) {
		t.Error("Google's scripts are asked for on Google's machines alone")
	}
}

// FasTrak carries the data, so that no other interface does.
func TestAVendorsModuleChangesNoInterface(t *testing.T) {
	in := machine(lo, eth0, bridge).cloud("gcp").with("NCCL_NET", "FasTrak")
	if diff := cmp.Diff([]string(nil), brief(Make(in))); diff != "" {
		t.Errorf("Make (-want +got):\n%s", diff)
	}
}

// The host's end of a container's cable has an address where a CNI gives it one.
func TestTheHostsEndOfAVethReachesNoOtherMachine(t *testing.T) {
	end := iface(7, "veth77", "veth", "10.200.0.1/24")
	both := []string{"OMPI_MCA_btl_tcp_if_include=10.0.0.0/24", "OMPI_MCA_oob_tcp_if_include=10.0.0.0/24"}
	boxed := machine(lo, eth0, end)
	boxed.Node.Container = fabric.Container{Kind: "docker"}
	pod := machine(lo, iface(3, "eth0", "veth", "10.0.0.5/24"), end)
	for _, tt := range []struct {
		name string
		in   Input
		want []string
	}{
		{"Open MPI", machine(lo, eth0, end).head("openmpi4"), both},
		{"UCX", machine(lo, eth0, end).noGPUs().using("ucx"), []string{"UCX_NET_DEVICES=eth0"}},
		{"NCCL over TCP", machine(lo, eth0, end), []string{"NCCL_SOCKET_IFNAME==eth0"}},
		{"in a container it may be any network", boxed.noGPUs().using("ucx"), nil},
		{"where the way to the peers is one too", pod.noGPUs().using("ucx"), nil},
	} {
		if diff := cmp.Diff(tt.want, brief(Make(tt.in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A recording of the HCAs alone does not say that there are no GPUs; no finding
// is certain there.
func TestUnknownGPUsMayExist(t *testing.T) {
	in := machine(lo, eth0).ib("mlx5_0").rdma("mlx5_bond_0", "mlx5_core", "Ethernet", 25, "eth0")
	in.Node.GPUs = gpu.Facts{}
	if diff := cmp.Diff([]string{"NCCL_IB_HCA==mlx5_0:1"}, brief(Make(in))); diff != "" {
		t.Errorf("Make (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"warn env.ifname.nccl"}, verdicts(in.with("NCCL_SOCKET_IFNAME", "eth9"))); diff != "" {
		t.Errorf("Lint (-want +got):\n%s", diff)
	}
	in.Node.PCI = []fabric.PCI{{Addr: "0000:00:00.0"}}
	if diff := cmp.Diff([]string(nil), brief(Make(in))); diff != "" {
		t.Errorf("Make where the devices are known (-want +got):\n%s", diff)
	}
}
