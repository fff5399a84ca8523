package gpu

import (
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// cardCount compares the processes with the GPUs that NVML does not know. It fails only by ROCm's own count: the bus
// also shows GPUs that a container does not have. known is false where there are none, or a card may be several GPUs.
func cardCount(in preflight.Input) (f finding.Finding, known bool) {
	all := preflight.Accelerators(in)
	have, from := devices(in, all)
	if have == 0 || cards(in, "nvidia") > 0 {
		return f, false
	}
	driver := func(c fabric.Card) string { p, _ := in.Node.Function(c.PCI); return p.Driver }
	n, numeric := preflight.Processes(in)
	switch {
	case !numeric:
		return lone(in, finding.Passf("%s (%s)", finding.Count(have, "GPU"), from)), true
	case n <= have:
		return lone(in, finding.Passf("%d processes, %s (%s)", n, finding.Count(have, "GPU"), from)), true
	}
	f = finding.FailOr(in.Node.KFD > 0 && have > 1, "the command asks for %d processes, and this node has %s", n,
		finding.Count(have, "GPU")).See(from, "%d", have)
	for _, name := range rail.Of(in.Node, in.Addr).Lone {
		f = f.See("PCI bus", "no GPU at the switch of %s", name)
	}
	return f.Breaking("the process without a GPU dies, and the other nodes wait for it").
		Do("dmesg | grep -i -e %s -e pcie -e aer   # was a GPU lost? then power the node off and on\n%s %d   # until then",
			driver(all[0]), in.Job.NProc.From.Name, have), true
}

// devices returns how many GPUs the job has of some cards, and where the number is from; 0: not known. The variables
// that choose among them leave as many as they name.
func devices(in preflight.Input, all []fabric.Card) (n int, from string) {
	chosen := func(name string) bool { _, set := in.Getenv(name); return set }
	if len(all) == 0 || slices.ContainsFunc(all, func(c fabric.Card) bool { return c.Vendor != all[0].Vendor }) {
		return 0, ""
	}
	n, from = len(all), "PCI bus"
	switch all[0].Vendor {
	case "amd":
		parted := func(c fabric.Card) bool { return c.Parted != "" && c.Parted != "SPX" }
		if n = in.Node.KFD; n > 0 {
			from = "ROCm's topology (kfd)"
		} else if n = len(all); slices.ContainsFunc(all, parted) {
			return 0, ""
		}
		for _, name := range []string{rocrList, hipList, preflight.CUDAVisible} {
			if list, set := in.Getenv(name); set {
				n, from = min(n, len(preflight.VisibleWords(list))), from+", "+name+"="+list
			}
		}
		return n, from
	case "intel":
		if slices.ContainsFunc([]string{"ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR"}, chosen) {
			return 0, ""
		}
		for _, c := range all {
			if p, _ := in.Node.Function(c.PCI); tiles(p) > 1 {
				n += tiles(p) - 1
			}
		}
		return n, from
	case "habana", "huawei", "metax", "mthreads":
		if !slices.ContainsFunc([]string{"HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "ASCEND_RT_VISIBLE_DEVICES",
			"MUSA_VISIBLE_DEVICES", preflight.CUDAVisible}, chosen) {
			return n, from
		}
	}
	return 0, "" // a card of these may be several
}

// tiles returns how many GPUs Level Zero makes of one of Intel's cards: those of the Max 1350 and 1550 have two tiles
// (pci.ids), each a device of its own by default (ZE_FLAT_DEVICE_HIERARCHY=FLAT).
func tiles(p fabric.PCI) int {
	if slices.Contains([]string{"0x0bd0", "0x0bd5", "0x0bd6", "0x0bd7", "0x0bd8"}, p.Device) {
		return 2
	}
	return 1
}

// lone returns a warning in place of a pass where a rail's switch has no GPU, while each other rail has one at its own.
func lone(in preflight.Input, pass finding.Finding) finding.Finding {
	names := rail.Of(in.Node, in.Addr).Lone
	if len(names) == 0 {
		return pass
	}
	f := finding.Warnf("%s%s gone from the PCI bus: the switch of %s has none, and each other rail has one",
		finding.Count(len(names), "GPU"), isOrAre(len(names)), finding.Some(names)).
		See("PCI bus", "%s", strings.TrimSpace(pass.What))
	return f.Breaking("the job has fewer GPUs than this node was made for").
		Do("dmesg | grep -i -e pcie -e aer   # shows when it was lost\npower the node off and on; if the GPU remains away, " +
			"have it reseated or replaced")
}
