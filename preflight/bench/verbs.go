package bench

import (
	"context"
	"errors"
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
	r, err := confine.Run(ctx, verbs.Test{
		Device: t.Port.HCA, Port: t.Port.Num, GID: t.Port.GID, Lead: t.Lead,
		QPs: min(max(t.Streams, 1), maxStreams/2), Depth: verbsDepth, Sizes: []int{verbsWrite}, Warm: t.Warm, Span: t.Span,
		BothWays: true, PingSizes: []int{verbsPing}, Pings: max(t.Pings, 1), PingSpan: pingBudget,
	}, t.hostLimit(), verbs.Exchange(say))
	if err != nil {
		return Result{}, err
	}
	var out Result
	flow := func(speed float64) Flow {
		return Flow{Speed: speed, PMTU: r.MTU, Carried: t.carried(speed, t.Warm+t.Span)}
	}
	if len(r.Out) > 0 {
		out.Out = flow(r.Out[0].Speed)
	}
	if len(r.Back) > 0 {
		out.Back = flow(r.Back[0].Speed)
	}
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

// carried returns about how many bytes an end has written at a speed in a time, at most:
// what is in flight when Warm or Span ends is completed.
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
