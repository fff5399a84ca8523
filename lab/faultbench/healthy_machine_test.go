package faultbench

import (
	"fmt"
	"slices"
	"strings"

	"launch/fabric/machine"
)

// cards are network cards outside the training fabric.
var cards = []string{`
pci0000:e8 numa=1
  0000:e8:01.0 bridge
    0000:e9:00.0 15b3:1017 0200 mlx5_core gen=3 maxgen=3 lanes=16 maxlanes=16
      hca mlx5_20 type=MT4119 fw=16.35.2000 guid=0c42:a103:00a1:0000 system=0c42:a103:00a1:0000
        port 1 DOWN Disabled 25 Ethernet lid=0x0 sm=0x0
          gid 0 fe80::0e42:a1ff:fea1:0000 v1
      net ens9f0np0 nocarrier
`, `
pci0000:e8 numa=1
  0000:e8:01.0 bridge
    0000:e9:00.0 8086:1592 0200 ice gen=4 maxgen=4 lanes=16 maxlanes=16
      hca irdma0 fw=1.54 guid=6cfe:543d:8a38:0000
        port 1 ACTIVE LinkUp 25 Ethernet lid=0x1 sm=0x0
          gid 0 fe80::6efe:54ff:fe3d:8a38 v2 enp233s0f0
      net enp233s0f0 mtu=1500 speed=25000
`, `
pci0000:e8 numa=1
  0000:e8:01.0 bridge
    0000:e9:00.0 15b3:101d 0200 mlx5_core gen=4 maxgen=4 lanes=16 maxlanes=16
      hca mlx5_20 type=MT4125 fw=22.35.2000 guid=0c42:a103:00b1:0000 system=0c42:a103:00b1:0000
        port 1 ACTIVE LinkUp 50 Ethernet lid=0x0 sm=0x0 pkeys=0xffff slots=8
          gid 0 fe80::0e42:a1ff:feb1:0000 v1 ens9f0np0
          gid 1 fe80::0e42:a1ff:feb1:0000 v2 ens9f0np0
      net ens9f0np0 mtu=1500 speed=50000
`}

// machineOddities returns oddities in the hardware of the hosts.
func machineOddities() []oddity {
	return []oddity{
		{name: "eight GPUs and InfiniBand", takes: "machine", needs: compiler(), make: func(s *healthy) { s.equip(onIB) }},
		{name: "eight GPUs and RoCE", takes: "machine", needs: compiler(), make: func(s *healthy) { s.equip(onRoCE) }},
		{name: "older GPUs behind NVSwitches", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(onIB)
			s.each(func(h *host) { h.onSwitches(s.trial, 0) })
		}},
		{name: "containers of one machine, with host names of their own", takes: "machine own", needs: compiler(),
			make: func(s *healthy) {
				s.equip(onIB)
				s.naming.own = "short"
				s.each(func(h *host) { h.bootAs(s.t, s.hosts[0]) })
			}},
		{name: "an NCCL for a later minor release of CUDA than the driver's", takes: "machine", needs: compiler(),
			make: func(s *healthy) {
				s.equip(onIB)
				s.each(func(h *host) {
					h.venv(s.trial, "2.9.0+cu128", "12.8", "2.27.5")
					h.nccl(s.trial, "2.27.5+cuda12.9")
					h.nvml(s.trial, "nvmlSystemGetCudaDriverVersion = 12040")
				})
			}},
		{name: "a decoy HCA next to the rails", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(one(s, onIB, onRoCE))
			card := one(s, cards...)
			s.some(func(h *host) { h.describe(s.trial, above(h.read(s.trial, "node.txt"), card)) })
		}},
		{name: "a decoy HCA", takes: "machine", make: func(s *healthy) {
			card := one(s, cards...)
			s.some(func(h *host) { h.onlyCard(s, card) })
		}},
		{name: "GPUs with a past", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(onIB)
			line := one(s, "nvmlDeviceGetTotalEccErrors 2 0 0 = 17", "nvmlDeviceGetTotalEccErrors 2 0 1 = 900",
				"nvmlDeviceGetRemappedRows 5 = 2 0 0 0",
				"nvmlDeviceGetComputeRunningProcesses 0 = 4711 314572800\nnvmlSystemGetProcessName 4711 = /usr/bin/dcgm-exporter",
				"nvmlDeviceGetCurrentClocksEventReasons * = 0")
			s.some(func(h *host) { h.nvml(s.trial, line) })
		}},
		{name: "device nodes of the GPUs", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(onIB)
			s.some(func(h *host) {
				h.devices("for i in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$i c 195 $i || exit 1; done")
			})
		}},
		{name: "GPUs that are named", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(one(s, onIB, onRoCE))
			set := one(s, "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", "CUDA_VISIBLE_DEVICES=7,6,5,4,3,2,1,0",
				"CUDA_DEVICE_ORDER=PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES=all")
			s.some(func(h *host) { h.env = append(h.env, set) })
		}},
		{name: "NCCL is set to its own defaults", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(onIB)
			set := one(s, "NCCL_IB_HCA=^mlx5_bond_0", "NCCL_IB_HCA==mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9",
				"NCCL_IB_QPS_PER_CONNECTION=2", "NCCL_IB_SL=0",
				"NCCL_IB_PCI_RELAXED_ORDERING=1", "NCCL_IB_TIMEOUT=22", "NCCL_NET=IB", "NCCL_DEBUG=WARN",
				"NCCL_SOCKET_IFNAME=^docker,lo", "NCCL_CROSS_NIC=0", "UCX_TLS=all")
			s.each(func(h *host) { h.env = append(h.env, set) })
		}},
		{name: "half of the GPUs", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(one(s, onIB, onRoCE))
			s.each(func(h *host) {
				h.line[slices.Index(h.line, "--nproc-per-node")+1] = "4"
				h.env = append(h.env, "CUDA_VISIBLE_DEVICES=4,5,6,7")
			})
		}},
		{name: "HCAs that udev renamed, on some", takes: "machine", needs: compiler(), make: func(s *healthy) {
			s.equip(onIB)
			s.some(func(h *host) {
				text := h.read(s.trial, "node.txt")
				for i := range 10 {
					text = strings.ReplaceAll(text, fmt.Sprintf("hca mlx5_%d ", i), fmt.Sprintf("hca ibp%ds0 ", 24+i))
				}
				h.describe(s.trial, text)
			})
		}},
	}
}

// above inserts a card between the real and the virtual devices of a machine.
func above(text, card string) string {
	before, after, found := strings.Cut(text, "\nvirtual\n")
	if !found {
		return text + card
	}
	return before + "\n" + card + "virtual\n" + after
}

// onlyCard gives the host a card and nothing else, no libibverbs either.
func (h *host) onlyCard(s *healthy, card string) {
	m, err := machine.Read([]byte("machine/1\ntitle one card\nhost " + h.Name + "\nkernel 6.8.0-45-generic\n" + card))
	if err != nil {
		s.t.Fatal(err)
	}
	unpack(s.t, m.Roots().Sys, h.file("sys"))
	h.showSys()
}
