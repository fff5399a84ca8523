// Package rdma holds the checks of this node's InfiniBand, RoCE and EFA ports, and of the plugin that NCCL needs.
package rdma

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

// Checks returns the checks of this package, in the order of the report.
func Checks() []preflight.Check { return slices.Concat(portChecks(), likenessChecks()) }

// portChecks look at each port.
func portChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "rdma.link", Title: "the link of every rail of the training fabric is up",
		Doc: "GPUs whose rail is down share another one. Where a node has fewer rails than the others, NCCL is slower, " +
			"or hangs.",
		Unless: noCards, Run: rdmaLink,
	}, {
		ID: "rdma.open", Title: "this process may use the RDMA cards of this node",
		Doc: "sysfs shows devices that a container does not have, devices without a library, and cards without a device. " +
			"NCCL then takes TCP and reports it only in its log.",
		Run: rdmaOpen,
	}, {
		ID: "rdma.loop", Limit: loopBudget + 500*time.Millisecond,
		Title: "each RDMA port that the job would use carries data to itself",
		Doc: "A port may be up and still refuse every connection, lock no memory or change the data. NCCL finds this in " +
			"its first collective. The check writes and sends two short messages and compares each byte; nothing " +
			"leaves the card.",
		Run: rdmaLoop,
	}, {
		ID: "rdma.efa", Limit: efaBudget + 500*time.Millisecond,
		Title: "libfabric finds each EFA, and it carries data to itself",
		Doc: "NCCL's plugin uses EFA by libfabric, which passes over a device that it cannot open. The check asks " +
			"fi_info and fi_pingpong, which come with libfabric, and compares each byte; nothing leaves the node.",
		Unless: noRDMA, Run: efaLoop,
	}, {
		ID: "rdma.rate", Title: "the rails of one kind of card run at one rate, with all lanes",
		Doc: "A bad cable or slot lowers the rate or the number of lanes of a port, or the generation of its PCIe link. " +
			"Every collective waits for it.",
		Unless: noLinks, Run: rdmaRate,
	}, {
		ID: "rdma.errors", Limit: preflight.Network, Title: "no rail counts link errors during the check",
		Doc:    "A dirty or loose cable loses its link or damages packets, which are repeated until a transfer times out.",
		Unless: noRails, Run: rdmaErrors,
	}, {
		ID: "rdma.gid", Title: "each RoCE rail has an address",
		Doc: "A RoCE connection needs a GID, which comes from an IP address of the port's interface. Without one the " +
			"first transfer fails (error 12).",
		Unless: noRDMA, Run: preflight.One(rdmaGID),
	}}
}

// likenessChecks compare the ports with each other, and look at what NCCL needs for them.
func likenessChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "rdma.addresses", Title: "no two rails have one address, and each fits the plan of the others",
		Doc: "Two ports with one IP address, one LID or one GUID take each other's packets. A rail with an address of " +
			"another rail's network, without a network, on another kind of interface, or in another InfiniBand subnet does " +
			"not reach its peers. Rails in one network need a loose rp_filter, or rules by source.",
		Unless: noRails, Run: rdmaAddresses,
	}, {
		ID: "rdma.mtu", Title: "the rails send packets of one size, as large as their interfaces allow",
		Doc: "A RoCE port sends packets of the largest size that fits into its interface's MTU, an InfiniBand port of the " +
			"size that its subnet manager sets. A rail with smaller packets is slower. libibverbs reports the size in use.",
		Unless: noRails, Run: preflight.One(rdmaMTU),
	}, {
		ID: "rdma.qos", Title: "the rails of one kind of card take part in flow and congestion control alike",
		Doc: "A RoCE port that marks its packets otherwise than the others, without their flow control (PFC) or congestion " +
			"control (DCQCN), loses packets under load. The files of NVIDIA's own driver show these settings.",
		Unless: noRails, Run: rdmaQoS,
	}, {
		ID: "rdma.firmware", Title: "cards of one kind have one firmware",
		Doc:    "A card that missed an upgrade behaves differently from the others.",
		Unless: noRails, Run: preflight.One(rdmaFirmware),
	}, {
		ID: "rdma.plugin", Title: "NCCL has the plugin that this fabric needs",
		Doc: "EFA and Slingshot need a plugin and libfabric. Without them NCCL takes TCP and reports it only in its log.",
		Run: preflight.One(rdmaPlugin),
	}}
}

// ports returns the RDMA ports of this node's rails.
func ports(in preflight.Input) []rail.Port { return rail.PortsOf(in.Node, rail.Of(in.Node, in.Addr)) }

// noRails returns why a check of the rails does not apply, or "".
func noRails(in preflight.Input) string {
	if why := noRDMA(in); why != "" || len(ports(in)) > 0 {
		return why
	}
	return "no RDMA port here that a job could use"
}

// noRDMA returns why the RDMA devices of this node do not matter to the job, or "". A job on CPUs
// uses TCP, whatever else the machine has: there must be GPUs, UCX or an MPI. NCCL alone is no
// sign, since each torch has it and site profiles set its variables on all machines; it counts with
// a card that it could run on. "launch check" without a command looks at all devices.
func noRDMA(in preflight.Input) string {
	if len(in.Node.HCAs) == 0 {
		return "no RDMA device here"
	}
	return unused(in)
}

// noCards is noRDMA on a node whose cards may be Slingshot's, which show no RDMA device.
func noCards(in preflight.Input) string {
	cassini := func(p fabric.PCI) bool { return p.Vendor == fabric.VendorCray && p.Device == rail.Cassini }
	if len(in.Node.HCAs) == 0 && slices.ContainsFunc(in.Node.PCI, cassini) {
		return unused(in)
	}
	return noRDMA(in)
}

// unused returns why the job uses no RDMA, whatever devices there are, or "".
func unused(in preflight.Input) string {
	s, line := in.Node.Software, in.Job.Line
	ucx, nccl := s.UCX.Version != "", s.NCCL.Version != ""
	for _, d := range in.Job.Decided {
		ucx, nccl = ucx || strings.HasPrefix(d.Name, "UCX_"), nccl || strings.HasPrefix(d.Name, "NCCL_")
	}
	nccl = nccl && len(in.Node.Cards) > 0
	nvml := in.Node.GPUs
	unasked := !nvml.Present && nvml.Absent == "" && nvml.Err == ""
	bare := nvml.Absent != "" && len(in.Node.WithoutDriver()) > 0
	gpu := len(nvml.Devices) > 0 || bare || nvml.Err != "" || s.HIP != "" || unasked && len(in.Node.Cards) > 0 ||
		len(preflight.Accelerators(in)) > 0
	switch {
	case line.Kind == launcher.Mpirun || len(line.Argv) == 0:
		return ""
	case !in.Job.Several():
		return "a job on one node uses no RDMA"
	case !gpu && !nccl && !ucx:
		return "no sign that the job uses RDMA: no GPU, no UCX"
	}
	return ""
}

// alike reports whether two cards are of one make.
func alike(a, b fabric.HCA) bool {
	return a.Type == b.Type && a.Board == b.Board && a.VF == b.VF && a.Driver == b.Driver &&
		(a.Type != "" || a.Board != "")
}

func rdmaFirmware(_ context.Context, in preflight.Input) finding.Finding {
	ports := ports(in)
	for _, p := range ports {
		versions := map[string][]string{}
		var order []string
		for _, o := range ports {
			if alike(p.Card, o.Card) && o.Card.Firmware != "" {
				if versions[o.Card.Firmware] == nil {
					order = append(order, o.Card.Firmware)
				}
				versions[o.Card.Firmware] = append(versions[o.Card.Firmware], o.Name)
			}
		}
		if len(order) < 2 {
			continue
		}
		slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(len(versions[b]), len(versions[a])) })
		f := finding.Warnf("")
		var parts []string
		for _, v := range order {
			parts = append(parts, fmt.Sprintf("%s on %s", v, finding.Some(versions[v])))
			f = f.See("/sys/class/infiniband/"+versions[v][0]+"/fw_ver", "%s", v)
		}
		f.What = "cards of one kind (" + cmp.Or(p.Card.Board, p.Card.Type) + ") have different firmware: " +
			strings.Join(parts, "; ")
		return f.Breaking("rails may differ in their features and in their faults").
			Do("mlxfwmanager   # or the vendor's tool; between jobs, bring all cards to one version")
	}
	return finding.Passf("one firmware for each kind of card")
}

// rdmaPlugin applies only where NCCL itself was found: otherwise there is no sign that the job uses it.
func rdmaPlugin(_ context.Context, in preflight.Input) finding.Finding {
	f, s := rail.Of(in.Node, in.Addr), in.Node.Software
	switch {
	case f.Kind != rail.EFA && f.Kind != rail.Slingshot:
		return finding.Skipf("this fabric needs no plugin")
	case s.NCCL.Version == "":
		return finding.Skipf("no NCCL was found that the command would load")
	case s.Plugin.Version == software.None:
		fix := "install aws-ofi-nccl (with the EFA installer), and add its lib directory to LD_LIBRARY_PATH: " +
			"/opt/amazon/ofi-nccl/lib or /opt/aws-ofi-nccl/lib"
		if f.Kind == rail.Slingshot {
			fix = "install aws-ofi-nccl, built for the libfabric of HPE's Slingshot software (provider cxi), and add its lib " +
				"directory to LD_LIBRARY_PATH\nmodule avail aws-ofi-nccl   # many sites have it; fi_info -p cxi shows the links"
		}
		return finding.Warnf("the fabric is %s, and NCCL finds no network plugin (libnccl-net.so)", f.Kind).
			See("libnccl-net.so", "not found").See("NCCL", "%s %s", s.NCCL.Version, s.NCCL.Path).
			Breaking("NCCL takes TCP, at a fraction of the rate, and reports it only with NCCL_DEBUG=INFO").
			Do("%s", fix)
	case s.Plugin.Version == "":
		return finding.Skipf("could not tell which plugin NCCL would load")
	}
	if f, bad := refusesEFA(s, f.Kind); bad {
		return f
	}
	return finding.Passf("%s", s.Plugin.Version)
}

// fixFor returns the fix where verbs fail on a device, by the cause that fabric/verbs names
// (docs/verbs.md): for a device that does not open, and for a port that carries no data.
func fixFor(in preflight.Input, c verbs.Cause, h fabric.HCA) string {
	switch c {
	case verbs.NoLibrary:
		return "apt-get install libibverbs1 ibverbs-providers   # or dnf install libibverbs; in the image of the job"
	case verbs.NoStack:
		return "modprobe -a ib_uverbs " + moduleOf(h) + "   # on the machine itself; rdma link shows the devices"
	case verbs.NoNode, verbs.Permission:
		return in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "give the container a resource of the RDMA device plugin\n" +
				"ls -l /dev/infiniband   # shows the devices that it has",
			preflight.InContainer: "docker run --device /dev/infiniband …\nls -l /dev/infiniband   # shows the devices " +
				"that it has",
			preflight.InShell: "modprobe ib_uverbs; ls -l /dev/infiniband   " +
				"# rdma-core's udev rules make the files, usable by everyone (mode 0666)",
		})
	case verbs.NotListed:
		return in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "add ibverbs-providers to the image, and a resource of the RDMA device plugin to the " +
				"container\n" +
				"ls -l /dev/infiniband   # shows the devices that the container has",
			preflight.InContainer: "add ibverbs-providers to the image, then docker run --device /dev/infiniband …",
			preflight.InShell: "apt-get install ibverbs-providers   # or dnf install libibverbs; " +
				"ls -l /dev/infiniband shows the devices",
		})
	case verbs.Memlock:
		return in.MoreMemlock()
	case verbs.Resources:
		return fmt.Sprintf("rdma resource show; rdma resource show qp link %s   # then end what holds queues and memory",
			h.Name)
	case verbs.Provider:
		return "bring library and driver to one release: rdma-core of the distribution with its own kernel, " +
			"or MLNX_OFED or DOCA with their libraries, in the image, too"
	case verbs.NotHere:
		return in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "hostNetwork: true in the pod\nor attach the rail's interface to its network (Multus)",
			preflight.InContainer:  "docker run --network host …",
			preflight.InShell: "start the job in the network namespace of the rail's interface\n" +
				"ip netns identify $$   # names this one",
		})
	}
	return cardFix(c, h)
}

// cardFix returns the fix for a fault of a card, its port or its cable.
func cardFix(c verbs.Cause, h fabric.HCA) string {
	switch c {
	case verbs.PortDown, verbs.NoLID:
		return fmt.Sprintf("ibstat %s   # inspect its cable, the switch's port and, on InfiniBand, the subnet manager",
			h.Name)
	case verbs.NoPKey:
		return fmt.Sprintf("grep . /sys/class/infiniband/%s/ports/*/pkeys/*   "+
			"# the partition keys; NCCL_IB_PKEY is an index of them, 0 by default", h.Name)
	case verbs.Unreachable, verbs.Lost, verbs.Rejected, verbs.NoGID:
		return fmt.Sprintf("dmesg | grep %s\nwith another node: launch bench --server there, launch bench --client HOST here",
			cmp.Or(h.PCI, h.Name))
	case verbs.Corrupt:
		return fmt.Sprintf("take this node out: dmesg | grep -i -e %s -e aer -e mce\nreplace its card, memory or PCIe slot",
			cmp.Or(h.PCI, h.Name))
	case verbs.Faulty, verbs.Gone, verbs.Stuck, verbs.Crashed:
		reset := "the vendor's tool"
		if strings.HasPrefix(h.Driver, "mlx") && h.PCI != "" {
			reset = "mlxfwreset -d " + h.PCI + " r"
		}
		return fmt.Sprintf("dmesg | grep -e %s -e %s\nreset the card (%s), or take this node out and power it off and on",
			cmp.Or(h.Driver, "rdma"), cmp.Or(h.PCI, h.Name), reset)
	}
	return "dmesg | tail; ibv_devinfo -d " + h.Name
}

// moduleOf returns the kernel module that makes the RDMA devices of a card.
func moduleOf(h fabric.HCA) string {
	if h.Driver == "" {
		return "mlx5_ib (another vendor's: the module of that name)"
	}
	return cmp.Or(fabric.PCI{Driver: h.Driver}.RDMAModule(), h.Driver)
}
