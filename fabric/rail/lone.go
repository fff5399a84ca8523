package rail

import "slices"

// lone returns the ports at a switch of their own where a GPU is gone from the bus, or nil: of one make with the
// others, each of which is alone with one GPU at its switch. Such machines are made with a multiple of four ports and
// as many GPUs. Where the GPUs are a multiple of four, a port more at a switch of its own is for storage.
func (v *view) lone(all []candidate) (out []candidate) {
	const made = 4
	for _, c := range all {
		switch gpus := v.gpusAt(c); {
		case gpus > 1 || !v.alike(c.hca, all[0].hca) || len(v.pci[c.hca.PCI].Path) <= 2:
			return nil
		case gpus == 0:
			out = append(out, c)
		}
	}
	each := func(g GPU) bool { return v.near(g, all) == 1 }
	all4 := len(all)%made == 0 && len(v.gpus)%made != 0 && len(v.gpus)+len(out) == len(all)
	if !all4 || made*len(out) > len(all) || slices.ContainsFunc(v.gpus, func(g GPU) bool { return !each(g) }) {
		return nil
	}
	return out
}

// gpusAt counts the GPUs on the bus that share a PCIe switch with a port, also those that this process does not see.
func (v *view) gpusAt(c candidate) (n int) {
	for _, g := range v.node.Cards {
		if v.behind(g.PCI, c.hca.PCI) {
			n++
		}
	}
	return n
}

// places returns for how many GPUs the machine was made, as far as its ports show.
func (v *view) places() int { return len(v.gpus) + v.gone }
