package rdma

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
)

// cardsAlone finds a node with GPUs whose HCAs are on the bus without an RDMA device: the part of the driver that makes
// it is not loaded, or the devices are in another network namespace. Cards whose interface is here have theirs here,
// too. Of other Ethernet cards there must be one for each of several GPUs, since a single card may serve any purpose.
func cardsAlone(in preflight.Input) (finding.Finding, bool) {
	gpus := gpusOf(in)
	if gpus == 0 || overSockets(in) || len(in.Job.Line.Argv) > 0 && !in.Job.Several() {
		return finding.Finding{}, false
	}
	if f, bad := halfLoaded(in, gpus); bad {
		return f, true
	}
	if f, bad := iWARP(in); bad || len(in.Node.HCAs) > 0 {
		return f, bad
	}
	const several = 4
	cards := slices.DeleteFunc(in.Node.WithoutRDMA(), func(p fabric.PCI) bool { return p.VF })
	made := slices.DeleteFunc(slices.Clone(cards), func(p fabric.PCI) bool {
		return !strings.HasPrefix(p.Class, "0x0207") && p.Driver != "efa" && p.Driver != "hfi1"
	})
	what := "InfiniBand or EFA card"
	if len(made) == 0 && len(cards) >= max(several, gpus) {
		made, what = cards, "card"
	}
	if len(made) == 0 {
		return finding.Finding{}, false
	}
	f := finding.Warnf("%s here, and no RDMA device: the RDMA part of the driver is not loaded, or the devices are in "+
		"another network namespace", are(len(made), what))
	for _, p := range made[:min(len(made), finding.MaxSeen)] {
		f = f.See("/sys/bus/pci/devices/"+p.Addr, "driver %s, class %s, no infiniband/ below it", p.Driver, p.Class)
	}
	fix := fixFor(in, verbs.NoStack, fabric.HCA{Driver: made[0].Driver})
	if mode := in.Node.Container.RDMA; mode == "exclusive" || in.Node.Container.Kind != "" {
		f = f.See("RDMA namespaces", "%s", cmp.Or(mode, "not known"))
		fix = "docker run --network host --device /dev/infiniband …   # or a resource of the RDMA device plugin\n" +
			"rdma link   # on the machine itself: shows whether it has any"
	}
	return f.Breaking(overTCP).Do("%s", fix), true
}

// gpusOf counts the GPUs that the job sees; where NVML was not asked or has no driver to ask, those of this node.
func gpusOf(in preflight.Input) int {
	u, why := preflight.GPUsOf(in)
	facts := in.Node.GPUs
	unasked := !facts.Present && facts.Absent == "" && facts.Err == ""
	if why != "" && (unasked || len(preflight.Accelerators(in)) > 0 || len(in.Node.WithoutDriver()) > 0) {
		return len(in.Node.Cards)
	}
	return len(u.Devices)
}

// overSockets reports whether it is decided that NCCL uses no RDMA.
func overSockets(in preflight.Input) bool {
	for _, d := range in.Job.Decided {
		if d.Name == "NCCL_NET" || d.Name == "NCCL_IB_DISABLE" {
			return true
		}
	}
	return false
}

// halfLoaded finds fast cards of one driver whose interfaces are here and that show no RDMA device. In exclusive mode
// the device may be elsewhere.
func halfLoaded(in preflight.Input, gpus int) (finding.Finding, bool) {
	has := map[string]bool{} // drivers
	for _, h := range in.Node.HCAs {
		has[h.Driver] = true
	}
	driver, list := waiting(in, min(2, gpus), func(p fabric.PCI) bool {
		return p.RDMAModule() != "" && !p.VF && !has[p.Driver]
	})
	if driver == "" || in.Node.Container.RDMA == "exclusive" {
		return finding.Finding{}, false
	}
	return unloaded(in, driver, list), true
}

// rnic is the node type of a card that runs iWARP (the kernel's enum rdma_node_type).
const rnic = 4

// iWARP finds fast cards that run iWARP, which NCCL does not use, and could run RoCE.
func iWARP(in preflight.Input) (finding.Finding, bool) {
	driver, list := waiting(in, 1, func(p fabric.PCI) bool {
		return p.RunsRoCE() && slices.ContainsFunc(in.Node.HCAs, func(h fabric.HCA) bool {
			return h.PCI == p.Addr && h.NodeType == rnic && slices.ContainsFunc(h.Ports, fabric.Port.Active)
		})
	})
	if driver == "" {
		return finding.Finding{}, false
	}
	f := finding.Warnf("%s for RDMA here, and in iWARP mode, which NCCL does not use: %s", are(len(list), "card"),
		names(list))
	for _, i := range list[:min(len(list), finding.MaxSeen)] {
		f = f.See("/sys/bus/pci/devices/"+i.PCI, "driver %s, interface %s at %g Gb/s, node type 4: RNIC", driver, i.Name,
			float64(i.Speed)/1000)
	}
	return f.Breaking(overTCP).Do("%s\nif the job is for TCP: NCCL_NET=Socket",
		toRoCE(driver, list[0].PCI, map[bool]string{true: "   # and so on each of them"}[len(list) > 1])), true
}

// toRoCE returns how to set a card in iWARP mode to RoCE, with a remark.
func toRoCE(driver, pci, remark string) string {
	if driver == "qede" {
		return "set the RDMA protocol of " + pci + " to RoCE, in the card's menu at boot or by the vendor's tool" + remark
	}
	return fmt.Sprintf("devlink dev param set pci/%[1]s name enable_iwarp value false cmode runtime\n"+
		"devlink dev param set pci/%[1]s name enable_roce value true cmode runtime%[2]s\n"+
		"or with Intel's own irdma: options irdma roce_ena=1   # in /etc/modprobe.d", pci, remark)
}

// waiting returns the interfaces of one driver that could be rails by RDMA and are not, where no rail but the way out
// uses RDMA. They count from 100 Gb/s on and with an address, if each is below a GPU's switch or there are enough:
// slower ones are often used without RDMA.
func waiting(in preflight.Input, enough int, could func(fabric.PCI) bool) (driver string, list []fabric.Interface) {
	const fast = 100e3 // Mb/s
	fab := rail.Of(in.Node, in.Addr)
	leads := func(name string) bool {
		i, _ := in.Node.Interface(name)
		return name != "" && (name == in.Node.Route.Interface || i.Master == in.Node.Route.Interface) ||
			slices.ContainsFunc(fab.NICs, func(n rail.NIC) bool { return n.Name == name && n.Role == rail.Peer })
	}
	if slices.ContainsFunc(fab.Rails, func(r rail.Rail) bool { return r.HCA != "" && !leads(r.Netdev) }) {
		return "", nil
	}
	by := map[string][]fabric.Interface{}
	global := func(a netip.Prefix) bool { return a.Addr().IsGlobalUnicast() }
	for _, i := range in.Node.Interfaces {
		p, ok := in.Node.Function(i.PCI)
		usable := i.Up && i.Running && i.Speed >= fast && slices.ContainsFunc(i.Addrs, global)
		if ok && usable && could(p) && !leads(i.Name) {
			by[p.Driver] = append(by[p.Driver], i)
		}
	}
	far := func(i fabric.Interface) bool {
		return !slices.ContainsFunc(fab.GPUs, func(g rail.GPU) bool {
			return in.Node.Distance(g.PCI, i.PCI).Rank() <= fabric.PXB.Rank()
		})
	}
	for _, driver := range slices.Sorted(maps.Keys(by)) {
		if list := by[driver]; len(list) >= enough || !slices.ContainsFunc(list, far) {
			return driver, list
		}
	}
	return "", nil
}

func names(list []fabric.Interface) string {
	return finding.Some(finding.Map(list, func(i fabric.Interface) string { return i.Name }))
}

func unloaded(in preflight.Input, driver string, list []fabric.Interface) finding.Finding {
	module := fabric.PCI{Driver: driver}.RDMAModule()
	f := finding.Warnf("%s of driver %s without an RDMA device: %s is not loaded, or RDMA is switched off: %s",
		finding.Count(len(list), "fast interface"), driver, module, names(list))
	for _, i := range list[:min(len(list), finding.MaxSeen)] {
		f = f.See("/sys/bus/pci/devices/"+i.PCI, "driver %s, interface %s at %g Gb/s, no infiniband/ below it", driver,
			i.Name, float64(i.Speed)/1000)
	}
	return f.Breaking(overTCP).
		Do("%s\ndmesg | grep %s; devlink dev param show pci/%s   # if it is loaded: enable_rdma, enable_roce\n"+
			"if the job is for TCP: NCCL_NET=Socket", fixFor(in, verbs.NoStack, fabric.HCA{Driver: driver}), module, list[0].PCI)
}
