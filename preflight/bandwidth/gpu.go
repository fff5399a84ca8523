package bandwidth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/bench"
)

// BesideGPUs gives each port of an HCA the nearest GPU of its node: of several
// equally near ones the first that no other port has. Without far it has to be
// within the same root complex; a port that is given none says why.
func BesideGPUs(n fabric.Node, ports []bench.Port, far bool) {
	users := map[string]int{}
	for i := range ports {
		p := &ports[i]
		k := slices.IndexFunc(n.HCAs, func(h fabric.HCA) bool { return h.Name == p.HCA })
		if p.HCA == "" || k < 0 {
			continue
		}
		if p.GPU, p.NoGPU = nearestGPU(n, n.HCAs[k], users, far); p.GPU != nil {
			users[p.GPU.PCI]++
		}
	}
}

// nearestGPU is a GPU of an HCA, or why there is none.
func nearestGPU(n fabric.Node, h fabric.HCA, users map[string]int, far bool) (*bench.GPU, string) {
	g := n.GPUs
	if len(g.Devices) == 0 {
		return nil, "no GPU: " + cmp.Or(g.Absent, g.Err, "NVML has none")
	}
	best, near := "", fabric.Distance("")
	for _, d := range g.Devices {
		if d.PCI == "" || d.Err != "" {
			continue
		}
		at := n.Distance(d.PCI, h.PCI)
		if best == "" || cmp.Or(cmp.Compare(at.Rank(), near.Rank()), cmp.Compare(users[d.PCI], users[best])) < 0 {
			best, near = d.PCI, at
		}
	}
	switch {
	case best == "":
		return nil, "no GPU that answers: " + g.Devices[0].Err
	case !far && near == "":
		return nil, fmt.Sprintf("how far GPU %s is from %s is not known (--memory gpu takes it all the same)", best, h.Name)
	case !far && near.Rank() > fabric.PHB.Rank():
		return nil, fmt.Sprintf("the nearest GPU to %s, %s, is not beside it: %s (--memory gpu takes it all the same)", h.Name, best, near)
	}
	return &bench.GPU{
		PCI: best, Distance: string(near), Peermem: n.GPUDirect.Peermem,
		Direct: near.Rank() <= fabric.PXB.Rank() && !n.Cloud.Virtual, // a guest's bridges are not the real ones
	}, ""
}

// RailGPU is how fast a rail is from the memory of GPUs into that of others.
type RailGPU struct {
	Median float64 `json:"median"` // bytes/s
	Share  float64 `json:"share"`  // the median of what the same pairs do from host to host
	Memory string  `json:"memory"` // how the HCAs have it: dmabuf, peermem, or both
}

// gpuShare is below which share of what the same two ports do between hosts' memory
// GPUs behind the HCAs' own switches are slow: nothing but the switch lies between
// them, so that what halves it is a detour.
const gpuShare = 0.5

// onGPUs are the flows of a plane that were measured between GPUs too, with how
// fast these were.
func (p *plane) onGPUs() (flows []flow, speeds []float64) {
	for _, f := range p.flows {
		g := f.sample.GPU
		if g == nil || g.Cause != "" {
			continue
		}
		speed := g.Out
		if p.ends[f.from].rank != f.sample.From {
			speed = g.Back
		}
		flows, speeds = append(flows, f), append(speeds, speed)
	}
	return flows, speeds
}

// gpu is nil where nothing was measured between GPUs.
func (p *plane) gpu() *RailGPU {
	flows, speeds := p.onGPUs()
	if len(flows) == 0 {
		return nil
	}
	var shares []float64
	var ways []string
	for i, f := range flows {
		if f.speed > 0 {
			shares = append(shares, speeds[i]/f.speed)
		}
		ways = append(ways, f.sample.GPU.Memory, f.sample.GPU.Peer)
	}
	slices.Sort(ways)
	return &RailGPU{medianOf(speeds), medianOf(shares), strings.Join(slices.Compact(ways), " and ")}
}

// besideGPUs says of each rail how fast it is between GPUs, and once for all why
// it was not measured.
func (c *rates) besideGPUs() (out finding.Report) {
	for _, p := range c.planes {
		if r := p.gpu(); r != nil {
			out = append(out, p.slowGPUs(*r))
		}
	}
	const few = 3
	where, order := map[string][]string{}, []string{}
	for _, p := range c.planes {
		for _, f := range slices.Concat(p.flows, p.lost) {
			if g := f.sample.GPU; g != nil && g.Cause != "" && p.ends[f.from].rank == f.sample.From {
				e := p.ends[f.from]
				if g.There {
					e = p.ends[f.to]
				}
				if where[g.Skipped] == nil {
					order = append(order, g.Skipped)
				}
				where[g.Skipped] = append(where[g.Skipped], e.label())
			}
		}
	}
	if len(order) == 0 {
		return out
	}
	var why []string
	for _, reason := range order[:min(len(order), few)] {
		why = append(why, fmt.Sprintf("%s (%s)", reason, preflight.Some(slices.Compact(where[reason]))))
	}
	if len(order) > few {
		why = append(why, fmt.Sprintf("%d more reasons", len(order)-few))
	}
	return append(out, finding.Skipf("not measured from GPU to GPU: %s", strings.Join(why, "; ")).Named("bench.gpu"))
}

// slowGPUs is a warning where there is a detour, and else how fast it is.
func (p *plane) slowGPUs(r RailGPU) finding.Finding {
	f := finding.Warnf("").Named("bench.gpu")
	var slow []string
	flows, speeds := p.onGPUs()
	for i, fl := range flows {
		a, b := p.ends[fl.from], p.ends[fl.to]
		if a.port.GPU == nil || b.port.GPU == nil || !a.port.GPU.Direct || !b.port.GPU.Direct || speeds[i] >= gpuShare*fl.speed {
			continue
		}
		slow = append(slow, a.node+" to "+b.node)
		if len(f.Seen) < preflight.MaxSeen {
			f = f.See(slow[len(slow)-1], "%s from GPU %s to GPU %s, %s from host to host", preflight.Speed(speeds[i]), a.port.GPU.PCI, b.port.GPU.PCI, preflight.Speed(fl.speed))
		}
	}
	if len(slow) == 0 {
		return finding.Passf("rail %s from GPU to GPU: %s (%s), %.0f %% of what it does from host to host", p.name, preflight.Speed(r.Median), r.Memory, 100*r.Share).Named("bench.gpu")
	}
	f.What = fmt.Sprintf("rail %s does less than half from GPU to GPU of what it does from host to host, although the GPUs are behind the HCAs' own switches: %s", p.name, preflight.Some(slow))
	return f.Breaking("NCCL sends from GPU to GPU, and %s", slowestWaits).
		Do("launch check --only gpu.p2p   # there, as root: whether ACS sends it by way of the root; and the IOMMU: iommu=pt on the kernel's line")
}
