package envgen

import (
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

// railLint returns the rule for the variables that select RDMA ports.
func railLint() []lintRule {
	return []lintRule{{id: "env.rails", look: lintRails,
		names: []string{"NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST", "NVSHMEM_HCA_PE_MAPPING"},
		what: "it selects ACTIVE ports that are no rails: for management, virtual, without an address, of another link " +
			"layer, much slower; or it selects other ports than the rails and leaves out rails. A part of the rails is " +
			"fine. Where the rails are a guess, or the job's data avoids such ports, this is only a remark"}}
}

// lintRails finds a list of ports that is another machine's, or a habit.
func lintRails(v *view, d setting.Decided) finding.Finding {
	rails, picked := v.rails(), v.picked(d)
	if len(rails) == 0 || len(picked) == 0 || v.World.Nodes == 1 || !v.head() {
		return none()
	}
	left := slices.DeleteFunc(slices.Clone(rails), func(p hcaPort) bool { return contains(picked, p) })
	wrong := slices.DeleteFunc(slices.Clone(picked), func(p hcaPort) bool {
		return contains(rails, p) || len(left) < len(rails) && v.faulty(p)
	})
	if !slices.ContainsFunc(wrong, v.unfit) {
		if len(left) == 0 || len(wrong) == 0 { // one port more, such as a second network's, may be on purpose
			return none()
		}
	} else if len(left) == 0 && d.Name == "UCX_NET_DEVICES" { // UCX takes the best ones of its list
		return none()
	}
	const few = 4
	also := ""
	if f := lintPrefix(v, d); f.Status != "" && v.fab.Sure {
		also = "; " + f.What[strings.Index(f.What, ": ")+2:]
	}
	what := fmt.Sprintf("%s selects %s (%s)%s%s%s", d.Name, wrongPorts(len(wrong)), someOf(wrong), leftOut(left, rails),
		also, v.fab.Guess())
	f := finding.Warnf("%s", what)
	switch {
	case !v.fab.Sure || v.idle(d, left, wrong):
		f = finding.Passf("%s", what)
	case !slices.ContainsFunc(picked, func(p hcaPort) bool { return !p.dead() }):
		f = finding.FailOr(v.ncclSure() && d.Name == "NCCL_IB_HCA", "%s", what).
			Breaking("the first connection ends with an error: no interface here has an address for these ports")
	default:
		f.Breaks = harm(d.Name, rails, picked, left)
	}
	for _, p := range wrong[:min(len(wrong), few)] {
		f = f.See("/sys/class/infiniband/"+p.hca.Name, "%s", v.whyNoRail(p))
	}
	if d.Name == "NVSHMEM_HCA_PE_MAPPING" { // launch then sets NVSHMEM_HCA_LIST
		return f
	}
	return f.Do("%s", put(d, map[bool]string{true: "="}[d.Name == "NCCL_IB_HCA"]+portList(rails)))
}

func wrongPorts(n int) string {
	if n == 1 {
		return "a port that is no rail"
	}
	return fmt.Sprintf("%d ports that are no rails", n)
}

func leftOut(left, rails []hcaPort) string {
	switch {
	case len(left) == 0:
		return ""
	case len(rails) == 1:
		return " and leaves out the rail " + someOf(left)
	case len(left) == len(rails):
		return fmt.Sprintf(" and leaves out all %d rails (%s)", len(left), someOf(left))
	}
	return fmt.Sprintf(" and leaves out %d of %d rails (%s)", len(left), len(rails), someOf(left))
}

func someOf(all []hcaPort) string { return finding.Some(finding.Map(all, hcaPort.String)) }

// idle reports whether the job's data probably avoids wrong ports. In a job with GPUs, UCX often carries only the
// messages of the start, and a list without any rail is on purpose. NCCL searches the ports that are nearest to a GPU
// first (ncclTopoSelectNets), and slower ports farther away add nothing to rails that are all there.
func (v *view) idle(d setting.Decided, left, wrong []hcaPort) bool {
	rails := v.rails()
	if d.Name == "UCX_NET_DEVICES" {
		return v.gpus() && !v.nixl() && len(left) == len(rails)
	}
	if d.Name != "NCCL_IB_HCA" || len(left) > 0 || len(v.fab.GPUs) == 0 {
		return false
	}
	drawn := func(g rail.GPU) bool { // to a wrong port
		return g.Distance.Rank() > fabric.PXB.Rank() || slices.ContainsFunc(wrong, func(p hcaPort) bool {
			near := v.Node.Distance(g.PCI, p.hca.PCI).Rank() <= g.Distance.Rank()
			return near || p.Rate == 0 || 2*p.Rate > rails[0].Rate
		})
	}
	return !slices.ContainsFunc(v.fab.GPUs, drawn)
}

// harm returns what follows from a wrong list of a variable.
func harm(variable string, rails, picked, left []hcaPort) string {
	library, _, _ := strings.Cut(variable, "_")
	layer := rails[0].LinkLayer
	mixed := library != "UCX" && slices.ContainsFunc(picked, func(p hcaPort) bool { return p.LinkLayer != layer })
	switch {
	case mixed && len(left) < len(rails):
		return "InfiniBand and Ethernet ports cannot connect to each other: the job ends with an error, or is slow"
	case len(left) == len(rails):
		return "all data of " + library + " uses ports that are slow or reach no other node"
	}
	return "a part of the data of " + library + " uses ports that are slow or reach no other node: the job is slow or " +
		"ends with an error"
}

// dead reports whether no packet can leave by a port: its interface is in another network namespace, or its GID table
// was read and is empty.
func (p hcaPort) dead() bool {
	return p.LinkLayer == ethernet && (p.Elsewhere != "" || len(p.GIDs) == 0 && p.GIDSlots > 0)
}

// faulty reports whether a port would be a rail without a fault that a check of its own names.
func (v *view) faulty(p hcaPort) bool {
	nic := v.nic(p)
	return nic.NoAddress || nic.Limited
}

// unfit reports whether a port that is no rail cannot be one, or is much slower.
func (v *view) unfit(p hcaPort) bool {
	first := v.rails()[0]
	if contains(v.rails(), p) {
		return false
	}
	role := v.nic(p).Role
	return p.LinkLayer != first.LinkLayer || p.Rate > 0 && 2*p.Rate <= first.Rate ||
		role == rail.Management || role == rail.Virtual || role == rail.Unusable
}

// whyNoRail describes a port. Where another port of its HCA is a rail, the HCA's role is not the port's.
func (v *view) whyNoRail(p hcaPort) string {
	if v.nic(p).Role == rail.Compute {
		return fmt.Sprintf("port %d: %s at %g Gb/s", p.Num, p.LinkLayer, p.Rate)
	}
	return v.hcaWhy(p)
}

// picked returns the ACTIVE ports that a variable selects, without those whose device this process cannot open, as a
// pod sees them of the whole host: the libraries skip these. NCCL takes names as prefixes, the others take whole ones
// (NVSHMEM's transports compare with strcmp). UCX accepts patterns, too, which are not judged.
func (v *view) picked(d setting.Decided) []hcaPort {
	list, not := strings.CutPrefix(d.Value, "^")
	var out []hcaPort
	switch {
	case d.Value == "" || v.vendorPlugin() && d.Name == "NCCL_IB_HCA":
		return nil
	case d.Name == "NCCL_IB_HCA":
		if strings.EqualFold(v.value("NCCL_NET"), "Socket") || leadingInt(v.value("NCCL_IB_DISABLE"), 0) != 0 {
			return nil
		}
		out = v.chosen(d.Value)
	case d.Name == "UCX_NET_DEVICES" && (!v.ucx() || d.Value == "all" || strings.ContainsAny(d.Value, "[*?")),
		strings.HasPrefix(d.Name, "NVSHMEM_") && leadingInt(v.value("NVSHMEM_ENABLE_NIC_PE_MAPPING"), 0) == 0,
		d.Name == "NVSHMEM_HCA_PE_MAPPING" && v.value("NVSHMEM_HCA_LIST") != "":
		return nil
	default:
		f := filter{not: not, exact: true, items: parseFilter(list, maxIBs).items}
		out = slices.DeleteFunc(v.ncclPorts(), func(p hcaPort) bool { return !f.match(p.hca.Name, p.Num) })
	}
	return slices.DeleteFunc(out, func(p hcaPort) bool { return p.hca.Closed != "" })
}
