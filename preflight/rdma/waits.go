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

// unserved reports ports whose cable is up and that no manager of their fabric has configured, one finding for each
// kind of manager, and one where the manager serves other ports.
func unserved(n fabric.Node, idle []fabric.HCA) (out []finding.Finding) {
	for _, manager := range []struct{ name, start, show string }{
		{"subnet manager", "systemctl start opensm   # on one machine of the fabric, or start the switch's subnet manager",
			"sminfo -C %s   # shows whether one runs"},
		{"fabric manager", "systemctl start opafm   # on one machine of the fabric, or start the switch's fabric manager",
			"opainfo   # shows the port of %s; opafabricinfo shows whether one runs"},
	} {
		for _, served := range []bool{false, true} {
			var ports []string
			last, f := "", finding.Warnf("")
			for _, h := range idle {
				if rail.Manager(h) != manager.name || rail.Served(n, h) != served {
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
			wait := finding.Some(ports) + map[bool]string{true: " waits", false: " wait"}[len(ports) == 1] + " for "
			if served {
				f.What = wait + "the " + manager.name + " that serves other ports of this node"
				out = append(out, f.Breaking(oneLess).Do(manager.show+"\nread the manager's log for this port: its GUID, its link "+
					"and its partition\nif its cable leads to another fabric: start that one's "+manager.name, last))
				continue
			}
			f.What = wait + "a " + manager.name
			out = append(out, f.Breaking("the port carries no traffic; NCCL takes another network").
				Do(manager.start+"\n"+manager.show, last))
		}
	}
	return out
}
