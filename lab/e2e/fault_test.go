package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// TestOneWorldWhateverFails runs rounds of random faults, with an etcd of three
// members and with the embedded store. A round has three nodes, and sometimes a
// fourth that claims the index of another. LAUNCH_TEST_ROUNDS sets their number;
// LAUNCH_TEST_SEED repeats one, except for the machine's own delays.
func TestOneWorldWhateverFails(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		rounds(t, embedded(t, 4), nil)
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c, members := externalCluster(t, 4, 3)
		elected(t, members)
		rounds(t, c, members)
	})
}

// rounds runs them one after the other; without members host0 hosts the store.
func rounds(t *testing.T, c *cluster, members []*member) {
	c.line = []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR $MASTER_PORT"}
	drawn(t, 3, func(t *testing.T, seed uint64) {
		own := *c
		own.t = t
		own.flags = []string{"--nnodes", "3", "--job", fmt.Sprintf("seed-%d-%d", seed, os.Getpid())}
		r := &round{cluster: &own, rng: rand.New(rand.NewPCG(seed, 1)), members: members}
		r.draw()
		r.run()
	})
}

// drawn runs n rounds, each with a seed of its own, or as LAUNCH_TEST_SEED and LAUNCH_TEST_ROUNDS say.
func drawn(t *testing.T, n int, round func(t *testing.T, seed uint64)) {
	seed := uint64(time.Now().UnixNano() % 1e9)
	if s := os.Getenv("LAUNCH_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	if many, err := strconv.Atoi(os.Getenv("LAUNCH_TEST_ROUNDS")); err == nil {
		n = many
	}
	var failed []uint64
	for i := range uint64(n) {
		if !t.Run(fmt.Sprintf("LAUNCH_TEST_SEED=%d", seed+i), func(t *testing.T) { round(t, seed+i) }) {
			failed = append(failed, seed+i)
		}
	}
	t.Logf("%d rounds from seed %d on; failed: %v", n, seed, failed)
}

// round is one start of three nodes, with the faults during it.
type round struct {
	*cluster
	rng     *rand.Rand
	members []*member        // of the etcd; empty: host0 hosts the store
	index   [4]int           // the --node-rank of each host; -1: not given
	starts  [4]time.Duration // when each starts; the fourth only if twin is set
	twin    bool             // the fourth claims the index of another
	events  []event
	procs   []*proc // all processes so far
	live    [4]*proc
	reborn  bool // a node was ended and started again
	apart   bool // a node was cut off or stopped
	ends    int  // how many procs had ended
	lastEnd time.Time
}

// event happens at a time of the round. A repair happens even if the round has
// failed before.
type event struct {
	at     time.Duration
	what   string
	repair bool
	do     func()
}

func (r *round) within(from, to float64) time.Duration {
	return time.Duration((from + r.rng.Float64()*(to-from)) * float64(time.Second))
}

// about returns a time before all nodes have joined, or soon after.
func (r *round) about() time.Duration {
	return r.within(0, slices.Max(r.starts[:3]).Seconds()+0.5)
}

func (r *round) plan(at time.Duration, what string, do func()) {
	r.events = append(r.events, event{at: at, what: what, do: do})
}

func (r *round) repair(at time.Duration, what string, do func()) {
	r.events = append(r.events, event{at: at, what: what, repair: true, do: do})
}

// draw plans the round.
func (r *round) draw() {
	r.index = [4]int{-1, -1, -1, -1}
	hosts, free := r.rng.Perm(3), r.rng.Perm(3)
	for i := range r.rng.IntN(4) {
		r.index[hosts[i]] = free[i]
	}
	for host := range 3 {
		r.starts[host] = r.within(0, 1)
	}
	victims := r.rng.Perm(3)
	for i := range 1 + r.rng.IntN(2) {
		r.fault(victims[i])
	}
	for host := range 3 {
		r.plan(r.starts[host], fmt.Sprintf("start host%d, index %d", host, r.index[host]), func() { r.launch(host) })
	}
	if r.twin {
		r.plan(r.starts[3], fmt.Sprintf("start host3, index %d", r.index[3]), func() { r.launch(3) })
	}
	slices.SortStableFunc(r.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
}

// kinds are the kinds of fault; a repeated one is drawn more often.
var kinds = []string{
	"member", "member", "member", "leader", "leader", "pause", "cut", "cut", "mute", "mute", "kill", "kill",
	"interrupt", "interrupt", "cut member", "cut member", "late", "double", "double",
}

// fault plans one fault; if it affects a node, that is the victim.
func (r *round) fault(victim int) {
	at, host := r.about(), r.lab.Hosts[victim]
	kind := kinds[r.rng.IntN(len(kinds))]
	for r.members == nil && !hits(kind, victim) {
		kind = kinds[r.rng.IntN(len(kinds))]
	}
	switch kind {
	case "member":
		m := r.members[r.rng.IntN(len(r.members))]
		r.plan(at, "kill etcd on "+m.host.Name, m.kill)
		r.repair(at+r.within(0.3, 6), "start etcd again", m.start)
	case "leader":
		r.plan(at, "kill the leader of etcd", func() { leader(r.members).kill() })
		r.repair(at+r.within(0.3, 6), "start etcd again", func() {
			for _, m := range r.members {
				m.start()
			}
		})
	case "pause": // rare, because it takes longer than the lease
		at, r.apart = max(at, r.starts[victim]+r.within(0.05, 0.4)), true
		r.plan(at, "stop "+host.Name, func() { r.signal(victim, syscall.SIGSTOP) })
		r.repair(at+r.within(10.5, 14), "continue "+host.Name, func() { r.signal(victim, syscall.SIGCONT) })
	case "cut":
		r.apart = true
		r.plan(at, "cut "+host.Name, host.Cut)
		r.repair(at+r.within(1, 12), "heal "+host.Name, host.Heal)
	case "mute":
		r.mute(victim, at, at+r.within(0.5, 8))
	case "kill":
		r.rebirth(victim, "kill", func(*proc) { r.signal(victim, syscall.SIGKILL) })
	case "interrupt":
		r.rebirth(victim, "interrupt", func(p *proc) { _ = p.cmd.Process.Signal(syscall.SIGINT) })
	case "cut member":
		h := r.members[r.rng.IntN(len(r.members))].host
		r.plan(at, "cut etcd's "+h.Name, h.Cut)
		r.repair(at+r.within(1, 12), "heal "+h.Name, h.Heal)
	case "late":
		r.starts[victim] = r.within(3, 8)
	case "double":
		r.double(victim)
	}
}

// hits reports whether a kind of fault is possible for a node where host0 hosts the
// store. There are no members of an etcd, and no path from host0 to the store. Nor may
// two nodes claim the index of host0, which every world needs.
func hits(kind string, victim int) bool {
	switch kind {
	case "member", "leader", "cut member":
		return false
	case "mute", "double":
		return victim != 0
	}
	return true
}

// double gives the fourth node the index of the victim.
func (r *round) double(victim int) {
	if r.twin {
		return
	}
	for i := 0; r.index[victim] < 0; i++ {
		if !slices.Contains(r.index[:3], i) {
			r.index[victim] = i
		}
	}
	r.twin, r.index[3], r.starts[3] = true, r.index[victim], r.about()
}

// mute drops the store's answers to a node.
func (r *round) mute(victim int, from, to time.Duration) {
	h, stores := r.lab.Hosts[victim], r.lab.Hosts[:1]
	if r.members == nil { // the store host's calls to the victim fail too
		r.apart = true
	} else {
		stores = nil
		for _, m := range r.members {
			stores = append(stores, m.host)
		}
	}
	var muted []*netns.Host
	r.plan(from, "drop the store's answers to "+h.Name, func() {
		for _, store := range stores {
			store.Mute(h)
			muted = append(muted, store)
		}
	})
	r.repair(to, "deliver the store's answers to "+h.Name, func() {
		for _, store := range muted {
			store.Unmute(h)
		}
	})
}

// rebirth ends a node by a signal and starts it again, unless it ended before.
func (r *round) rebirth(victim int, how string, end func(*proc)) {
	at := max(r.about(), r.starts[victim]+r.within(0.05, 0.3))
	hit := false
	r.plan(at, fmt.Sprintf("%s host%d", how, victim), func() {
		p := r.live[victim]
		if hit = !p.ended(); hit {
			p.hit = true
			end(p)
		}
	})
	r.plan(at+r.within(0, 2), fmt.Sprintf("start host%d again, if that hit it", victim), func() {
		if hit {
			r.settle(func() bool { return r.live[victim].ended() })
			if r.live[victim].status() == 0 { // it had just ended with 0, so no node waits for it
				return
			}
			r.reborn = true
			r.launch(victim)
		}
	})
}

func (r *round) signal(host int, sig syscall.Signal) {
	if err := r.lab.Hosts[host].Signal(sig); err != nil {
		r.t.Error(err)
	}
}

// run runs the round and checks its outcome.
func (r *round) run() {
	began := time.Now()
	defer func() {
		for _, e := range r.events {
			if e.repair {
				e.do()
			}
		}
		r.t.Logf("%5.1f s: the end", time.Since(began).Seconds())
	}()
	for len(r.events) > 0 {
		e := r.events[0]
		pause(r.t, time.Until(began.Add(e.at)))
		r.events = r.events[1:]
		r.t.Logf("%5.1f s: %s", time.Since(began).Seconds(), e.what)
		e.do()
	}
	if r.settle(func() bool { return r.over() || r.stranded() }); r.over() {
		r.complete(r.procs)
	} else {
		r.t.Logf("%5.1f s: the others started with the ended node; start again", time.Since(began).Seconds())
		r.again()
	}
	r.alone()
}
