package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
)

const (
	// loopBudget limits all ports together: they are tried at the same time, each in a process of
	// its own. A connection that nothing acknowledges fails after half a second to two.
	loopBudget = 3 * time.Second

	// loopLong is the longer of two messages: several packets and pages. The memory
	// locked for them and for the queues is below loopLocks, which is less than NCCL
	// locks for one connection's queues and buffers.
	loopLong  = 64 << 10
	loopLocks = 1 << 20
)

// looped is the result of a port's loopback.
type looped struct {
	rail.Port
	result verbs.LoopResult
	err    *verbs.Error
	took   time.Duration
}

// rdmaLoop makes each port that the job would use send data to itself: NCCL tries none
// before its first collective.
func rdmaLoop(ctx context.Context, in preflight.Input) []finding.Finding {
	ports, why := loopPorts(in)
	if why != "" {
		return finding.Skips(why)
	}
	all := make([]looped, len(ports))
	var wg sync.WaitGroup
	for i, p := range ports {
		wg.Go(func() {
			t := verbs.LoopTest{Device: p.HCA, Port: p.Port, GID: p.GID, PKey: partition(in), Sizes: []int{64, loopLong},
				Pings: 20}
			began := time.Now()
			result, err := in.Loop(ctx, t, loopBudget)
			all[i] = looped{Port: p, result: result, took: time.Since(began)}
			if e, ok := errors.AsType[*verbs.Error](err); ok {
				all[i].err = e
			} else if err != nil {
				all[i].err = &verbs.Error{Cause: verbs.Other, Text: err.Error()}
			}
		})
	}
	wg.Wait()
	return judgeLoops(in, all)
}

// loopPorts returns the ports to try, or why there are none.
func loopPorts(in preflight.Input) ([]rail.Port, string) {
	if why := noRDMA(in); why != "" {
		return nil, why
	}
	v, ports := in.Node.Verbs, chosenPorts(in)
	some := len(ports) > 0
	// Without a connection manager only node type 1 has reliable connections: 4 is iWARP,
	// and EFA has none and no type (the kernel's enum rdma_node_type).
	ports = slices.DeleteFunc(ports, func(p rail.Port) bool { return p.Card.NodeType > 1 || p.Card.Driver == "efa" })
	switch {
	case in.Ports != nil && len(in.Ports) == 0:
		return nil, "the settings exclude all RDMA ports"
	case !some:
		return nil, "no RDMA port here that a job could use"
	case len(ports) == 0:
		return nil, "no port here has reliable connections: its own library makes others"
	case !v.Present:
		return nil, "could not tell: " + cmp.Or(v.Err, v.Absent, "libibverbs was not asked")
	case in.Loop == nil:
		return nil, "a recording or a dry run sends nothing"
	}
	return ports, ""
}

// chosenPorts returns the ports that the settings choose, else the rails. NCCL does not
// connect InfiniBand with Ethernet: where both are rails, InfiniBand remains.
func chosenPorts(in preflight.Input) []rail.Port {
	f := rail.Of(in.Node, in.Addr)
	rails := rail.PortsOf(in.Node, f)
	if in.Ports == nil {
		if slices.ContainsFunc(rails, func(p rail.Port) bool { return p.Facts.LinkLayer == "InfiniBand" }) {
			rails = slices.DeleteFunc(rails, func(p rail.Port) bool { return p.Facts.LinkLayer != "InfiniBand" })
		}
		return rails
	}
	var out []rail.Port
	for _, h := range in.Node.HCAs {
		for _, p := range h.Ports {
			if !slices.Contains(in.Ports, fmt.Sprintf("%s:%d", h.Name, p.Num)) {
				continue
			}
			i := slices.IndexFunc(rails, func(r rail.Port) bool { return r.HCA == h.Name && r.Port == p.Num })
			if i >= 0 {
				out = append(out, rails[i])
				continue
			}
			out = append(out, rail.Port{Rail: rail.Rail{HCA: h.Name, PCI: h.PCI, Port: p.Num, Netdev: p.Netdev, GID: -1},
				Name: h.Name, Card: h, Facts: p})
		}
	}
	return out
}

// partition returns the index of the partition key that NCCL uses.
func partition(in preflight.Input) int {
	for _, d := range in.Job.Decided {
		if n, err := strconv.Atoi(d.Value); d.Name == "NCCL_IB_PKEY" && err == nil {
			return n
		}
	}
	return 0
}
