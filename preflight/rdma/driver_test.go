package rdma

import (
	"strings"
	"testing"

	"launch/fabric/machine"
	"launch/internal/setting"
	"launch/preflight"
	"launch/preflight/checktest"
)

// RDMA cards of Mellanox have the class of InfiniBand, Ethernet or any other network.
func TestCardsWithoutADriver(t *testing.T) {
	const gpus = "pci0001:00\n  0001:00:01.0 10de:1db4 0302 nvidia\n    gpu \"Tesla V100\"\n" +
		"  0001:00:02.0 10de:1db4 0302 nvidia\n    gpu \"Tesla V100\"\n"
	const eth = "route eth0 10.1.0.7\nvirtual\n  net eth0 speed=10000 addr=10.1.0.7/24\n"
	const rail = "pci0003:00\n  0003:00:01.0 15b3:1017 0200 mlx5_core\n    hca mlx5_0 type=MT4119\n" +
		"      port 1 ACTIVE LinkUp 100 InfiniBand lid=0x3 sm=0x1 pkeys=0xffff\n"
	at := func(lines ...string) string {
		return "pci0002:00\n  0002:00:01.0 " + strings.Join(lines, "\n  ") + "\n"
	}
	for _, tt := range []struct {
		name, text, fix string // fix: "" means that nothing is found
	}{
		{"a virtual function of ConnectX-3", gpus + at("15b3:1004 0280"), "mlx4_core mlx4_ib"},
		{"ConnectX-5 of class Ethernet", gpus + at("15b3:1017 0200"), "mlx5_core mlx5_ib"},
		{"ConnectX-6 of class InfiniBand", gpus + at("15b3:101b 0207"), "mlx5_core mlx5_ib"},
		{"two BlueField ports", gpus + at("15b3:a2dc 0200", "0002:00:01.1 15b3:a2dc 0200"), "mlx5_core mlx5_ib"},
		{"an HFI of Omni-Path", gpus + at("8086:24f0 0208"), "hfi1"},
		{"an EFA", gpus + at("1d0f:efa2 0200"), "efa"},
		{"next to a rail", gpus + rail + at("15b3:1017 0200"), ""},
		{"no GPU", at("15b3:1017 0200"), ""},
		{"for a guest", gpus + at("15b3:1018 0200 vfio-pci"), ""},
		{"a virtual function next to its physical one", gpus + at("15b3:1018 0200 physfn=0002:00:01.7"), ""},
		{"a DMA engine of BlueField", gpus + at("15b3:c2d3 0801"), ""},
		{"another vendor's Ethernet card", gpus + at("8086:1563 0200"), ""},
		{"with a driver that makes no device", gpus + at("8086:1563 0200 ixgbe"), ""},
	} {
		m, err := machine.Read([]byte("machine/1\n" + tt.text + eth))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		in := checktest.HGX(func(in *preflight.Input) { in.Node = m.Detect(t.Context()) })
		f, found := driverless(in)
		if found != (tt.fix != "") || found && !strings.Contains(f.Fix, "modprobe -a "+tt.fix+" ") {
			t.Errorf("%s: %v %q, want %q", tt.name, found, f.Fix, tt.fix)
		}
		in.Job.Decided = append(in.Job.Decided, setting.Decided{Name: "NCCL_NET", Value: "Socket"})
		if _, found = driverless(in); found {
			t.Errorf("%s: found, although the user chose TCP", tt.name)
		}
	}
}
