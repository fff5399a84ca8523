package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"launch/rendezvous/memstore"
	"launch/rendezvous/protocol"
)

// saga is one job's troubles: its slots, in each of which one launch after the
// other is started, or two at a time, and their store.
type saga struct {
	store *memstore.Store
	slots []Member // what each slot's launches say of themselves
	loss  float64  // how often a request or its reply is lost
	slow  time.Duration
	dice  *rand.Rand

	calm  bool
	lives [][]*mvccpb.Event // of the stores that returned empty

	mu    sync.Mutex
	procs []*proc
	story []string
	began time.Time
}

// proc is one launch.
type proc struct {
	saga *saga
	name string
	slot int
	link *memstore.Link
	cli  *clientv3.Client
	s    *Session
	self Member
	stop context.CancelFunc
	done chan struct{}

	killed atomic.Bool // without a goodbye; set before stop
	err    error

	// below saga.mu
	joined  []World
	broken  []string // run ids
	started string   // the run id
	result  string
	ended   bool
	left    *departure
}

// departure is a proc's end as the store knows it: no lease, and at revision
// rev of that life it was gone.
type departure struct {
	life int
	rev  int64
}

func (g *saga) log(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.story = append(g.story, fmt.Sprintf("%8.3f ", time.Since(g.began).Seconds())+fmt.Sprintf(format, args...))
}

// faults is what a link does to requests, until the saga is calm.
func (g *saga) faults() func(any) (memstore.Fault, time.Duration) {
	dice := rand.New(rand.NewPCG(g.dice.Uint64(), 0))
	return func(any) (memstore.Fault, time.Duration) {
		var delay time.Duration
		if g.slow > 0 && dice.IntN(4) == 0 {
			delay = time.Duration(dice.Int64N(int64(g.slow)))
		}
		switch roll := dice.Float64(); {
		case roll < g.loss/2:
			return memstore.Refuse, delay
		case roll < g.loss:
			return memstore.DropReply, delay
		}
		return memstore.None, delay
	}
}

// launch starts a launch in a slot, which gives up when patience ends.
func (g *saga) launch(slot int, patience time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	p := &proc{saga: g, slot: slot, link: g.store.Dial(), stop: stop, done: make(chan struct{})}
	p.name = fmt.Sprintf("%d.%d", slot, len(g.procs))
	if !g.calm {
		p.link.SetFaults(g.faults())
	}
	p.cli = p.link.Client()
	self := g.slots[slot]
	self.Host = p.name
	p.s = Enter(context.Background(), p.cli, Config{Job: "j", Self: self, Events: func(e Event) {
		if e.Kind == Lost || e.Kind == Back {
			g.log("%s: %s %s", p.name, e.Kind, e.Text)
		}
	}})
	p.self = p.s.me()
	g.mu.Lock()
	g.procs = append(g.procs, p)
	g.mu.Unlock()
	g.log("%s starts, for %s", p.name, patience)
	go p.live(ctx, patience)
}

// live is what launch does: join until a world holds, then the go, then the
// run, and in the end a goodbye.
func (p *proc) live(ctx context.Context, patience time.Duration) {
	defer close(p.done)
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.err = p.start(wait); p.err == nil {
		p.s.Start(ctx)
		<-ctx.Done()
		p.saga.log("%s: its run is over", p.name)
	}
	if p.killed.Load() {
		p.s.stop()
		<-p.s.done
		p.note(func() { p.ended = true }, "is dead, %v", p.err)
	} else {
		p.s.Leave("it gave up")
		gone := p.gone()
		p.note(func() { p.ended, p.left = true, gone }, "leaves, %v; the store knows: %v", p.err, gone != nil)
	}
	p.cli.Close()
}

// gone is when the store knows no lease of this launch any more; nil: it has
// not heard the goodbye, or never knew one.
func (p *proc) gone() *departure {
	var d *departure
	var leases []int64
	p.s.state(func(n *protocol.Node) { leases = n.Leases() })
	for _, lease := range leases {
		held, life, rev := p.saga.store.Lease(clientv3.LeaseID(lease))
		if held {
			return nil
		}
		d = &departure{life, rev}
	}
	return d
}

// start returns once this launch has read the go.
func (p *proc) start(ctx context.Context) error {
	for {
		w, err := p.s.Join(ctx, time.Hour)
		if err != nil {
			return err
		}
		p.note(func() { p.joined = append(p.joined, w) }, "joins %s as rank %d", w.RunID, w.Rank)
		result, err := p.s.Round(ctx, "go", []byte(p.name+" "), concat)
		var broken *BrokenError
		if errors.As(err, &broken) {
			p.note(func() { p.broken = append(p.broken, w.RunID) }, "%v", err)
			continue
		}
		if err == nil {
			p.note(func() { p.started, p.result = w.RunID, string(result) }, "starts in %s", w.RunID)
		}
		return err
	}
}

func (p *proc) note(f func(), format string, args ...any) {
	p.saga.mu.Lock()
	f()
	p.saga.mu.Unlock()
	p.saga.log("%s "+format, append([]any{p.name}, args...)...)
}

// kill ends a launch from outside: by a signal that it answers with a goodbye,
// or by one that it does not live to see.
func (p *proc) kill(politely bool) {
	p.saga.log("%s is killed, politely: %v", p.name, politely)
	p.killed.Store(!politely)
	p.stop()
	<-p.done
}

func living(p *proc) bool  { return !p.ended }
func waiting(p *proc) bool { return !p.ended && p.started == "" }
func started(p *proc) bool { return !p.ended && p.started != "" }

// of are the launches of a slot that are so, the newest first.
func (g *saga) of(slot int, is func(*proc) bool) []*proc {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*proc
	for _, p := range slices.Backward(g.procs) {
		if p.slot == slot && is(p) {
			out = append(out, p)
		}
	}
	return out
}

// happening is one thing that happens to a slot, or to the store.
type happening struct {
	at       time.Duration
	what     string
	slot     int
	lasts    time.Duration
	politely bool
}

func drawSaga(t *rapid.T) (*saga, []happening) {
	g := &saga{
		loss: rapid.SampledFrom([]float64{0, 0, 0.02, 0.1}).Draw(t, "loss"),
		slow: rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, time.Second}).Draw(t, "slow"),
	}
	g.dice = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "dice"), 0))
	n := rapid.IntRange(2, 5).Draw(t, "nodes")
	kind := rapid.SampledFrom([]Vouch{ByArrival, Typed, Scheduled}).Draw(t, "indexes")
	for i := range n {
		m := Member{Index: -1, Size: n, Vouch: kind}
		if kind != ByArrival {
			m.Index = i
		}
		g.slots = append(g.slots, m)
	}
	slot := rapid.IntRange(0, n-1)
	var plan []happening
	for i := range n {
		plan = append(plan, happening{at: draw(t, 3*time.Second), what: "launch", slot: i, lasts: drawPatience(t)})
	}
	kinds := []string{"launch", "launch", "launch", "kill", "kill", "cut", "break", "expire", "wipe"}
	for range rapid.IntRange(0, 12).Draw(t, "happenings") {
		plan = append(plan, happening{at: draw(t, 30*time.Second), what: rapid.SampledFrom(kinds).Draw(t, "what"),
			slot:  slot.Draw(t, "slot"),
			lasts: drawPatience(t), politely: rapid.Bool().Draw(t, "politely")})
	}
	slices.SortStableFunc(plan, func(a, b happening) int { return int(a.at - b.at) })
	return g, plan
}

// draw is a time at which something happens; many things happen at once.
func draw(t *rapid.T, within time.Duration) time.Duration {
	return time.Duration(rapid.IntRange(0, int(within/(250*time.Millisecond))).Draw(t, "at")) * 250 * time.Millisecond
}

func drawPatience(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{250 * time.Millisecond, time.Second, 5 * time.Second, 12 * time.Second,
		time.Hour, time.Hour, time.Hour}).Draw(t, "for")
}

// happen lets one thing happen.
func (g *saga) happen(h happening) {
	procs := g.of(h.slot, living)
	switch {
	case h.what == "launch":
		g.launch(h.slot, h.lasts)
	case h.what == "wipe":
		g.log("the store vanishes for %s", min(h.lasts, 15*time.Second))
		g.lives = append(g.lives, g.store.Stop())
		time.AfterFunc(min(h.lasts, 15*time.Second), g.store.Restart)
	case len(procs) == 0:
	case h.what == "kill":
		procs[0].kill(h.politely)
	case h.what == "cut":
		g.log("%s is cut off for %s", procs[0].name, min(h.lasts, 15*time.Second))
		procs[0].link.Cut()
		time.AfterFunc(min(h.lasts, 15*time.Second), procs[0].link.Heal)
	case h.what == "break":
		procs[0].link.Break()
	case h.what == "expire":
		var lease clientv3.LeaseID
		procs[0].s.state(func(n *protocol.Node) { lease = clientv3.LeaseID(n.Lease()) })
		g.log("the lease of %s ends", procs[0].name)
		g.store.Expire(lease)
	}
}
