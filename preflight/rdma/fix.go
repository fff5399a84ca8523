package rdma

import (
	"cmp"
	"fmt"
	"strings"

	"launch/fabric"
	"launch/fabric/verbs"
	"launch/preflight"
)

// mend is the one thing to do where verbs fail on a device, by the cause that
// fabric/verbs names (docs/verbs.md): of one that does not open, and of a port
// that carries nothing.
func fixFor(in preflight.Input, c verbs.Cause, h fabric.HCA) string {
	switch c {
	case verbs.NoLibrary:
		return "apt-get install libibverbs1 ibverbs-providers (dnf install libibverbs), in the image of the job"
	case verbs.NoStack:
		return "on the machine: modprobe -a ib_uverbs " + moduleOf(h) + "; rdma link shows the devices"
	case verbs.NoNode, verbs.Permission:
		return in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "give the container the device by a resource of the RDMA device plugin; ls -l /dev/infiniband shows which it has",
			preflight.InContainer:  "docker run --device /dev/infiniband …; ls -l /dev/infiniband shows which it has",
			preflight.InShell:      "modprobe ib_uverbs; ls -l /dev/infiniband: rdma-core's udev rules make the files and let everybody use them (mode 0666)",
		})
	case verbs.NotListed:
		return in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "ibverbs-providers in the image, and the device by a resource of the RDMA device plugin; ls -l /dev/infiniband shows which the container has",
			preflight.InContainer:  "ibverbs-providers in the image, and docker run --device /dev/infiniband …",
			preflight.InShell:      "apt-get install ibverbs-providers (dnf install libibverbs); ls -l /dev/infiniband shows the devices",
		})
	case verbs.Memlock:
		return in.MoreMemlock()
	case verbs.Resources:
		return fmt.Sprintf("rdma resource show; rdma resource show qp link %s: end what still has its queues and memory", h.Name)
	case verbs.Provider:
		return "bring library and driver to one release: rdma-core of the distribution with its own kernel, or MLNX_OFED and DOCA with theirs in the image, too"
	case verbs.NotHere:
		return in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "hostNetwork: true in the pod, or the rail's interface by a network attachment (Multus)",
			preflight.InContainer:  "docker run --network host …",
			preflight.InShell:      "start the job in the network namespace of the rail's interface; ip netns identify $$ names this one's",
		})
	case verbs.PortDown, verbs.NoLID:
		return fmt.Sprintf("ibstat %s; look at its cable, at the switch's port and, on InfiniBand, at the subnet manager", h.Name)
	case verbs.NoPKey:
		return fmt.Sprintf("grep . /sys/class/infiniband/%s/ports/*/pkeys/* shows the partition keys; NCCL_IB_PKEY is an index among them, 0 by default", h.Name)
	case verbs.Unreachable, verbs.Lost, verbs.Rejected, verbs.NoGID:
		return fmt.Sprintf("dmesg | grep %s; launch bench --server there and launch bench --client HOST here try it with another node", cmp.Or(h.PCI, h.Name))
	case verbs.Corrupt:
		return fmt.Sprintf("take this node out: dmesg | grep -i -e %s -e aer -e mce; have its card, memory and PCIe slot changed", cmp.Or(h.PCI, h.Name))
	case verbs.Faulty, verbs.Gone, verbs.Stuck, verbs.Crashed:
		reset := "its maker's tool"
		if strings.HasPrefix(h.Driver, "mlx") && h.PCI != "" {
			reset = "mlxfwreset -d " + h.PCI + " r"
		}
		return fmt.Sprintf("dmesg | grep -e %s -e %s; reset the card (%s), or take this node out and power it off and on", cmp.Or(h.Driver, "rdma"), cmp.Or(h.PCI, h.Name), reset)
	}
	return "dmesg | tail; ibv_devinfo -d " + h.Name
}

// moduleOf is the kernel module that makes the RDMA devices of a card.
func moduleOf(h fabric.HCA) string {
	if h.Driver == "" {
		return "mlx5_ib (another maker's: the module of that name)"
	}
	return strings.Replace(h.Driver, "_core", "_ib", 1)
}
