package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

	// loopLong is the longer of two messages: several packets and pages. The memory locked for them and for the
	// queues is below loopLocks, which is less than NCCL locks for one connection's queues and buffers.
	loopLong  = 64 << 10
	loopLocks = 1 << 20
)

// looped is the result of a port's loopback.
type looped struct {
	rail.Port
	result verbs.LoopResult
	err    *verbs.Error
	status finding.Status // of the failure
	took   time.Duration
}

// rdmaLoop makes each port that the job would use send data to itself: NCCL tries none before its first collective.
func rdmaLoop(ctx context.Context, in preflight.Input) []finding.Finding {
	ports, why := loopPorts(in)
	if why != "" {
		return finding.Skips(why)
	}
	all := make([]looped, len(ports))
	var wg sync.WaitGroup
	for i, p := range ports {
		wg.Go(func() {
			t := verbs.Test{Device: p.HCA, Port: p.Port, GID: p.GID, PKey: partition(in), Sizes: []int{64, loopLong},
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
	rails := ports(in)
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

// judgeLoops returns one finding for each cause, or one for all ports.
func judgeLoops(in preflight.Input, all []looped) []finding.Finding {
	var failed [][]looped // by status and cause
	var good []looped
	var unknown []string
	for _, l := range all {
		if l.err == nil {
			good = append(good, l)
			continue
		}
		if l.err.Cause == verbs.Memlock && (in.Node.System.IPCLock || in.Node.Limits.Memlock >= loopLocks) {
			e := *l.err // a limit exists, but this port did not reach it
			e.Cause, l.err = verbs.Resources, &e
		}
		l.status = loopStatus(l, idle(all))
		if l.status == finding.Skip {
			unknown = append(unknown, fmt.Sprintf("%s (%s)", l.Name, l.err.Text))
			continue
		}
		i := slices.IndexFunc(failed, func(o []looped) bool {
			return o[0].status == l.status && o[0].err.Cause == l.err.Cause
		})
		if i < 0 {
			i, failed = len(failed), append(failed, nil)
		}
		failed[i] = append(failed[i], l)
	}
	var out []finding.Finding
	for _, ports := range failed {
		out = append(out, loopFails(in, ports, len(all)))
	}
	switch {
	case len(out) > 0:
		return out
	case len(good) == 0:
		return finding.Skips("could not tell: " + finding.Some(unknown))
	}
	return []finding.Finding{loopPasses(good, unknown)}
}

// loopStatus is a failure only for what NCCL meets for certain, once it has chosen the port and cannot give it up.
// It passes over a device that does not open or does not answer (ncclIbInit in src/transport/net_ib).
func loopStatus(l looped, idle bool) finding.Status {
	switch c := l.err.Cause; c {
	case verbs.NoRC, verbs.NoLibrary, verbs.NoStack, verbs.Late, verbs.Wrong, verbs.PeerGone:
		return finding.Skip
	case verbs.Stuck:
		if !idle {
			return finding.Skip
		}
	case verbs.Other:
		if l.err.Errno == 0 && l.err.Status == 0 { // neither system nor device reported anything
			return finding.Skip
		}
	case verbs.NoGID, verbs.Unreachable, verbs.Lost, verbs.Rejected:
		if c == verbs.NoGID && l.GID < 0 || !reachesItself(l.Port) { // rdma.gid reports the first
			return finding.Skip
		}
	case verbs.Permission, verbs.Gone, verbs.NotHere, verbs.Corrupt:
		if !l.err.AtOpen() {
			return finding.Fail
		}
	case verbs.Memlock:
		return finding.Fail
	}
	return finding.Warn
}

// idle reports whether the machine had time for those ports that answered. On a busy one
// a driver that hangs and a process that waits for its turn look the same.
func idle(all []looped) bool {
	good := false
	for _, l := range all {
		if l.err == nil && l.took >= loopBudget/4 {
			return false
		}
		good = good || l.err == nil
	}
	return good
}

// reachesItself reports whether a card is known to deliver a port's packets back to it.
func reachesItself(p rail.Port) bool {
	return slices.Contains([]string{"mlx5_core", "mlx4_core", "rdma_rxe"}, p.Card.Driver)
}

// loopFails returns the finding for the ports that failed in one way.
func loopFails(in preflight.Input, ports []looped, of int) finding.Finding {
	first := ports[0]
	var names, devices []string
	f := finding.Finding{Status: first.status}
	for _, l := range ports {
		names = append(names, l.Name)
		if !slices.Contains(devices, l.HCA) {
			devices = append(devices, l.HCA)
		}
		if len(f.Seen) < finding.MaxSeen {
			f = f.See("loopback of "+l.Name, "%s", l.err.Text)
		}
	}
	does := "cannot carry data to itself"
	if first.err.Cause == verbs.Corrupt {
		does = "changes the data that it carries"
	}
	f.What = fmt.Sprintf("%s %s: %s", first.Name, does, first.err.Text)
	if len(ports) > 1 {
		f.What = fmt.Sprintf("%d of %s fail alike (%s): %s %s: %s", len(ports), finding.Count(of, "RDMA port"),
			finding.Some(names), first.Name, does, first.err.Text)
	}
	f.Fix = fixFor(in, first.err.Cause, first.Card)
	switch {
	case len(ports) == of:
	case in.Ports != nil:
		f.Fix += "\nuntil then take it out of NCCL_IB_HCA"
	default:
		f.Fix += "\nuntil then leave it out: NCCL_IB_HCA=^=" + strings.Join(devices, ",")
	}
	switch {
	case first.err.Cause == verbs.Corrupt:
		return f.Breaking("the job computes with wrong numbers, or dies of them")
	case first.err.AtOpen():
		return f.Breaking("NCCL passes over it and reports it only in its log: " +
			"with fewer rails than other nodes it is slower, or hangs")
	case first.status == finding.Fail:
		return f.Breaking("NCCL takes the port, and the job dies in its first collective (ncclSystemError)")
	}
	return f.Breaking("NCCL takes the port without trying it, and may hang or die in its first collective")
}

// loopPasses returns a pass with the measurements.
func loopPasses(good []looped, unknown []string) finding.Finding {
	f := finding.Passf("")
	least, most := time.Duration(0), time.Duration(0)
	for _, l := range good {
		figures := finding.Map(l.result.Sizes, func(s verbs.LoopSize) string {
			return fmt.Sprintf("%s in %s, %s", finding.Size(uint64(s.Write.Size)),
				finding.Micros(s.Write.Median), finding.Speed(s.Speed))
		})
		f = f.See("loopback of "+l.Name, "%s", strings.Join(figures, "; "))
		if len(l.result.Sizes) > 0 {
			short := l.result.Sizes[0].Write.Median
			if least == 0 || short < least {
				least = short
			}
			most = max(most, short)
		}
	}
	f.What = fmt.Sprintf("%s: all data came back unchanged, in %s",
		finding.Count(len(good), "port"), finding.Micros(least))
	if most > least {
		f.What += " to " + finding.Micros(most)
	}
	if len(unknown) > 0 {
		f.What += "; could not tell of " + finding.Some(unknown)
	}
	return f
}
