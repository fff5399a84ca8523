package rdma

import (
	"context"
	"fmt"
	"strings"
	"time"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// errorsGap is the time between the two readings of the counters: enough for a link that
// fails all the time, and no delay next to the questions to the GPU driver.
const errorsGap = 500 * time.Millisecond

// rdmaErrors reads the counters of the rails twice. The links are idle, so only a bad link shows errors.
func rdmaErrors(ctx context.Context, in preflight.Input) []finding.Finding {
	if in.LinkErrors == nil {
		return finding.Skips("the counters of a recording or a dry run do not change")
	}
	ports := ports(in)
	before, err := readErrors(ctx, in, ports, 0)
	if err != nil {
		return finding.Skips(fmt.Sprintf("could not tell: %v", err))
	}
	began := time.Now()
	after, err := readErrors(ctx, in, ports, errorsGap)
	if err != nil {
		return finding.Skips(fmt.Sprintf("could not tell: %v", err))
	}
	seconds := time.Since(began).Seconds()
	var out []finding.Finding
	for i, p := range ports {
		if f, bad := grown(p, before[i], after[i], seconds, in.Threshold("rdma.errors")); bad {
			out = append(out, f)
		}
	}
	return preflight.OrPass(out, "no error on %s within %.1f s", finding.Count(len(ports), "rail"), seconds)
}

// readErrors reads the counters of all ports after a pause.
func readErrors(ctx context.Context, in preflight.Input, ports []rail.Port, pause time.Duration) (
	out []fabric.LinkErrors, err error) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	for _, p := range ports {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		errors, err := in.LinkErrors(p.HCA, p.Port)
		if err != nil {
			return nil, err
		}
		out = append(out, errors)
	}
	return out, nil
}

// grown compares two readings. A smaller second value means that the counter was reset.
func grown(p rail.Port, a, b fabric.LinkErrors, seconds, limit float64) (finding.Finding, bool) {
	var what []string
	f := finding.Warnf("")
	for _, c := range []struct {
		file, word    string
		before, after uint64
		limit         float64
	}{
		{file: "link_downed", word: "times lost", before: a.Downed, after: b.Downed, limit: 0},
		{file: "symbol_error", word: "symbol errors", before: a.Symbols, after: b.Symbols, limit: limit},
		{file: "port_rcv_errors", word: "damaged packets", before: a.Packets, after: b.Packets, limit: limit},
	} {
		if c.after <= c.before || float64(c.after-c.before) <= c.limit*seconds {
			continue
		}
		what = append(what, fmt.Sprintf("%d %s", c.after-c.before, c.word))
		f = f.See("/sys/class/infiniband/"+p.File("counters/"+c.file), "%d, %.1f s later %d", c.before, seconds, c.after)
	}
	f.What = fmt.Sprintf("the link of %s is bad now: %s within %.1f s", p.Name, strings.Join(what, ", "), seconds)
	return f.Breaking("transfers over it are repeated or time out, and every collective waits for them").
		Do("mlxlink -d %s -m -c   # or ethtool -S %s; clean, reseat or replace the cable\nuntil then leave it out: "+
			"NCCL_IB_HCA=^=%s", p.PCI, p.Netdev, p.HCA), len(what) > 0
}
