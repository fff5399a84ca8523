package rdma

import (
	"cmp"
	"fmt"
	"strings"

	"launch/fabric"
	"launch/fabric/verbs"
	"launch/preflight"
)

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
	return strings.Replace(h.Driver, "_core", "_ib", 1)
}
