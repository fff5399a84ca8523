package rdma

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"launch/fabric"
	"launch/fabric/machine/machinetest"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/fabric/verbs"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
	"launch/preflight/checktest"
)

func ofAll(edit func(h *fabric.HCA, p *fabric.Port)) func(*preflight.Input) {
	return func(in *preflight.Input) {
		for i := range in.Node.HCAs {
			edit(&in.Node.HCAs[i], &in.Node.HCAs[i].Ports[0])
		}
	}
}

func TestRDMAChecks(t *testing.T) {
	const ib, roce = "InfiniBand", "Ethernet"
	down := func(_ *fabric.HCA, p *fabric.Port) { p.State, p.PhysState, p.Rate, p.LID = 1, 2, 10, 0xffff }
	waits := func(_ *fabric.HCA, p *fabric.Port) { p.State, p.PhysState, p.LID, p.SMLID = 2, 5, 0, 0 }
	bare := func(_ *fabric.HCA, p *fabric.Port) { p.GIDs = p.GIDs[:1] }
	empty := func(_ *fabric.HCA, p *fabric.Port) { p.GIDs, p.GIDSlots = nil, 16 }
	barred := func(h *fabric.HCA, p *fabric.Port) {
		h.VF, p.State, p.PhysState, p.LID, p.SMLID = true, 1, 5, 0xffff, 1
	}
	alike := func(h *fabric.HCA, _ *fabric.Port) { h.VF = true }
	slingshot := func(up bool) preflight.Input {
		in := checktest.HGX(func(in *preflight.Input) { in.Node = machinetest.Node(t, "slingshot-mi250x") })
		i := slices.IndexFunc(in.Node.Interfaces, func(i fabric.Interface) bool { return i.Name == "hsn1" })
		in.Node.Interfaces[i].Running = up
		in.Node.Software.HIP = "7.0"
		return in
	}
	lacking := slingshot(true)
	lacking.Node.Software.NCCL.Version, lacking.Node.Software.Plugin.Version = "2.27.5", software.None
	mtu := func(i, n int) func(*preflight.Input) {
		return func(in *preflight.Input) {
			for j := range in.Node.Interfaces {
				if in.Node.Interfaces[j].Name == fmt.Sprintf("eth%d", i+10) {
					in.Node.Interfaces[j].MTU = n
				}
			}
		}
	}
	// What libibverbs reports of a rail: the current and the maximum packet size.
	reports := func(i, now, most int) func(*preflight.Input) {
		return func(in *preflight.Input) {
			in.Node.Verbs.Present = true
			in.Node.Verbs.Devices = append(in.Node.Verbs.Devices, verbs.Device{Name: fmt.Sprintf("mlx5_%d", i), Opens: true,
				Ports: []verbs.Port{{Num: 1, State: 4, ActiveMTU: now, MaxMTU: most}}})
		}
	}
	opens := func(err string, names ...string) func(*preflight.Input) {
		return func(in *preflight.Input) {
			in.Node.Verbs.Present = true
			for _, n := range names {
				in.Node.Verbs.Devices = append(in.Node.Verbs.Devices, verbs.Device{Name: n, Opens: err == "", Err: err})
			}
		}
	}
	cpus := func(in *preflight.Input) {
		in.Node.GPUs.Devices, in.Node.GPUs.Present, in.Node.GPUs.Absent = nil, false, "no driver"
	}
	ucx := func(in *preflight.Input) { in.Node.Software.UCX.Version = "libucp.so.0 1f2e3d4c" }
	noDevice := func(in *preflight.Input) { in.Node.HCAs = nil }
	plainCards := func(in *preflight.Input) {
		for i := range in.Node.PCI {
			in.Node.PCI[i].Class = "0x020000"
		}
	}
	alone := func(in *preflight.Input) { in.Job.Nodes = setting.Value[int]{V: 1} }
	efa := func(plugin string) preflight.Input {
		in := checktest.HGX(func(in *preflight.Input) { in.Node = machinetest.Node(t, "aws-p5-48xlarge") })
		in.Node.Software.NCCL.Version, in.Node.Software.Plugin.Version = "2.27.5", plugin
		in.Node.Software.NCCL.Path = "/env/libnccl.so.2"
		return in
	}
	for _, tt := range []struct {
		name, id string
		in       preflight.Input
		want     string
	}{
		{"healthy", "rdma.link", checktest.Railed(8, ib), "ok 8 x InfiniBand at 400 Gb/s"},
		{"two more than the GPUs", "rdma.link", checktest.Railed(10, ib),
			"ok 10 x InfiniBand at 400 Gb/s for 8 GPUs, so some may have another purpose (a guess)"},
		{"one is down", "rdma.link", checktest.Railed(8, ib, checktest.OfHCA(2, down)),
			"warn mlx5_2 is like the rails of this node and has no link"},
		{"one does not answer", "rdma.link", checktest.Railed(8, ib, checktest.OfHCA(2, func(h *fabric.HCA, p *fabric.Port) {
			h.Board, h.Firmware, *p = "", "", fabric.Port{Num: 1, LinkLayer: ib}
		}),
			func(in *preflight.Input) {
				in.Node.Unknown = []fabric.Unknown{{What: "class/infiniband/mlx5_2/fw_ver", Why: "input/output error"}}
			}), "warn mlx5_2 is like the rails of this node and does not answer: mlx5_2/fw_ver: input/output error"},
		{"no subnet manager", "rdma.link", checktest.Railed(2, ib, ofAll(waits)),
			"warn mlx5_0 port 1, mlx5_1 port 1 wait for a subnet manager"},
		{"Omni-Path", "rdma.link", checktest.Railed(2, ib, ofAll(waits), ofAll(func(h *fabric.HCA, _ *fabric.Port) {
			h.Driver, h.Type = "hfi1", ""
		})), "warn mlx5_0 port 1, mlx5_1 port 1 wait for a fabric manager"},
		{"one is not yet served", "rdma.link", checktest.Railed(8, ib, checktest.OfHCA(2, waits)),
			"warn mlx5_2 port 1 waits for the subnet manager that serves other ports of this node"},
		{"a function that is held down", "rdma.link", checktest.Railed(1, ib, ofAll(barred)),
			"warn mlx5_0 port 1 is a virtual function that is down, although its cable is up"},
		{"one of eight functions is held down", "rdma.link",
			checktest.Railed(8, ib, ofAll(alike), checktest.OfHCA(2, barred)), "warn mlx5_2 port 1 is a virtual function"},
		{"a function without a subnet manager", "rdma.link", checktest.Railed(1, ib, ofAll(barred),
			ofAll(func(_ *fabric.HCA, p *fabric.Port) { p.SMLID = 0 })), "warn mlx5_0 port 1 waits for a subnet manager"},
		{"a port of a whole card, down", "rdma.link", checktest.Railed(1, ib, ofAll(barred),
			ofAll(func(h *fabric.HCA, _ *fabric.Port) { h.VF = false })), "warn mlx5_0 port 1 waits for a subnet manager"},
		{"a link of Slingshot has no carrier", "rdma.link", slingshot(false),
			"warn hsn1 is a link of this node's fabric and has no carrier"},
		{"Slingshot", "rdma.link", slingshot(true), "ok 4 x Slingshot (Cassini)"},
		{"Slingshot without its plugin", "rdma.plugin", lacking, "warn the fabric is slingshot, and NCCL finds no network " +
			"plugin"},
		{"all cables are out", "rdma.link", checktest.Railed(2, ib, ofAll(down)),
			"skip no RDMA port here that a job could use"},
		{"no device", "rdma.link", checktest.HGX(), "skip no RDMA device"},
		{"a job on CPUs", "rdma.link", checktest.Railed(2, ib, ofAll(waits), cpus), "skip no sign that the job uses RDMA"},
		{"a job on CPUs whose torch has NCCL, which is set", "rdma.link",
			checktest.Railed(2, ib, ofAll(waits), cpus, func(in *preflight.Input) {
				in.Node.Software.NCCL.Version = "2.27.5"
				in.Job.Decided = slices.Grow(in.Job.Decided, 1)[:1]
				in.Job.Decided[0].Name, in.Job.Decided[0].Value = "NCCL_DEBUG", "INFO"
			}), "skip no sign that the job uses RDMA"},
		{"GPUs without a driver", "rdma.link",
			checktest.Railed(2, ib, ofAll(waits), cpus, func(in *preflight.Input) {
				in.Node.PCI = append(in.Node.PCI,
					fabric.PCI{Addr: "0000:f0:00.0", Vendor: "0x10de", Device: "0x20b2", Class: "0x030200", Driver: "nouveau"})
			}), "warn wait for a subnet manager"},
		{"a job on CPUs with UCX", "rdma.link", checktest.Railed(2, ib, ofAll(waits), cpus, ucx),
			"warn wait for a subnet manager"},
		{"a job on CPUs by mpirun", "rdma.link", checktest.Railed(2, ib, ofAll(waits), cpus,
			func(in *preflight.Input) { in.Job.Line.Kind = launcher.Mpirun }), "warn wait for"},
		{"a job on one node", "rdma.link", checktest.Railed(8, ib, checktest.OfHCA(2, down), alone), "skip one node"},
		{"a check of this node without a command", "rdma.link",
			checktest.Railed(8, ib, checktest.OfHCA(2, down), alone, cpus,
				func(in *preflight.Input) { in.Job.Line.Argv = nil }), "warn mlx5_2"},

		{"healthy", "rdma.rate", checktest.Railed(8, ib), "ok 8 x"},
		{"one runs slower", "rdma.rate", checktest.Railed(8, roce,
			checktest.OfHCA(2, func(_ *fabric.HCA, p *fabric.Port) { p.Rate, p.Lanes = 100, 1 }), sameSubnet),
			"warn mlx5_2 runs at 100 Gb/s (1 lane), mlx5_0 of the same kind at 400 (4 lanes)"},
		{"a slower card of another kind", "rdma.rate",
			checktest.Railed(8, ib, checktest.OfHCA(2, func(h *fabric.HCA, p *fabric.Port) {
				p.Rate, h.Type, h.Board = 100,
					"MT4125", "MT_9"
			})), "ok 7 x"},
		{"one has fewer lanes to the bus", "rdma.rate",
			checktest.Railed(8, ib, func(in *preflight.Input) { in.Node.PCI[2].Lanes = 8 }), "warn mlx5_2 has 8 PCIe lanes"},
		{"the only one has fewer lanes than its port needs", "rdma.rate",
			checktest.Railed(1, ib, func(in *preflight.Input) { in.Node.PCI[0].Lanes = 4 }), "warn mlx5_0 has 4 of its 16 " +
				"PCIe lanes, which carry 128 Gb/s, and its port has 400"},
		{"the same in a virtual machine", "rdma.rate",
			checktest.Railed(1, ib, func(in *preflight.Input) { in.Node.PCI[0].Lanes, in.Node.Cloud.Virtual = 4, true }),
			"ok 1 x"},
		{"all have fewer lanes and enough for their ports", "rdma.rate",
			checktest.Railed(2, ib, ofAll(func(_ *fabric.HCA, p *fabric.Port) { p.Rate = 200 }), func(in *preflight.Input) {
				in.Node.PCI[0].Lanes, in.Node.PCI[1].Lanes = 8, 8
			}), "ok 2 x"},
		{"all have fewer lanes than they could", "rdma.rate", checktest.Railed(8, ib, func(in *preflight.Input) {
			for i := range in.Node.PCI {
				in.Node.PCI[i].Lanes = 8
			}
		}), "warn mlx5_0 has 8 of its 16 PCIe lanes, which carry 256 Gb/s, and its port has 400"},

		{"one port at the lowest rate", "rdma.rate", checktest.Railed(1, ib, checktest.OfHCA(0, atRate(10, 4, "MT4099"))),
			"warn mlx5_0 runs at 10 Gb/s (4 lanes), and its card carries up to 56"},
		{"one port with one lane", "rdma.rate", checktest.Railed(1, ib, checktest.OfHCA(0, atRate(25, 1, "MT4119"))),
			"warn mlx5_0 runs at 25 Gb/s (1 lane), and its card carries up to 100"},
		{"a card on an older switch", "rdma.rate", checktest.Railed(1, ib, checktest.OfHCA(0, atRate(100, 4, "MT4129"))),
			"ok"},
		{"half a port of a split cable", "rdma.rate", checktest.Railed(1, ib, checktest.OfHCA(0, atRate(200, 2, "MT4129"))),
			"ok"},
		{"a slow switch for Ethernet", "rdma.rate", checktest.Railed(1, roce, checktest.OfHCA(0, atRate(10, 1, "MT4099"))),
			"ok"},
		{"healthy", "rdma.gid", checktest.Railed(8, roce), "ok 8 RoCE rails with an address"},
		{"one has no address", "rdma.gid", checktest.Railed(8, roce, checktest.OfHCA(2, bare)),
			"warn mlx5_2: its GID table lacks the address of its interface"},
		{"DHCP failed on one", "rdma.gid", checktest.Railed(8, roce, checktest.OfHCA(2, func(_ *fabric.HCA, p *fabric.Port) {
			p.GIDs[1].Addr = netip.MustParseAddr("169.254.3.4")
		}), func(in *preflight.Input) {
			for i := range in.Node.Interfaces {
				if in.Node.Interfaces[i].Name == "eth12" {
					in.Node.Interfaces[i].Addrs = []netip.Prefix{netip.MustParsePrefix("169.254.3.4/16")}
				}
			}
		}), "warn 1 card without an IP address that a router forwards, next to 7 rails with one: mlx5_2"},
		{"no table could be read", "rdma.gid", checktest.Railed(2, roce,
			ofAll(func(_ *fabric.HCA, p *fabric.Port) { p.GIDs = nil })),
			"skip the GID tables of the RoCE rails could not be read: mlx5_0, mlx5_1"},
		{"one table is empty", "rdma.gid", checktest.Railed(8, roce, checktest.OfHCA(2, empty)),
			"warn 1 card without an IP address that a router forwards, next to 7 rails with one: mlx5_2"},
		{"all tables are empty", "rdma.gid", checktest.Railed(2, roce, ofAll(empty)),
			"warn no RoCE port has an address that a router forwards: mlx5_0, mlx5_1"},
		{"all tables are empty, a job on CPUs", "rdma.gid", checktest.Railed(2, roce, ofAll(empty), cpus),
			"skip no sign that the job uses RDMA"},
		{"all cables are out", "rdma.gid", checktest.Railed(2, roce, ofAll(down)),
			"skip no RDMA port here that a job could use"},
		{"InfiniBand", "rdma.gid", checktest.Railed(8, ib), "skip no RoCE rail"},
		{"RoCE v1 alone", "rdma.gid", checktest.Railed(2, roce, ofAll(func(_ *fabric.HCA, p *fabric.Port) {
			for i := range p.GIDs {
				p.GIDs[i].Type = "IB/RoCE v1"
			}
		})), "ok 2 RoCE rails"},

		{"healthy", "rdma.mtu", checktest.Railed(8, roce), "ok packets of 4096"},
		{"all have 1500", "rdma.mtu", checktest.Railed(2, roce, mtu(0, 1500), mtu(1, 1500)),
			"ok packets of 1024 bytes; an MTU of 4200 or more, here and on the switches, allows 4096"},
		{"one has 1500", "rdma.mtu", checktest.Railed(8, roce, mtu(5, 1500)),
			"warn 1 of 8 rails send smaller packets than the others' 4096 bytes: mlx5_5 (eth15, MTU 1500)"},
		{"another MTU, the same packets", "rdma.mtu", checktest.Railed(8, roce, mtu(5, 4200)), "ok packets of 4096"},
		{"InfiniBand", "rdma.mtu", checktest.Railed(8, ib), "skip the packet size is not known"},
		{"InfiniBand, as libibverbs reports", "rdma.mtu",
			checktest.Railed(2, ib, reports(0, 4096, 4096), reports(1, 4096, 4096)),
			"ok packets of 4096"},
		{"InfiniBand of two partitions", "rdma.mtu", checktest.Railed(2, ib, reports(0, 4096, 4096), reports(1, 2048, 4096)),
			"warn 1 of 2 rails send smaller packets than the others' 4096 bytes: mlx5_1 (2048)"},
		{"a card that has not followed its interface", "rdma.mtu",
			checktest.Railed(2, roce, reports(0, 4096, 4096),
				reports(1, 1024, 4096)), "warn 1 of 2 rails send smaller packets than they could: mlx5_1 (1024, although MTU " +
				"9000 " +
				"of eth11 has room for 4096)"},
		{"as much as the cards can", "rdma.mtu", checktest.Railed(2, roce, reports(0, 2048, 2048), reports(1, 2048, 2048)),
			"ok packets of 2048"},

		{"healthy", "rdma.firmware", checktest.Railed(8, ib), "ok one firmware"},
		{"one was left out", "rdma.firmware", checktest.Railed(8, ib,
			checktest.OfHCA(2, func(h *fabric.HCA, _ *fabric.Port) { h.Firmware = "28.36.1010" })), "warn 28.36.1010 on mlx5_2"},
		{"another kind of card", "rdma.firmware", checktest.Railed(8, ib,
			checktest.OfHCA(2, func(h *fabric.HCA, _ *fabric.Port) { h.Firmware, h.Board = "22.1.1", "MT_9" })),
			"ok one firmware"},

		{"cards without a device", "rdma.open", checktest.Railed(8, ib, noDevice),
			"warn 8 InfiniBand or EFA cards are here, and no RDMA device"},
		{"the same on CPUs", "rdma.open", checktest.Railed(8, ib, noDevice, cpus), "skip no RDMA device"},
		{"the same on one node", "rdma.open", checktest.Railed(8, ib, noDevice, alone), "skip no RDMA device"},
		{"the same, and TCP is asked for", "rdma.open", checktest.Railed(8, ib, noDevice, func(in *preflight.Input) {
			in.Job.Decided = slices.Grow(in.Job.Decided, 1)[:1]
			in.Job.Decided[0].Name, in.Job.Decided[0].Value = "NCCL_NET", "Socket"
		}), "skip no RDMA device"},
		{"an Ethernet card for each GPU", "rdma.open", checktest.Railed(8, ib, noDevice, plainCards),
			"warn 8 cards are here, and no RDMA device"},
		{"an Ethernet card of the same maker", "rdma.open", checktest.Railed(1, ib, noDevice, plainCards),
			"skip no RDMA device"},
		{"functions that are guests'", "rdma.open", checktest.Railed(8, ib, noDevice, func(in *preflight.Input) {
			for i := range in.Node.PCI {
				in.Node.PCI[i].VF = true
			}
		}), "skip no RDMA device"},
		{"not asked", "rdma.open", checktest.Railed(2, ib), "skip could not tell"},
		{"opens", "rdma.open", checktest.Railed(2, ib, opens("", "mlx5_0", "mlx5_1")), "ok mlx5_0 opens"},
		{"one of its host's", "rdma.open", checktest.Railed(2, ib, opens("", "mlx5_1"), opens("Permission denied", "mlx5_0"),
			func(in *preflight.Input) {
				in.Node.Container.Kind, in.Node.Verbs.Devices[1].Cause = "docker", verbs.Permission
			}), "ok mlx5_1 opens"},
		{"none opens", "rdma.open", checktest.Railed(2, ib, opens("Permission denied", "mlx5_0", "mlx5_1")),
			"warn 2 RDMA devices are here, but this process can open none"},
		{"no driver for them", "rdma.open", checktest.Railed(2, ib, opens("", "other0")), "warn can open none"},
		{"no library", "rdma.open", checktest.Railed(2, ib,
			func(in *preflight.Input) { in.Node.Verbs.Err = verbs.ErrNoLibrary.Error() }), "warn libibverbs is not installed"},
		{"no stack", "rdma.open", checktest.Railed(2, ib,
			func(in *preflight.Input) { in.Node.Verbs.Err = verbs.ErrNoStack.Error() }),
			"warn 2 RDMA devices are here, but the kernel has no RDMA stack"},
		{"no library, on CPUs", "rdma.open", checktest.Railed(2, ib, cpus,
			func(in *preflight.Input) { in.Node.Verbs.Err = verbs.ErrNoLibrary.Error() }), "skip no sign"},
		{"all down", "rdma.open", checktest.Railed(2, ib, ofAll(down), opens("Permission denied", "mlx5_0")),
			"skip no active"},

		{"EFA and no plugin", "rdma.plugin", efa(software.None), "warn the fabric is efa, and NCCL finds no network plugin"},
		{"EFA and its plugin", "rdma.plugin", efa("aws-ofi-nccl 1.16.0"), "ok aws-ofi-nccl 1.16.0"},
		{"EFA, and not known", "rdma.plugin", efa(""), "skip could not tell"},
		{"InfiniBand", "rdma.plugin", checktest.Railed(2, ib), "skip needs no plugin"},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), tt.id, tt.in),
				tt.want)
		})
	}
}

// atRate is a port of a card of one type.
func atRate(rate float64, lanes int, card string) func(*fabric.HCA, *fabric.Port) {
	return func(h *fabric.HCA, p *fabric.Port) {
		h.Type, p.Rate, p.Lanes = card, rate, lanes
	}
}

// sameSubnet leaves only what distinguishes a slow rail from a card for another purpose.
func sameSubnet(in *preflight.Input) {
	for i := range in.Node.HCAs {
		in.Node.HCAs[i].Ports[0].SMLID = 0
	}
}

// counting is a link whose counters move by so much between two readings.
func counting(hca string, by fabric.LinkErrors) func(*preflight.Input) {
	return func(in *preflight.Input) {
		read := map[string]uint64{}
		in.LinkErrors = func(name string, _ int) (fabric.LinkErrors, error) {
			n := read[name]
			if read[name]++; name != hca {
				return fabric.LinkErrors{Downed: 255, Symbols: 65535}, nil
			}
			return fabric.LinkErrors{Downed: 3 + n*by.Downed, Symbols: 100 + n*by.Symbols, Packets: n * by.Packets}, nil
		}
	}
}

func TestCountersThatGrow(t *testing.T) {
	refused := func(in *preflight.Input) {
		in.LinkErrors = func(string, int) (fabric.LinkErrors, error) { return fabric.LinkErrors{}, syscall.EINVAL }
	}
	for name, tt := range map[string]struct {
		edit func(*preflight.Input)
		want string
	}{
		"not to be read": {func(*preflight.Input) {}, "skip do not change"},
		"nothing moves":  {counting("", fabric.LinkErrors{}), "ok no error on 8 rails within 0.5 s"},
		"the link was lost": {counting("mlx5_5", fabric.LinkErrors{Downed: 1}),
			"warn the link of mlx5_5 is bad now: 1 times lost"},
		"a few symbols": {counting("mlx5_5", fabric.LinkErrors{Symbols: 5}), "ok no error"},
		"many symbols": {counting("mlx5_5", fabric.LinkErrors{Symbols: 6}),
			"warn 6 symbol errors within 0.5 s"},
		"packets":                     {counting("mlx5_5", fabric.LinkErrors{Packets: 900}), "warn 900 damaged packets"},
		"another process resets them": {counting("mlx5_5", fabric.LinkErrors{Symbols: 1<<64 - 50}), "ok no error"},
		"the firmware refuses":        {refused, "skip could not tell: invalid argument"},
		"a limit of the user's": {func(in *preflight.Input) {
			counting("mlx5_5", fabric.LinkErrors{Symbols: 6})(in)
			in.Thresholds = map[string]float64{"rdma.errors": 100}
		}, "ok no error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.errors", checktest.Railed(8, "InfiniBand", tt.edit)),
					tt.want)
			})
		})
	}
}

func TestActiveMTU(t *testing.T) {
	for netdev, want := range map[int]int{9216: 4096, 9000: 4096, 4200: 4096, 4191: 2048, 2200: 2048, 1500: 1024,
		1280: 1024, 1100: 512, 576: 256, 300: 0, 0: 0} {
		if got := rail.RoCEMTU(netdev); got != want {
			t.Errorf("activeMTU(%d) = %d, want %d", netdev, got, want)
		}
	}
}

// What is to be typed for an MTU names the interface of the rail.
func TestTheLineForAnMTUNamesTheInterface(t *testing.T) {
	in := checktest.Railed(3, "Ethernet")
	for i, f := range in.Node.Interfaces {
		if f.Name == "eth11" {
			in.Node.Interfaces[i].MTU = 1500
		}
	}
	if got := rdmaMTU(t.Context(), in).Fix; !strings.HasPrefix(got, "ip link set dev eth11 mtu 9000\n") {
		t.Errorf("a rail: %q", got)
	}
}
