package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
	"launch/internal/sidechannel"
)

// The parts of a stream of writes: messages of the size that a collective sends, as many in
// flight as fill a link of a few hundred Gb/s over a few µs, which end soon on a slow link.
// Each end registers Streams times verbsWrite bytes.
const (
	verbsWrite = 1 << 20
	verbsDepth = 4
	verbsPing  = 8
)

// Verbs measures RDMA writes between two HCAs, as NCCL sends them, on devices that this process can
// open. It compares all bytes. It runs in a child process, since a driver can hang.
func Verbs(opens func(hca string) bool) Measurer {
	return Measurer{Kind: "verbs", Can: func(p Port) bool { return p.HCA != "" && opens(p.HCA) }, Run: runVerbs}
}

func runVerbs(ctx context.Context, t Test, say Exchange) (Result, error) {
	host := t.writes()
	host.PingSizes, host.Pings, host.PingSpan = []int{verbsPing}, max(t.Pings, 1), pingBudget
	r, err := confine.Run(ctx, host, t.hostLimit(), verbs.Exchange(say))
	if err != nil {
		return Result{}, err
	}
	flow := func(all []verbs.Flow) Flow {
		if len(all) == 0 {
			return Flow{}
		}
		return Flow{Speed: all[0].Speed, PMTU: r.MTU, Carried: t.carried(all[0].Speed, t.Warm+t.Span)}
	}
	out := Result{Out: flow(r.Out), Back: flow(r.Back)}
	if len(r.Pings) > 0 {
		p := r.Pings[0]
		out.Latency, out.Tail, out.Pings = p.Median, p.T99, p.Pings
	}
	if t.GPU {
		out.GPU = onGPU(ctx, t, say)
		out.carry(t)
	}
	return out, nil
}

// writes returns the test of both directions of a port.
func (t Test) writes() verbs.Test {
	return verbs.Test{Device: t.Port.HCA, Port: t.Port.Num, GID: t.Port.GID, Lead: t.Lead,
		QPs: min(max(t.Streams, 1), maxStreams/2), Depth: verbsDepth, Sizes: []int{verbsWrite}, Warm: t.Warm, Span: t.Span,
		BothWays: true}
}

// carried returns how many bytes an end has written at most: what is in flight when Warm or Span ends is completed.
func (t Test) carried(speed float64, took time.Duration) float64 {
	return speed*took.Seconds() + 2*verbsDepth*verbsWrite*float64(t.Streams)
}

// causeOf returns the cause of a failed measurement.
func causeOf(err error) string {
	if e, ok := errors.AsType[*verbs.Error](err); ok {
		return string(e.Cause)
	}
	return string(sidechannel.CauseOf(err))
}

// GPU is a GPU of this node, as seen from a port.
type GPU struct {
	PCI      string `json:"pci"`               // its address, as sysfs writes it
	Distance string `json:"distance"`          // from the HCA: PIX, PXB, PHB, NODE, SYS; "" unknown
	Direct   bool   `json:"direct,omitempty"`  // only a switch is between them
	Peermem  bool   `json:"peermem,omitempty"` // the kernel gives HCAs its memory without a DMA-BUF
}

// OnGPU is a second measurement of a pair of ports, between the memories of a GPU at each end.
type OnGPU struct {
	Out     float64 `json:"out,omitempty"`     // payload that this side sent, bytes/s
	Back    float64 `json:"back,omitempty"`    // payload that the other side sent, bytes/s
	Memory  string  `json:"memory,omitempty"`  // the access of the leader's HCA: dmabuf, peermem
	Peer    string  `json:"peer,omitempty"`    // and of the other one
	Cause   string  `json:"cause,omitempty"`   // why there is no result: CauseNoGPU, or a verbs.Cause
	Skipped string  `json:"skipped,omitempty"` // in words
	There   bool    `json:"there,omitempty"`   // the cause is at the other end
}

// CauseNoGPU is the cause where one of the ends has no GPU next to the port.
const CauseNoGPU = "none-beside"

const (
	// cudaStart is the usual time that CUDA takes before a GPU's memory is available.
	cudaStart = time.Second
	// cudaBudget limits it: eight GPUs whose driver was not loaded before take seconds.
	cudaBudget = 8 * time.Second
)

// gpuShare is the share of a stream's time for this memory: both directions take as long as one between hosts.
const gpuShare = 2

// gpuTest returns the same test, shorter, between GPUs.
func (t Test) gpuTest() verbs.Test {
	out := t.writes()
	out.GPU = &verbs.GPU{PCI: t.Port.GPU.PCI, Peermem: t.Port.GPU.Peermem}
	out.Warm, out.Span = t.Warm/gpuShare, t.Span/gpuShare
	return out
}

// GPULimit returns the time that a test between GPUs may add.
func (t Test) GPULimit() time.Duration { return 2*((t.Warm+t.Span)/gpuShare+lateBudget) + cudaBudget }

// onGPU measures between GPUs if both ends have one; both get the same result. An error is no failure of the rail.
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

// carry adds the traffic between the GPUs to the rail's; unknown parts make the sum unknown.
func (r *Result) carry(t Test) {
	took := (t.Warm + t.Span) / gpuShare
	switch verbs.Cause(r.GPU.Cause) {
	case "":
		r.Out.Carried += t.carried(r.GPU.Out, took)
		r.Back.Carried += t.carried(r.GPU.Back, took)
	case CauseNoGPU, verbs.NoCUDA, verbs.NoGPU, verbs.GPUBusy, verbs.NoGPUDirect: // nothing was sent
	default:
		r.Out.Carried, r.Back.Carried = 0, 0
	}
}

// turned returns it from the other end's view.
func (g *OnGPU) turned() *OnGPU {
	if g == nil {
		return nil
	}
	o := *g
	o.Out, o.Back, o.Memory, o.Peer = g.Back, g.Out, g.Peer, g.Memory
	o.There = g.Cause != "" && !g.There
	return &o
}
