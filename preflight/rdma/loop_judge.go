package rdma

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
)

// judgeLoops makes one finding of each cause, else one of all ports.
func judgeLoops(in preflight.Input, all []looped) []finding.Finding {
	type kind struct {
		status finding.Status
		cause  verbs.Cause
	}
	failed := map[kind][]looped{}
	var order []kind
	var good []looped
	var untold []string
	for _, l := range all {
		if l.err == nil {
			good = append(good, l)
			continue
		}
		if l.err.Cause == verbs.Memlock && (in.Node.System.IPCLock || in.Node.Limits.Memlock >= loopLocks) {
			e := *l.err // there is a limit, but not one that this has reached
			e.Cause, l.err = verbs.Resources, &e
		}
		k := kind{loopStatus(l, idle(all)), l.err.Cause}
		switch {
		case k.status == finding.Skip:
			untold = append(untold, fmt.Sprintf("%s (%s)", l.Name, l.err.Text))
			continue
		case failed[k] == nil:
			order = append(order, k)
		}
		failed[k] = append(failed[k], l)
	}
	var out []finding.Finding
	for _, k := range order {
		out = append(out, loopFails(in, k.status, failed[k], len(all)))
	}
	switch {
	case len(out) > 0:
		return out
	case len(good) == 0:
		return preflight.Skip("could not tell: " + preflight.Some(untold))
	}
	return []finding.Finding{loopPasses(good, untold)}
}

// loopStatus: a fail only of what NCCL meets for certain, when it has chosen the
// port and nothing takes it back. A device that does not open, or does not tell of
// itself, it passes over (ncclIbInit in src/transport/net_ib).
func loopStatus(l looped, idle bool) finding.Status {
	switch c := l.err.Cause; c {
	case verbs.NoRC, verbs.NoLibrary, verbs.NoStack, verbs.Late, verbs.Wrong, verbs.PeerGone:
		return finding.Skip
	case verbs.Stuck:
		if !idle {
			return finding.Skip
		}
	case verbs.Other:
		if l.err.Errno == 0 && l.err.Status == 0 { // neither system nor device has said anything
			return finding.Skip
		}
	case verbs.NoGID, verbs.Unreachable, verbs.Lost, verbs.Rejected:
		if c == verbs.NoGID && l.GID < 0 || !reachesItself(l.Port) { // rdma.gid tells the first
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

// idle tells that the machine had time for those ports that answered. On a busy one
// a driver that hangs and a process that has not had its turn look alike.
func idle(all []looped) bool {
	slowest := time.Duration(0)
	for _, l := range all {
		if l.err == nil {
			slowest = max(slowest, l.took)
		}
	}
	good := slices.ContainsFunc(all, func(l looped) bool { return l.err == nil })
	return good && slowest < loopBudget/4
}

// reachesItself tells cards that are known to bring a port's packets back to it.
func reachesItself(p rail.Port) bool {
	return slices.Contains([]string{"mlx5_core", "mlx4_core", "rdma_rxe"}, p.Card.Driver)
}

// loopFails is the finding of the ports that failed in one way.
func loopFails(in preflight.Input, status finding.Status, ports []looped, of int) finding.Finding {
	first := ports[0]
	var names, devices []string
	f := finding.Finding{Status: status}
	for _, l := range ports {
		names = append(names, l.Name)
		if !slices.Contains(devices, l.HCA) {
			devices = append(devices, l.HCA)
		}
		if len(f.Seen) < preflight.MaxSeen {
			f = f.See("loopback of "+l.Name, "%s", l.err.Text)
		}
	}
	does := "cannot carry data to itself"
	if first.err.Cause == verbs.Corrupt {
		does = "changes the data that it carries"
	}
	f.What = fmt.Sprintf("%s %s: %s", first.Name, does, first.err.Text)
	if len(ports) > 1 {
		f.What = fmt.Sprintf("%d of %s fail alike (%s): %s %s: %s", len(ports), preflight.Count(of, "RDMA port"), preflight.Some(names), first.Name, does, first.err.Text)
	}
	f.Fix = fixFor(in, first.err.Cause, first.Card)
	switch {
	case len(ports) == of:
	case in.Ports != nil:
		f.Fix += "; until then take it out of NCCL_IB_HCA"
	default:
		f.Fix += "; until then leave it out: NCCL_IB_HCA=^=" + strings.Join(devices, ",")
	}
	switch {
	case first.err.Cause == verbs.Corrupt:
		return f.Breaking("the job computes with wrong numbers, or dies of them")
	case first.err.AtOpen():
		return f.Breaking("NCCL passes over it and says so only in its log: with fewer rails than other nodes have it is slower, or hangs")
	case status == finding.Fail:
		return f.Breaking("NCCL takes the port, and the job dies in its first collective (ncclSystemError)")
	}
	return f.Breaking("NCCL takes the port without having tried it, and may hang or die in its first collective")
}

// loopPasses tells what was measured.
func loopPasses(good []looped, untold []string) finding.Finding {
	f := finding.Passf("")
	least, most := time.Duration(0), time.Duration(0)
	for _, l := range good {
		var figures []string
		for _, s := range l.result.Sizes {
			figures = append(figures, fmt.Sprintf("%s in %s, %s", preflight.Size(uint64(s.Write.Size)), preflight.Micros(s.Write.Median), preflight.Speed(s.Speed)))
		}
		f = f.See("loopback of "+l.Name, "%s", strings.Join(figures, "; "))
		if len(l.result.Sizes) > 0 {
			short := l.result.Sizes[0].Write.Median
			if least == 0 || short < least {
				least = short
			}
			most = max(most, short)
		}
	}
	f.What = fmt.Sprintf("%s: what is written and sent comes back as it was, in %s", preflight.Count(len(good), "port"), preflight.Micros(least))
	if most > least {
		f.What += " to " + preflight.Micros(most)
	}
	if len(untold) > 0 {
		f.What += "; could not tell of " + preflight.Some(untold)
	}
	return f
}
