package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
)

// GPU is a GPU of this node, as seen from a port.
type GPU struct {
	PCI      string `json:"pci"`               // its address, as sysfs writes it
	Distance string `json:"distance"`          // from the HCA: PIX, PXB, PHB, NODE, SYS; "" unknown
	Direct   bool   `json:"direct,omitempty"`  // nothing but a switch lies between them
	Peermem  bool   `json:"peermem,omitempty"` // the kernel gives HCAs its memory without a DMA-BUF
}

// OnGPU is a pair of ports measured once more, from the memory of a GPU at one end
// into that of a GPU at the other one.
type OnGPU struct {
	Out     float64 `json:"out,omitempty"`     // payload that this side sent, bytes/s
	Back    float64 `json:"back,omitempty"`    // and the other one
	Memory  string  `json:"memory,omitempty"`  // how the HCA of who led had the memory: dmabuf, peermem
	Peer    string  `json:"peer,omitempty"`    // and the other one's
	Cause   string  `json:"cause,omitempty"`   // why it was not measured: CauseNoGPU, or a verbs.Cause; "": it was
	Skipped string  `json:"skipped,omitempty"` // in words
	There   bool    `json:"there,omitempty"`   // that is the other end's
}

// CauseNoGPU is that one of the ends has no GPU beside the port.
const CauseNoGPU = "none-beside"

const (
	// cudaStart is what CUDA takes, as a rule, before a GPU's memory can be had.
	cudaStart = time.Second
	// cudaBudget bounds it: eight GPUs whose driver was not loaded by anybody take
	// seconds.
	cudaBudget = 8 * time.Second
)

// gpuShare is how much of a stream's time is one in this memory: both directions
// take as long as one in the host's.
const gpuShare = 2

// gpuTest is the same test, shorter, between GPUs.
func (t Test) gpuTest() verbs.Test {
	return verbs.Test{
		Device: t.Port.HCA, Port: t.Port.Num, GID: t.Port.GID, Lead: t.Lead,
		GPU: &verbs.GPU{PCI: t.Port.GPU.PCI, Peermem: t.Port.GPU.Peermem},
		QPs: min(max(t.Streams, 1), maxStreams/2), Depth: verbsDepth, Sizes: []int{verbsWrite}, Warm: t.Warm / gpuShare, Span: t.Span / gpuShare, BothWays: true,
	}
}

// gpuTakes is how much longer a test takes by measuring between GPUs.
func (t Test) gpuTakes() time.Duration {
	if !t.GPU {
		return 0
	}
	return 2*(t.Warm+t.Span)/gpuShare + cudaStart
}

// GPULimit is how much longer it may take.
func (t Test) GPULimit() time.Duration {
	return 2*((t.Warm+t.Span)/gpuShare+lateBudget) + cudaBudget
}

// onGPU measures between GPUs, where both ends have one; both come to the same.
// What goes wrong is a reason, and no failure of the rail's.
func onGPU(ctx context.Context, t Test, say Exchange) *OnGPU {
	for _, lead := range []bool{true, false} {
		p := t.Peer
		if lead == t.Lead {
			p = t.Port
		}
		if p.GPU == nil {
			return &OnGPU{Cause: CauseNoGPU, Skipped: p.NoGPU, There: lead != t.Lead}
		}
	}
	r, err := confine.Run(ctx, t.gpuTest(), t.GPULimit(), verbs.Exchange(say))
	if e, ok := errors.AsType[*verbs.Error](err); ok {
		return &OnGPU{Cause: string(e.Cause), Skipped: e.Text, There: e.Peer}
	}
	if err != nil || len(r.Out) == 0 || len(r.Back) == 0 {
		return &OnGPU{Cause: string(verbs.Other), Skipped: fmt.Sprintf("nothing was measured: %v", err)}
	}
	return &OnGPU{Memory: r.Local.Memory, Peer: r.Remote.Memory, Out: r.Out[0].Speed, Back: r.Back[0].Speed}
}

// carry adds what went between the GPUs to what the rail has carried: where that
// is not known, neither is the whole.
func (r *Result) carry(t Test) {
	took := (t.Warm + t.Span) / gpuShare
	switch verbs.Cause(r.GPU.Cause) {
	case "":
		r.Out.Carried += t.carried(r.GPU.Out, took)
		r.Back.Carried += t.carried(r.GPU.Back, took)
	case CauseNoGPU, verbs.NoCUDA, verbs.NoGPU, verbs.GPUBusy, verbs.NoGPUDirect: // nothing went
	default:
		r.Out.Carried, r.Back.Carried = 0, 0
	}
}

// turned is what it is from the other end's view.
func (g *OnGPU) turned() *OnGPU {
	if g == nil {
		return nil
	}
	o := *g
	o.Out, o.Back, o.Memory, o.Peer = g.Back, g.Out, g.Peer, g.Memory
	o.There = g.Cause != "" && !g.There
	return &o
}
