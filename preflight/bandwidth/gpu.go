package bandwidth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight/bench"
)

// NearestGPUs assigns to each port of an HCA the nearest GPU of its node: of several
// equally near ones the first that no other port has. Without far the GPU must be within
// the same root complex. A port without a GPU gets the reason.
func NearestGPUs(n fabric.Node, ports []bench.Port, far bool) {
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

// nearestGPU returns a GPU for an HCA, or why there is none.
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
		return nil, fmt.Sprintf("the distance of GPU %s from %s is not known (--memory gpu uses it anyway)", best, h.Name)
	case !far && near.Rank() > fabric.PHB.Rank():
		return nil, fmt.Sprintf("the nearest GPU to %s, %s, is too far away: %s (--memory gpu uses it anyway)", h.Name, best,
			near)
	}
	return &bench.GPU{
		PCI: best, Distance: string(near), Peermem: n.GPUDirect.Peermem,
		Direct: near.Rank() <= fabric.PXB.Rank() && !n.Cloud.Virtual, // a guest does not see the real bridges
	}, ""
}

// RailGPU is the speed of a rail between the memories of GPUs.
type RailGPU struct {
	Median float64 `json:"median"` // bytes/s
	Share  float64 `json:"share"`  // the median share of the speed of the same pairs between hosts
	Memory string  `json:"memory"` // the access of the HCAs: dmabuf, peermem, or both
}

// gpuShare is the share of the speed between hosts below which GPUs behind the HCAs' own
// switches are slow: only the switch is between them, so half the speed means a detour.
const gpuShare = 0.5

// onGPUs returns the flows of a plane that were also measured between GPUs.
func (p *plane) onGPUs() []flow {
	return slices.DeleteFunc(slices.Clone(p.flows), func(f flow) bool {
		return f.sample.GPU == nil || f.sample.GPU.Cause != ""
	})
}

// gpu returns nil if nothing was measured between GPUs.
func (p *plane) gpu() *RailGPU {
	flows := p.onGPUs()
	if len(flows) == 0 {
		return nil
	}
	var speeds, shares []float64
	var ways []string
	for _, f := range flows {
		speeds = append(speeds, f.gpu)
		if f.speed > 0 {
			shares = append(shares, f.gpu/f.speed)
		}
		ways = append(ways, f.sample.GPU.Memory, f.sample.GPU.Peer)
	}
	slices.Sort(ways)
	return &RailGPU{medianOf(speeds), medianOf(shares), strings.Join(slices.Compact(ways), " and ")}
}

// betweenGPUs reports the speed of each rail between GPUs, and once for all why it was not measured.
func (c *rates) betweenGPUs() (out finding.Report) {
	for _, p := range c.planes {
		if r := p.gpu(); r != nil {
			out = append(out, p.slowGPUs(*r))
		}
	}
	const few = 3
	where, order := map[string][]string{}, []string{}
	for _, p := range c.planes {
		for _, f := range slices.Concat(p.flows, p.lost) {
			if g := f.sample.GPU; g != nil && g.Cause != "" && p.ends[f.from].Rank == f.sample.From {
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
	why := finding.Map(order[:min(len(order), few)], func(reason string) string {
		return fmt.Sprintf("%s (%s)", reason, finding.Some(slices.Compact(where[reason])))
	})
	if len(order) > few {
		why = append(why, fmt.Sprintf("%d more reasons", len(order)-few))
	}
	return append(out, finding.Skipf("not measured from GPU to GPU: %s", strings.Join(why, "; ")).Named("bench.gpu"))
}

// slowGPUs returns a warning if there is a detour, else a pass with the speed.
func (p *plane) slowGPUs(r RailGPU) finding.Finding {
	f := finding.Warnf("").Named("bench.gpu")
	var slow []string
	for _, o := range p.onGPUs() {
		a, b := p.ends[o.from], p.ends[o.to]
		if a.port.GPU == nil || b.port.GPU == nil || !a.port.GPU.Direct || !b.port.GPU.Direct || o.gpu >= gpuShare*o.speed {
			continue
		}
		slow = append(slow, a.Node+" to "+b.Node)
		if len(f.Seen) < finding.MaxSeen {
			f = f.See(slow[len(slow)-1], "%s from GPU %s to GPU %s, %s from host to host", finding.Speed(o.gpu),
				a.port.GPU.PCI, b.port.GPU.PCI, finding.Speed(o.speed))
		}
	}
	if len(slow) == 0 {
		return finding.Passf("rail %s from GPU to GPU: %s (%s), %.0f %% of its speed from host to host",
			p.Name, finding.Speed(r.Median), r.Memory, 100*r.Share).Named("bench.gpu")
	}
	f.What = fmt.Sprintf("rail %s has from GPU to GPU less than half of its speed from host to host, although the GPUs "+
		"are behind the HCAs' own switches: %s", p.Name, finding.Some(slow))
	return f.Breaking("NCCL sends from GPU to GPU, and %s", slowestWaits).
		Do("launch check --only gpu.p2p   # there, as root: shows whether ACS redirects the traffic to the root\n" +
			"if the IOMMU does: iommu=pt on the kernel's command line")
}
