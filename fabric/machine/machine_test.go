package machine_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/machine"
	"launch/fabric/machine/machinetest"
)

func TestEveryMachineIsDetectedWhole(t *testing.T) {
	broken := map[string][]fabric.Unknown{
		"broken-hca": {
			{What: "class/infiniband/mlx5_1/fw_ver", Why: "input/output error"},
			{What: "class/infiniband/scif0", Why: "no such file or directory"},
		},
	}
	for _, name := range machinetest.Names() {
		n := machinetest.Node(t, name)
		if diff := cmp.Diff(broken[name], n.Unknown); diff != "" {
			t.Errorf("%s: unknown (-want +got):\n%s", name, diff)
		}
		if n.Route.Interface == "" || !slices.ContainsFunc(n.Interfaces,
			func(f fabric.Interface) bool { return f.Name == n.Route.Interface }) {
			t.Errorf("%s: its default route %+v is by no interface of it", name, n.Route)
		}
		for _, h := range n.HCAs {
			if h.Driver == "" && h.Name != "scif0" && h.Name != "hrn3_bond0" {
				t.Errorf("%s: %s has no driver", name, h.Name)
			}
			if _, ok := n.Function(h.PCI); !ok && h.PCI != "" {
				t.Errorf("%s: the function %s of %s is not listed", name, h.PCI, h.Name)
			}
		}
	}
}

func hca(t *testing.T, n fabric.Node, name string) fabric.HCA {
	t.Helper()
	i := slices.IndexFunc(n.HCAs, func(h fabric.HCA) bool { return h.Name == name })
	if i < 0 {
		t.Fatalf("no HCA %s", name)
	}
	return n.HCAs[i]
}

func TestNetdevOfAPortIsTheOneWithItsAddress(t *testing.T) {
	tests := []struct{ machine, hca, want, elsewhere, why string }{
		{"h100-ib-ndr-bond", "mlx5_3", "ib1", "", "IPoIB by its function, though it is down"},
		{"h100-ib-ndr-bond", "mlx5_bond_0", "bond0", "", "the GIDs name the bond"},
		{"azure-nd-h100-v5", "mlx5_an0", "eth0", "", "the GIDs name the slave, its master holds the address"},
		{"aws-p5-48xlarge", "rdmap79s0", "", "", "EFA has none"},
		{"gcp-pod-ipvlan", "mlx5_2", "gpu2ipvlan0", "", "the first GIDs are the host's"},
		{"gcp-pod-one-nic", "mlx5_0", "gpu0rdma0", "", "the one that was moved into the pod"},
		{"gcp-pod-one-nic", "mlx5_5", "", "gpu5rdma0", "the others are not"},
		{"roce-vlan", "mlx5_bond_0", "bond0.310", "", "the bond itself has link-local GIDs alone"},
		{"roce-lag-no-address", "mlx5_bond_0", "bond0", "", "Open vSwitch's own interface holds no address"},
		{"cx2-eth-beside-ib", "mlx4_0", "ib0", "", "of two on one function, the one of this link layer"},
		{"rxe-vm", "rxe0", "enp0s8", "", "Soft-RoCE runs on it"},
		{"siw-laptop", "siw0", "wlp0s20f3", "", "a software device without a parent"},
		{"dgx-spark", "roceP2p1s0f1", "enP2p1s0f1np1", "", "by a link-local address"},
	}
	for _, tt := range tests {
		p := hca(t, machinetest.Node(t, tt.machine), tt.hca).Ports[0]
		if p.Netdev != tt.want || p.Elsewhere != tt.elsewhere {
			t.Errorf("%s %s: netdev %q, elsewhere %q, want %q and %q (%s)", tt.machine, tt.hca, p.Netdev, p.Elsewhere, tt.want,
				tt.elsewhere, tt.why)
		}
	}
	two := hca(t, machinetest.Node(t, "cx3-roce-v1"), "mlx4_0")
	if two.Ports[0].Netdev != "ens2" || two.Ports[1].Netdev != "ens2d1" {
		t.Errorf("two ports of one function: %q and %q, want ens2 and ens2d1", two.Ports[0].Netdev, two.Ports[1].Netdev)
	}
	two = hca(t, machinetest.Node(t, "cx3-two-fabrics"), "mlx4_0")
	if two.Ports[0].Netdev != "ib0" || two.Ports[1].Netdev != "ib1" {
		t.Errorf("two InfiniBand ports of one function: %q and %q, want ib0 and ib1, not the child of ib0",
			two.Ports[0].Netdev, two.Ports[1].Netdev)
	}
}

func TestVirtualFunctionsAreRecognized(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"azure-nd-h100-v5": {"mlx5_ib0": true, "mlx5_an0": true}, // no physfn in a VM: by number
		"pod-sriov-vf":     {"mlx5_3": true},
		"h100-ib-ndr-bond": {"mlx5_0": false, "mlx5_bond_0": false},
		"gb200-tray":       {"rocep3s0f0": false},
		"dgx-spark":        {"rocep1s0f1": false},
	} {
		n := machinetest.Node(t, name)
		for dev, vf := range want {
			if got := hca(t, n, dev).VF; got != vf {
				t.Errorf("%s %s: VF %v, want %v", name, dev, got, vf)
			}
		}
	}
}

func TestFunctionsThatShowNoRDMADeviceAreListed(t *testing.T) {
	for name, want := range map[string][]string{
		"cx4-no-rdma-stack":   {"0000:19:00.0", "0000:88:00.0"},
		"h100-ib-ndr-bond":    nil, // the second half of the bond is not missing
		"roce-lag-no-address": nil,
		"vm-p100-virtio":      nil,
		"aws-p5-48xlarge":     nil, // ENA is plain Ethernet
		"e810-irdma":          nil,
	} {
		var got []string
		for _, p := range machinetest.Node(t, name).WithoutRDMA() {
			got = append(got, p.Addr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCloudsAndContainersAreRecognized(t *testing.T) {
	tests := []struct {
		machine   string
		cloud     fabric.Cloud
		container fabric.Container
	}{
		{"aws-p5-48xlarge", fabric.Cloud{Provider: "aws", SKU: "p5.48xlarge", Virtual: true},
			fabric.Container{RDMA: "shared"}},
		{"aws-c5n-metal", fabric.Cloud{Provider: "aws", SKU: "c5n.metal"}, fabric.Container{RDMA: "shared"}},
		{"azure-nd-h100-v5", fabric.Cloud{Provider: "azure", Virtual: true}, fabric.Container{RDMA: "shared"}},
		{"gcp-a3-ultra", fabric.Cloud{Provider: "gcp", Virtual: true}, fabric.Container{RDMA: "shared"}},
		{"gcp-pod-one-nic", fabric.Cloud{Provider: "gcp", Virtual: true},
			fabric.Container{Kind: "kubernetes", RDMA: "shared"}},
		{"oci-bm-gpu-h100", fabric.Cloud{Provider: "oci"}, fabric.Container{RDMA: "shared"}},
		{"ibm-gx3d-h100", fabric.Cloud{Provider: "ibm", Virtual: true}, fabric.Container{RDMA: "shared"}},
		{"pod-sriov-vf", fabric.Cloud{}, fabric.Container{Kind: "kubernetes", RDMA: "exclusive"}},
		{"rxe-vm", fabric.Cloud{Virtual: true}, fabric.Container{RDMA: "shared"}},
		{"cx3-roce-v1", fabric.Cloud{}, fabric.Container{RDMA: "shared"}},
	}
	for _, tt := range tests {
		n := machinetest.Node(t, tt.machine)
		if diff := cmp.Diff(tt.cloud, n.Cloud); diff != "" {
			t.Errorf("%s: cloud (-want +got):\n%s", tt.machine, diff)
		}
		if diff := cmp.Diff(tt.container, n.Container); diff != "" {
			t.Errorf("%s: container (-want +got):\n%s", tt.machine, diff)
		}
	}
}

func TestGPUDirectIsReadFromFiles(t *testing.T) {
	for name, want := range map[string]fabric.GPUDirect{
		"h100-roce-8":      {Peermem: true, DMABuf: "yes"},
		"azure-nd-h100-v5": {Peermem: true, DMABuf: "the driver's kernel modules are the closed ones"},
		"aws-p4d-24xlarge": {DMABuf: "the driver's kernel modules are the closed ones"},
		"power9-v100-ib":   {DMABuf: "the driver's kernel modules are the closed ones"},
		"mi300x-roce-8":    {},
	} {
		if diff := cmp.Diff(want, machinetest.Node(t, name).GPUDirect); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDistancesFollowTheBridges(t *testing.T) {
	tests := []struct {
		machine, a, b string
		want          fabric.Distance
	}{
		{"h100-ib-ndr-bond", "0000:18:00.0", "0000:19:00.0", fabric.PIX},  // one switch
		{"h100-ib-ndr-bond", "0000:27:00.0", "0000:27:00.1", fabric.PIX},  // one card
		{"h100-ib-ndr-bond", "0000:18:00.0", "0000:3a:00.0", fabric.NODE}, // another root
		{"h100-ib-ndr-bond", "0000:18:00.0", "0000:9b:00.0", fabric.SYS},
		{"oci-bm-gpu-h100", "0000:0d:00.0", "0000:0e:00.0", fabric.PXB}, // a switch below a switch
		{"vm-h100-all-phb", "0000:00:05.0", "0000:00:10.0", fabric.PHB}, // no bridge is visible
		{"aws-p4d-24xlarge", "0000:10:1b.0", "0000:10:1c.0", fabric.PHB},
		{"gb200-tray", "0000:03:00.0", "0008:01:00.0", fabric.NODE}, // every device has a domain of its own
		{"gb200-tray", "0000:03:00.0", "0019:01:00.0", fabric.SYS},
		{"power9-v100-ib", "0003:01:00.0", "0035:03:00.0", fabric.SYS},
		{"ibm-gx3d-h100", "0000:a2:00.0", "0000:a3:00.0", fabric.PIX},
		{"cpu-workstation", "0000:00:1f.6", "0000:05:00.0", fabric.PHB},
		{"h100-ib-ndr-bond", "0000:18:00.0", "0000:99:99.0", ""}, // no such function
	}
	for _, tt := range tests {
		n := machinetest.Node(t, tt.machine)
		if got := n.Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %s to %s is %q, want %q", tt.machine, tt.a, tt.b, got, tt.want)
		}
		if there, back := n.Distance(tt.a, tt.b), n.Distance(tt.b, tt.a); there != back {
			t.Errorf("%s: %s to %s is %q, and back %q", tt.machine, tt.a, tt.b, there, back)
		}
	}
	order := []fabric.Distance{fabric.PIX, fabric.PXB, fabric.PHB, fabric.NODE, fabric.SYS, ""}
	if !slices.IsSortedFunc(order, func(a, b fabric.Distance) int { return a.Rank() - b.Rank() }) ||
		fabric.PIX.Rank() != 0 {
		t.Error("the ranks of distances are not in their order")
	}
}

func TestCardsAreFoundWithoutNVML(t *testing.T) {
	for name, want := range map[string]struct {
		count int
		first fabric.Card
	}{
		"rtx4090-pcie-ib": {8, fabric.Card{PCI: "0000:02:00.0", Vendor: "nvidia", Model: "NVIDIA GeForce RTX 4090",
			UUID: "GPU-00000000-0000-4000-8000-0000000000f0", Minor: 3}},
		"mi300x-roce-8":    {8, fabric.Card{PCI: "0000:06:00.0", Vendor: "amd", Minor: -1}},
		"slingshot-mi250x": {8, fabric.Card{PCI: "0000:c2:00.0", Vendor: "amd", Minor: -1}},
		// the driver's folder is missing
		"cx2-eth-beside-ib": {1, fabric.Card{PCI: "0000:06:00.0", Vendor: "nvidia", Minor: -1}},
		"cx4-no-rdma-stack": {},
	} {
		n := machinetest.Node(t, name)
		if len(n.Cards) != want.count {
			t.Errorf("%s: %d GPUs, want %d", name, len(n.Cards), want.count)
		} else if want.count > 0 {
			if diff := cmp.Diff(want.first, n.Cards[0]); diff != "" {
				t.Errorf("%s: first GPU (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestWhatHidesThePCIBusIsStillFound(t *testing.T) {
	const text = "machine/1\nfile sys/class/infiniband/rocep1s0/node_type \"1: CA\"\nfile " +
		"sys/class/infiniband/rocep1s0/device/uevent \"DRIVER=mlx5_core\\nPCI_SLOT_NAME=0000:01:00.0\"\n" +
		"file proc/driver/nvidia/gpus/0000:0f:00.0/information \"Model: \t GRID\\nDevice Minor: \t 2\"\n"
	m, err := machine.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	n := m.Detect(t.Context())
	if h := hca(t, n, "rocep1s0"); h.PCI != "0000:01:00.0" || h.Driver != "mlx5_core" {
		t.Errorf("an HCA whose class holds directories: %+v", h)
	}
	if diff := cmp.Diff([]fabric.Card{{PCI: "0000:0f:00.0", Vendor: "nvidia", Model: "GRID", Minor: 2}},
		n.Cards); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

func TestLinksRedirectsAndGroupsOfFunctions(t *testing.T) {
	n := machinetest.Node(t, "h200-two-rails")
	for addr, want := range map[string]fabric.PCI{
		"0000:23:00.0": {Gen: 5, MaxGen: 5, Lanes: 16, MaxLanes: 16, IOMMU: "identity", ACS: "off"},
		"0000:83:00.0": {Gen: 5, MaxGen: 5, Lanes: 16, MaxLanes: 16, IOMMU: "identity", ACS: "on"},
	} {
		p, _ := n.Function(addr)
		if p.Gen != want.Gen || p.MaxGen != want.MaxGen || p.Lanes != want.Lanes || p.MaxLanes != want.MaxLanes ||
			p.IOMMU != want.IOMMU || p.ACS != want.ACS {
			t.Errorf("%s = %+v, want %+v", addr, p, want)
		}
	}
	p, _ := machinetest.Node(t, "vm-h100-all-phb").Function("0000:00:05.0")
	if p.ACS != "" || p.IOMMU != "" || p.NUMA != 0 {
		t.Errorf("a GPU of a VM = %+v, want no redirects and no group known", p)
	}
}

func TestPortsHaveTheirOwnNumbers(t *testing.T) {
	n := machinetest.Node(t, "ib-no-subnet-manager")
	want := []fabric.Port{
		{Num: 1, State: 2, PhysState: 5, LinkLayer: "InfiniBand", Rate: 200, Lanes: 4, LID: 0xffff, GIDSlots: 1},
		{Num: 1, State: 1, PhysState: 3, LinkLayer: "InfiniBand", Rate: 10, Lanes: 4, LID: 0xffff, GIDSlots: 1},
		{Num: 1, State: 1, PhysState: 2, LinkLayer: "InfiniBand", Rate: 10, Lanes: 4, LID: 0xffff, GIDSlots: 1},
	}
	for i, h := range n.HCAs {
		p := h.Ports[0]
		p.PKeys, p.GIDs, p.Netdev = nil, nil, ""
		if diff := cmp.Diff(want[i], p, equal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", h.Name, diff)
		}
	}
	p := hca(t, machinetest.Node(t, "azure-nd-h100-v5"), "mlx5_ib0").Ports[0]
	if diff := cmp.Diff([]fabric.PKey{{Index: 0, Key: "0x80a5"}, {Index: 1, Key: "0x7fff"}}, p.PKeys); diff != "" ||
		p.SMLID != 1 {
		t.Errorf("partition keys (-want +got):\n%s, subnet manager %d", diff, p.SMLID)
	}
	var gids []string
	for _, g := range hca(t, machinetest.Node(t, "roce-vlan"), "mlx5_bond_0").Ports[0].GIDs {
		gids = append(gids, g.Addr.String()+" "+g.Type+" "+g.Netdev)
	}
	if len(gids) != 6 || gids[5] != "10.31.0.1 RoCE v2 bond0.310" {
		t.Errorf("GIDs %q, want 6, of which two slots between were empty", gids)
	}
}
