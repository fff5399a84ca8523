package rdma

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"launch/fabric/ofi"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

const (
	// efaBudget bounds what is asked of libfabric, all adapters together. They are tried at the same time, as many as
	// efaAtOnce: each is two processes that look for all devices.
	efaBudget = 3 * time.Second
	efaAtOnce = 8
)

// efaLoop has libfabric, through which NCCL's plugin uses EFA, list the adapters, and makes each carry data to itself.
func efaLoop(ctx context.Context, in preflight.Input) []finding.Finding {
	switch {
	case rail.Of(in.Node, in.Addr).Kind != rail.EFA:
		return finding.Skips("the fabric is not EFA")
	case in.OFI == nil:
		return finding.Skips("a recording or a dry run sends nothing")
	}
	programs, ok := in.OFI(in.Node.Software.Libfabric.Path)
	if !ok {
		return finding.Skips("could not tell: libfabric's own programs, fi_info and fi_pingpong, are not here")
	}
	ctx, cancel := context.WithTimeout(ctx, efaBudget)
	defer cancel()
	domains, err := programs.Domains(ctx, ofi.EFA)
	if err != nil {
		return finding.Skips("could not tell: " + err.Error())
	}
	ports := chosenPorts(in)
	var listed, missing []string
	for _, p := range ports {
		if d := p.HCA + "-rdm"; slices.Contains(domains, d) {
			listed = append(listed, d)
		} else {
			missing = append(missing, p.HCA)
		}
	}
	if len(missing) > 0 {
		f := finding.Warnf("libfabric does not find %d of %s: %s", len(missing), finding.Count(len(ports), "EFA"),
			finding.Some(missing)).
			See("fi_info -p efa -t FI_EP_RDM", "%s", finding.Count(len(domains), "domain"))
		return []finding.Finding{f.Breaking("NCCL's plugin uses what libfabric finds: with none NCCL takes TCP, with fewer "+
			"than other nodes it is slower, or hangs").
			Do("ls -l /dev/infiniband; ulimit -l; ldd %s   # the container needs the devices, and rdma-core of the EFA "+
				"installer", programs.Info)}
	}
	return judgeEFA(len(ports), tryEFA(ctx, programs, listed))
}

// triedEFA is the outcome of one adapter's test.
type triedEFA struct {
	domain string
	took   time.Duration // of a transfer
	err    error
}

func tryEFA(ctx context.Context, programs ofi.Programs, domains []string) []triedEFA {
	all := make([]triedEFA, len(domains))
	turn := make(chan struct{}, efaAtOnce)
	var wg sync.WaitGroup
	for i, d := range domains {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			took, err := programs.Loop(ctx, ofi.EFA, d)
			all[i] = triedEFA{d, took, err}
		})
	}
	wg.Wait()
	return all
}

// judgeEFA distinguishes adapters that fail from those that had no time.
func judgeEFA(of int, all []triedEFA) []finding.Finding {
	var failed, late, good []triedEFA
	for _, t := range all {
		e, known := errors.AsType[*ofi.Error](t.err)
		switch {
		case t.err == nil:
			good = append(good, t)
		case known && e.Late:
			late = append(late, t)
		default:
			failed = append(failed, t)
		}
	}
	name := func(t triedEFA) string { return t.domain }
	if len(failed) > 0 {
		first := failed[0]
		f := finding.Warnf("%d of %s cannot carry data to itself by libfabric: %s: %v", len(failed),
			finding.Count(of, "EFA"), first.domain, first.err)
		for _, t := range failed[:min(len(failed), finding.MaxSeen)] {
			f = f.See("fi_pingpong -d "+t.domain, "%v", t.err)
		}
		return []finding.Finding{f.Breaking("NCCL's plugin takes them without a trial, and the job hangs or dies in its "+
			"first collective").
			Do("fi_pingpong -p efa -e rdm -d %s & sleep 1; fi_pingpong -p efa -e rdm -d %s localhost   # repeats the test\n"+
				"ulimit -l   # EFA locks the memory that it uses", first.domain, first.domain)}
	}
	if len(good) == 0 {
		return finding.Skips("could not tell: no answer within " + efaBudget.String())
	}
	most := slices.MaxFunc(good, func(a, b triedEFA) int { return int(a.took - b.took) })
	f := finding.Passf("%s: all data came back unchanged, in %s at most", finding.Count(len(good), "EFA"),
		finding.Micros(most.took))
	if len(late) > 0 {
		f.What += "; could not tell of " + finding.Some(finding.Map(late, name))
	}
	return []finding.Finding{f}
}
