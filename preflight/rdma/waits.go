package rdma

import (
	"cmp"
	"fmt"
	"slices"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// barred finds a virtual function that its host or the subnet manager holds down: the cable is up, and it has no GUID
// or the manager is known.
func barred(n fabric.Node, h fabric.HCA, nic rail.NIC) (finding.Finding, bool) {
	i := slices.IndexFunc(h.Ports, func(p fabric.Port) bool { return rail.Barred(n, h, p) })
	if i < 0 || slices.ContainsFunc(h.Ports, fabric.Port.Active) {
		return finding.Finding{}, false
	}
	p, own := h.Ports[i], cmp.Or(h.PCI, "FUNCTION")
	fn, _ := n.Function(h.PCI)
	const guid = "ip link set PF vf N node_guid GUID; ip link set PF vf N port_guid GUID   # on the machine itself"
	const policy = "ip link set PF vf N state auto   # or echo Follow > /sys/class/infiniband/PF/device/sriov/N/policy"
	if rail.NoGUID(n, h, p) {
		return finding.Warnf("%s port %d is a virtual function without a GUID, so no subnet manager enables it", h.Name,
			p.Num).
			See("/sys/class/infiniband/"+h.Name+"/node_guid", "zero").
			See("/sys/class/infiniband/"+h.Name, "%s", nic.Why).
			Breaking(oneLess).
			Do(guid+"; PF is %s\n"+policy+"\ncd /sys/bus/pci/drivers/%[3]s; echo %[2]s > unbind; echo %[2]s > bind   "+
				"# the function reads its GUID again\n"+
				"in Kubernetes, ib-kubernetes or the SR-IOV operator sets them",
				cmp.Or(fn.Physfn, "its physical function"), own, cmp.Or(h.Driver, "mlx5_core")), true
	}
	f := finding.Warnf("%s port %d is a virtual function that is down, although its cable is up", h.Name, p.Num).
		See("/sys/class/infiniband/"+h.Name, "%s", nic.Why)
	if p.SMLID > 0 && p.SMLID < noLID {
		f = f.See("sm_lid of "+h.Name, "%#x: the subnet manager is known", p.SMLID)
	}
	return f.Breaking("the port carries no traffic; NCCL takes another network").
		Do(guid + ": a GUID that is not zero\n" + policy + "\n" +
			"virt_enabled 2   # in opensm.conf, or enable virtualization in UFM"), true
}

const noLID = 0xffff

// manager is a program that configures the ports of a fabric, and the commands around it.
type manager struct{ name, start, show, again string }

func managers() []manager {
	return []manager{
		{"subnet manager", "systemctl start opensm   # on one machine of the fabric, or start the switch's subnet manager",
			"sminfo -C %s   # shows whether one runs",
			"kill -HUP $(pidof opensm)   # on its machine: it configures all ports again (a heavy sweep)"},
		{"fabric manager", "systemctl start opafm   # on one machine of the fabric, or start the switch's fabric manager",
			"opainfo   # shows the port of %s; opafabricinfo shows whether one runs",
			"systemctl restart opafm   # on its machine"},
	}
}

// unserved reports ports whose cable is up and that are not active, one finding for each kind of manager and each
// state: no manager is known, it serves other ports only, or it has configured the port and not made it active.
func unserved(n fabric.Node, idle []fabric.HCA) (out []finding.Finding) {
	const nothing, others, begun = 0, 1, 2
	stage := func(h fabric.HCA) int {
		switch {
		case rail.Armed(h):
			return begun
		case rail.Served(n, h):
			return others
		}
		return nothing
	}
	for _, manager := range managers() {
		for at := nothing; at <= begun; at++ {
			var ports []string
			last, f := "", finding.Warnf("")
			for _, h := range idle {
				if rail.Manager(h) != manager.name || stage(h) != at {
					continue
				}
				last = h.Name
				ports = append(ports, fmt.Sprintf("%s port %d", h.Name, rail.Unserved(h)))
				for _, p := range h.Ports {
					f = f.See("/sys/class/infiniband/"+h.Name, "port %d is %s", p.Num, rail.State(n, h, p))
				}
			}
			if len(ports) == 0 {
				continue
			}
			f.What = finding.Some(ports) + map[bool]string{true: " waits", false: " wait"}[len(ports) == 1] + " for "
			const read = "\nread the manager's log for this port: its GUID, its link and its partition"
			switch at {
			case nothing:
				f.What += "a " + manager.name
				f = f.Breaking("the port carries no traffic; NCCL takes another network").Do(manager.start+"\n"+manager.show, last)
			case others:
				f.What += "the " + manager.name + " that serves other ports of this node"
				f = f.Breaking(oneLess).Do(manager.show+read+"\nif its cable leads to another fabric: start that one's "+
					manager.name, last)
			case begun:
				f.What += "the " + manager.name + ": configured (armed), and not active"
				f = f.Breaking("the port carries no traffic; the job has fewer rails, or takes another network").
					Do(manager.show+read+"\n"+manager.again, last)
			}
			out = append(out, f)
		}
	}
	return out
}
