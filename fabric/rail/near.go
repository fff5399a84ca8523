package rail

import (
	"cmp"
	"slices"

	"launch/fabric"
)

// GPU is one GPU and its rails.
type GPU struct {
	PCI   string `json:"pci"`
	Index int    `json:"index"` // NVML's index; by PCI address if NVML was not asked
	Name  string `json:"name,omitempty"`
	NUMA  int    `json:"numa"` // -1 unknown

	// Rails are the nearest ones, by name, all at the same distance.
	Rails    []string        `json:"rails,omitempty"`
	Distance fabric.Distance `json:"distance,omitempty"` // to the rails
	// Own are the GPU's share of Rails: of two GPUs that share two rails, each gets one.
	Own []string `json:"own,omitempty"`
}

// unlistedIndex marks a GPU that NVML does not list: no process can use it.
const unlistedIndex = -1

// findGPUs lists the GPUs: from NVML, else from files.
func (v *view) findGPUs() (out []GPU) {
	for _, d := range v.node.GPUs.Devices {
		out = append(out, GPU{PCI: d.PCI, Index: d.Index, Name: d.Name})
	}
	for _, c := range v.node.Unlisted() { // the machine was made with a rail for it, too
		out = append(out, GPU{PCI: c.PCI, Index: unlistedIndex, Name: c.Model})
	}
	if len(out) == 0 {
		for i, c := range v.node.Cards {
			out = append(out, GPU{PCI: c.PCI, Index: i, Name: c.Model})
		}
	}
	for i := range out {
		out[i].NUMA = -1
		if p, ok := v.pci[out[i].PCI]; ok {
			out[i].NUMA = p.NUMA
		}
	}
	return out
}

// behind reports whether two functions are behind a common switch.
func (v *view) behind(a, b string) bool { return v.node.Distance(a, b).Rank() <= fabric.PXB.Rank() }

// served counts the GPUs that have one of the ports behind their own switch.
func (v *view) served(all []candidate) (n int) {
	for _, g := range v.gpus {
		if v.near(g, all) > 0 {
			n++
		}
	}
	return n
}

// near returns how many of some ports share a PCIe switch with a GPU.
func (v *view) near(g GPU, all []candidate) (n int) {
	for _, c := range all {
		if v.behind(g.PCI, c.hca.PCI) {
			n++
		}
	}
	return n
}

// alone reports whether some GPU has no other port behind its switch.
func (v *view) alone(c candidate, all []candidate) bool {
	for _, g := range v.gpus {
		near := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return !v.behind(g.PCI, c.hca.PCI) })
		if len(near) == 1 && near[0].hca.Name == c.hca.Name {
			return true
		}
	}
	return false
}

// pair assigns rails to GPUs.
func (v *view) pair(f *Fabric) {
	f.GPUs = slices.DeleteFunc(slices.Clone(v.gpus), func(g GPU) bool { return g.Index == unlistedIndex })
	var near [][]int // of each GPU, the rails
	for i := range f.GPUs {
		g := &f.GPUs[i]
		var list []int
		for j, r := range f.Rails {
			switch d := v.node.Distance(g.PCI, r.PCI); {
			case d.Rank() < g.Distance.Rank():
				g.Distance, list = d, []int{j}
			case d == g.Distance && d != "":
				list = append(list, j)
			}
		}
		for _, j := range list {
			g.Rails = append(g.Rails, f.Name(f.Rails[j]))
			f.Rails[j].GPUs = append(f.Rails[j].GPUs, g.PCI)
		}
		near = append(near, list)
	}
	v.deal(f, near)
}

// deal gives each GPU one of its nearest rails: the least used one, and of these one of its own NUMA
// node. Each remaining rail goes to the GPU with the fewest.
func (v *view) deal(f *Fabric, near [][]int) {
	users := make([]int, len(f.Rails))
	give := func(g, r int) {
		f.GPUs[g].Own = append(f.GPUs[g].Own, f.Name(f.Rails[r]))
		users[r]++
	}
	for g, list := range near {
		if len(list) > 0 {
			give(g, slices.MinFunc(list, func(a, b int) int {
				return cmp.Or(cmp.Compare(users[a], users[b]),
					cmp.Compare(v.abroad(f.GPUs[g], f.Rails[a]), v.abroad(f.GPUs[g], f.Rails[b])), cmp.Compare(a, b))
			}))
		}
	}
	for r := range f.Rails {
		if users[r] > 0 {
			continue
		}
		best := -1
		for g, list := range near {
			if slices.Contains(list, r) && (best < 0 || len(f.GPUs[g].Own) < len(f.GPUs[best].Own)) {
				best = g
			}
		}
		if best >= 0 {
			give(best, r)
		}
	}
}

// abroad returns 1 if a rail is known to be on another NUMA node than a GPU.
func (v *view) abroad(g GPU, r Rail) int {
	if p, ok := v.pci[r.PCI]; ok && p.NUMA >= 0 && g.NUMA >= 0 && p.NUMA != g.NUMA {
		return 1
	}
	return 0
}
