package gpu

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"launch/fabric/machine"
	"launch/fabric/rail"
	"launch/preflight"
	"launch/preflight/checktest"
)

// board is a machine with a switch for each pair of a rail and a GPU.
type board struct {
	places int
	gpu    string   // VENDOR:DEVICE CLASS DRIVER and keys
	gone   []int    // places without a GPU
	rails  int      // how many places have a rail; 0: all
	more   string   // further lines
	hca    string   // keys of the function of each rail
	env    []string // names and values
}

func (b board) input(t *testing.T, processes string) preflight.Input {
	t.Helper()
	text := "machine/1\nroute eno1 10.0.0.5\n"
	for i := range b.places {
		text += fmt.Sprintf("pci%04x:00 numa=0\n  %04[1]x:00:01.0 bridge\n    %04[1]x:01:00.0 bridge\n", i+1)
		if b.rails == 0 || i < b.rails {
			text += fmt.Sprintf("      %04x:02:00.0 bridge\n        %04[1]x:03:00.0 14e4:1760 0200 bnxt_en %s\n"+
				"          hca bnxt_re%d\n            port 1 ACTIVE LinkUp 400 Ethernet\n              gid 1 ::ffff:10.70.%[3]d.9 "+
				"v2 fe%[3]d\n          net fe%[3]d speed=400000 addr=10.70.%[3]d.9/24\n", i+1, b.hca, i)
		}
		if !strings.Contains(fmt.Sprint(b.gone), fmt.Sprint(i)) {
			text += fmt.Sprintf("      %04x:02:01.0 bridge\n        %04[1]x:04:00.0 %s\n", i+1, b.gpu)
		}
	}
	m, err := machine.Read([]byte(text + "pci00f0:00\n  00f0:01:00.0 8086:1521 0200 igb\n    net eno1 speed=1000 " +
		"addr=10.0.0.5/24\n" + b.more))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	in := checktest.Env(checktest.NProc(checktest.Four(), processes), b.env...)
	in.Node = m.Detect(t.Context())
	return in
}

const instinct, gaudi, arc = "1002:75a0 1200 amdgpu", "1da3:1060 1200 habanalabs", "8086:e211 0300 xe"

func TestGPUsThatNVMLDoesNotKnow(t *testing.T) {
	rocm := func(gpus int) (out string) {
		for i := range gpus + 1 {
			out += fmt.Sprintf("file sys/class/kfd/kfd/topology/nodes/%d/gpu_id %d\n", i, 1000*i)
		}
		return out
	}
	parted := func(mode string) string {
		return instinct + "\n          file current_compute_partition " + mode
	}
	for _, tt := range []struct {
		name, processes string
		machine         board
		want            string
	}{
		{"as many", "8", board{places: 8, gpu: instinct}, "ok 8 processes, 8 GPUs (PCI bus)"},
		{"one of eight is gone", "8", board{places: 8, gpu: instinct, gone: []int{6}},
			"warn the command asks for 8 processes, and this node has 7 GPUs"},
		{"ROCm has one less", "8", board{places: 8, gpu: instinct, gone: []int{2}, more: rocm(7)},
			"fail the command asks for 8 processes, and this node has 7 GPUs"},
		{"a container with four of eight", "8", board{places: 8, gpu: instinct, more: rocm(4)}, "fail this node has 4 GPUs"},
		{"each GPU is divided, as ROCm has them", "64", board{places: 8, gpu: instinct, more: rocm(64)}, "ok 64 processes"},
		{"each GPU is divided, and ROCm is not visible", "64", board{places: 8, gpu: parted("CPX")}, "skip"},
		{"no GPU is divided", "9", board{places: 8, gpu: parted("SPX")}, "warn this node has 8 GPUs"},
		{"a list leaves half", "8", board{places: 8, gpu: instinct, env: []string{"HIP_VISIBLE_DEVICES", "0,1,2,3"}},
			"warn this node has 4 GPUs"},
		{"Gaudi", "8", board{places: 8, gpu: gaudi, gone: []int{0}}, "warn this node has 7 GPUs"},
		{"Gaudi, chosen", "8", board{places: 8, gpu: gaudi, gone: []int{0}, env: []string{"HABANA_VISIBLE_DEVICES", "all"}},
			"skip"},
		{"Arc", "4", board{places: 4, gpu: arc, gone: []int{1}}, "warn this node has 3 GPUs"},
		{"Max with two tiles", "8", board{places: 4, gpu: "8086:0bd5 0380 i915"}, "ok 8 processes, 8 GPUs"},
		{"Max with one", "4", board{places: 4, gpu: "8086:0bda 0380 xe"}, "ok 4 processes, 4 GPUs"},
		{"Max, one less", "8", board{places: 4, gpu: "8086:0bd5 0380 i915", gone: []int{3}}, "warn this node has 6 GPUs"},
		{"Trainium, of which each has several cores", "32", board{places: 16, gpu: "1d0f:7164 0880 neuron"}, "skip"},
		{"graphics next to NVIDIA's", "8", board{places: 1, gpu: "1002:13c0 0300 amdgpu",
			more: "pci00f1:00\n  00f1:01:00.0 10de:2684 0300\n"}, "skip"},
		{"for guests", "8", board{places: 4, gpu: "1002:75a0 1200 vfio-pci"}, "skip"},
		{"one process for each", "gpu", board{places: 8, gpu: instinct}, "ok 8 GPUs (PCI bus)"},
		{"one for each, and one is gone", "gpu", board{places: 8, gpu: instinct, gone: []int{5}},
			"warn 1 GPU is gone from the PCI bus: the switch of bnxt_re5 has none"},
		{"two are gone", "6", board{places: 8, gpu: instinct, gone: []int{5, 7}},
			"warn 2 GPUs are gone from the PCI bus: the switch of bnxt_re5, bnxt_re7 has none"},
		{"six GPUs with a rail each", "6", board{places: 6, gpu: instinct}, "ok 6 processes"},
		{"four GPUs, and a card for storage at its own switch", "4", board{places: 5, gpu: instinct, gone: []int{4}},
			"ok 4 processes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.count", tt.machine.input(t, tt.processes)), tt.want)
		})
	}
}

// A rail remains one where its GPU is gone, and a card for storage at a switch of its own is still none.
func TestRailsOfAMachineThatLostAGPU(t *testing.T) {
	for _, tt := range []struct {
		machine     board
		rails, lone int
	}{
		{board{places: 8, gpu: instinct}, 8, 0},
		{board{places: 8, gpu: instinct, gone: []int{6}}, 8, 1},
		{board{places: 8, gpu: gaudi, gone: []int{0, 3}}, 8, 2},
		{board{places: 4, gpu: arc, gone: []int{1}}, 4, 1},
		{board{places: 5, gpu: instinct, gone: []int{4}}, 4, 0},
		{board{places: 9, gpu: instinct, gone: []int{2}}, 8, 0},
		{board{places: 8, gpu: instinct, gone: []int{4, 5, 6, 7}}, 8, 0},
	} {
		f := rail.Of(tt.machine.input(t, "8").Node, netip.MustParseAddr("10.0.0.5"))
		if len(f.Rails) != tt.rails || len(f.Lone) != tt.lone {
			t.Errorf("%+v: %d rails, %v alone, want %d and %d: %s", tt.machine, len(f.Rails), f.Lone, tt.rails, tt.lone, f.Why)
		}
	}
}

func TestGPUsBehindATranslatingIOMMU(t *testing.T) {
	nvidia := func(kind, name string) board {
		var list []string
		for i := range 8 {
			list = append(list, fmt.Sprintf(`{"index":%d,"name":%q,"pci":"%04x:04:00.0"}`, i, name, i+1))
		}
		return board{places: 8, gpu: "10de:2335 0302 nvidia iommu=" + kind, hca: "iommu=" + kind,
			more: `nvml {"present":true,"devices":[` + strings.Join(list, ",") + "]}\n"}
	}
	with := func(b board, more string) board { b.more += more; return b }
	plain := nvidia("DMA", "NVIDIA H200")
	plain.hca = "iommu=identity"
	for _, tt := range []struct {
		name    string
		machine board
		want    string
	}{
		{"Instinct", board{places: 8, gpu: instinct + " iommu=DMA-FQ"}, "warn the IOMMU translates the transfers of 8 GPUs"},
		{"two MI210", board{places: 2, gpu: "1002:740f 0380 amdgpu iommu=DMA"}, "warn transfers of 2 GPUs"},
		{"passed through", board{places: 8, gpu: instinct + " iommu=identity"}, "ok no translation"},
		{"no group", board{places: 8, gpu: instinct}, "skip no IOMMU group is visible"},
		{"Radeon", board{places: 2, gpu: "1002:744a 0300 amdgpu iommu=DMA-FQ"}, "ok no translation"},
		{"a Cray", with(board{places: 4, gpu: instinct + " iommu=DMA-FQ"},
			"kernel 5.14.21-150500.55.49_13.0.56-cray_shasta_c\n"), "ok no translation"},
		{"one GPU", board{places: 1, gpu: instinct + " iommu=DMA-FQ"}, "ok no translation"},
		{"a virtual machine", with(board{places: 8, gpu: instinct + " iommu=DMA-FQ"}, "dmi sys_vendor=QEMU\n"), "skip"},
		{"a host with guests", with(board{places: 8, gpu: instinct + " iommu=DMA-FQ"},
			"pci00f1:00\n  00f1:01:00.0 15b3:101c 0200 vfio-pci iommu=unmanaged\n"), "skip"},
		{"H200", nvidia("DMA-FQ", "NVIDIA H200"), "warn the IOMMU translates the transfers of 8 GPUs"},
		{"H200, passed through", nvidia("identity", "NVIDIA H200"), "ok no translation"},
		{"rails that are passed through", plain, "ok no translation"},
		{"GeForce", nvidia("DMA-FQ", "NVIDIA GeForce RTX 4090"), "ok no translation"},
		{"Grace", nvidia("DMA-FQ", "NVIDIA GB300"), "skip"},
		{"Arm", with(nvidia("DMA", "NVIDIA H200"), "kernel 6.8.0-1013-nvidia-64k\n"), "skip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := checktest.Verdict(t, Checks(), "gpu.iommu", tt.machine.input(t, "8"))
			checktest.Wants(t, f, tt.want)
		})
	}
}
