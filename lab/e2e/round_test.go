package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// roundTimeout is the nodes' --join-timeout: longer than all faults of a round
	// together take, a lease and elections included.
	roundTimeout = 60 * time.Second
	// twinTimeout is the --join-timeout of two nodes with one index, one of which
	// waits in vain.
	twinTimeout = 30 * time.Second
	// overtime is how much later than its --join-timeout a node may end.
	overtime = 15 * time.Second
	// hopeless is how long after the end of the others a waiting node counts as
	// left out: longer than a lease.
	hopeless = 12 * time.Second
)

// proc is one launch of a round.
type proc struct {
	*node
	host  int
	index int
	last  time.Time // the latest time of its end
	hit   bool      // ended by a signal of the round
}

// launch starts a node.
func (r *round) launch(host int) {
	timeout := roundTimeout
	if r.twin && r.index[host] == r.index[3] {
		timeout = twinTimeout
	}
	flags := []string{"--join-timeout", timeout.String()}
	if r.index[host] >= 0 {
		flags = append(flags, "--node-rank", fmt.Sprint(r.index[host]))
	}
	p := &proc{node: r.start(host, flags...), host: host, index: r.index[host], last: time.Now().Add(timeout + overtime)}
	r.live[host] = p
	r.procs = append(r.procs, p)
}

// ended reports whether it has ended.
func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// settle waits until a condition holds, at most as long as each node may wait.
func (r *round) settle(until func() bool) {
	r.t.Helper()
	for !until() {
		for _, p := range r.procs {
			if !p.ended() && time.Now().After(p.last) {
				r.t.Fatalf("%s still runs %s after its --join-timeout", p.name, overtime)
			}
		}
		r.revive()
		pause(r.t, 50*time.Millisecond)
	}
}

// revive starts an unfit node again, for which the others wait. It was unfit because
// it could not reach rank 0 for 8 s while one of the two was cut off or stopped.
func (r *round) revive() {
	for host, p := range r.live {
		if r.apart && p != nil && p.ended() && p.status() == 65 {
			r.t.Logf("host%d was unfit; start it again", host)
			p.hit = true
			r.launch(host)
		}
	}
}

// over reports whether all have ended.
func (r *round) over() bool {
	return !slices.ContainsFunc(r.procs, func(p *proc) bool { return !p.ended() })
}

// ran returns the processes that ended with 0.
func ran(procs []*proc) (out []*proc) {
	for _, p := range procs {
		if p.ended() && p.status() == 0 {
			out = append(out, p)
		}
	}
	return out
}

// stranded reports whether a node that was started again waits in vain, because the
// others started with its former process. This is correct behaviour: the others
// notice a node that dies after its last message only when its lease runs out.
func (r *round) stranded() bool {
	ended := 0
	for _, p := range r.procs {
		if p.ended() {
			ended++
		}
	}
	if ended != r.ends {
		r.ends, r.lastEnd = ended, time.Now()
	}
	n := len(ran(r.procs))
	return r.reborn && n > 0 && n < 3 && time.Since(r.lastEnd) > hopeless
}

// again starts the nodes that have ended, in addition to those that wait, and checks
// that they form a whole world.
func (r *round) again() {
	first := slices.DeleteFunc(slices.Clone(r.procs), func(p *proc) bool { return !p.ended() })
	r.world(first)
	for host := range 3 {
		if r.live[host].ended() {
			r.launch(host)
		}
	}
	r.settle(r.over)
	r.complete(slices.DeleteFunc(slices.Clone(r.procs), func(p *proc) bool { return slices.Contains(first, p) }))
}

// complete checks that the processes formed one whole world, except for those that
// lost their index to another.
func (r *round) complete(procs []*proc) {
	r.t.Helper()
	if n := r.world(procs); n != 3 {
		r.t.Errorf("%d ranks have run; want 3", n)
	}
	well := ran(procs)
	for _, p := range procs {
		p.ownWords()
		won := func(w *proc) bool { return w.index >= 0 && w.index == p.index }
		switch code := p.status(); {
		case code == 0:
		case p.hit && (code == 130 || code == 137 || code == 65):
		case (code == 73 || code == 75) && slices.ContainsFunc(well, won): // another one ran with its index
		case code == 69 && r.members == nil && slices.ContainsFunc(well, won): // and the store ended with it
		default:
			r.t.Errorf("%s, index %d: exit %d", p.name, p.index, code)
		}
	}
}

// world checks that all ranks that ran belong to one world, each on its own node, and
// returns their number.
func (r *round) world(procs []*proc) int {
	r.t.Helper()
	host := map[int]*proc{} // of each rank
	masters := map[string]bool{}
	for _, p := range procs {
		out := p.out.String()
		if out == "" && p.status() != 0 {
			continue
		}
		var rank, size, port int
		var addr string
		if n, _ := fmt.Sscanf(out, "rank %d of %d at %s %d", &rank, &size, &addr, &port); n != 4 ||
			strings.Count(out, "\n") != 1 || size != 3 {
			r.t.Errorf("%s, exit %d: %q; want one rank of 3", p.name, p.status(), out)
			continue
		}
		if host[rank] != nil {
			r.t.Errorf("rank %d is both %s and %s", rank, host[rank].name, p.name)
		}
		if rank < 0 || rank > 2 || p.index >= 0 && p.index != rank {
			r.t.Errorf("%s, index %d, is rank %d", p.name, p.index, rank)
		}
		host[rank] = p
		masters[fmt.Sprintf("%s:%d", addr, port)] = true
		if first := host[0]; first == p && addr != r.lab.Hosts[p.host].Addr {
			r.t.Errorf("rank 0 is %s and MASTER_ADDR is %s", p.name, addr)
		}
	}
	if len(masters) > 1 {
		r.t.Errorf("one job has several master addresses: %v", masters)
	}
	return len(host)
}

// alone checks that no process of the nodes still runs.
func (r *round) alone() {
	r.t.Helper()
	limit := time.Now().Add(5 * time.Second)
	for _, h := range r.lab.Hosts[:4] {
		left := h.Processes()
		for ; len(left) > 0 && time.Now().Before(limit); left = h.Processes() {
			pause(r.t, 50*time.Millisecond)
		}
		if len(left) > 0 {
			r.t.Errorf("%s: still running: %q", h.Name, left)
		}
	}
}
