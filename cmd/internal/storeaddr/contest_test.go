package storeaddr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is the nodes of a job and the stores at the addresses of their name.
type world struct {
	t      *testing.T
	mu     sync.Mutex                // of what follows, and of the stores
	want   int                       // nodes
	stores map[netip.Addr]*fakeStore // by the address of its host
	dark   map[netip.Addr]bool       // answers nothing, for ever
	views  func(node int, after time.Duration) []netip.Addr
	began  time.Time
	starts int // worlds that have started
	hosted int // stores that there were
}

// fakeStore is a store in the model: it has the nodes that are registered.
type fakeStore struct {
	order   string
	members map[int]bool
	begun   bool
	retired chan struct{}
}

// addrOf is the address of a node.
func addrOf(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n / 250), byte(1 + n%250)}) }

// node runs one node from its start to the start of its world, as launch does: it chooses, hosts or joins, and goes on
// looking where it hosts, or where its store is gone. It returns how long that took; 0: never.
func (w *world) node(ctx context.Context, n int) time.Duration {
	c := &Contest{
		Local: func(a netip.Addr) bool { return a == addrOf(n) },
		Resolve: func(context.Context) ([]netip.Addr, error) {
			return w.views(n, time.Since(w.began)), nil
		},
		Probe: func(ctx context.Context, at netip.Addr) (Rival, error) {
			if w.dark[at] {
				time.Sleep(time.Second)
			}
			time.Sleep(rand.N(20 * time.Millisecond))
			w.mu.Lock()
			defer w.mu.Unlock()
			s := w.stores[at]
			if s == nil || s.gone() {
				return Rival{}, errors.New("no store")
			}
			return Rival{At: at, Order: s.order, Begun: s.begun}, nil
		},
	}
	for ctx.Err() == nil {
		choice, err := c.Choose(ctx)
		if err != nil {
			return 0
		}
		if choice.Store != nil {
			w.mu.Lock()
			s := w.stores[choice.Store.At]
			w.mu.Unlock()
			if w.member(ctx, s, n) {
				return time.Since(w.began)
			}
			continue
		}
		time.Sleep(100*time.Millisecond + rand.N(900*time.Millisecond)) // the start of a store
		w.mu.Lock()
		w.hosted++
		s := &fakeStore{order: fmt.Sprintf("%03d %d", n, w.hosted), members: map[int]bool{}, retired: make(chan struct{})}
		w.stores[addrOf(n)] = s
		w.mu.Unlock()
		hosting, end := context.WithCancel(ctx)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			c.Yield(hosting, s.order, func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				if s.begun {
					return false
				}
				close(s.retired)
				return true
			})
		}()
		started := w.member(ctx, s, n)
		end()
		<-gone
		if started {
			return time.Since(w.began)
		}
	}
	return 0
}

func (s *fakeStore) gone() bool {
	select {
	case <-s.retired:
		return true
	default:
		return false
	}
}

// member registers a node and waits for the start of the world; false: the store is retired, or the time is up.
func (w *world) member(ctx context.Context, s *fakeStore, n int) bool {
	for {
		w.mu.Lock()
		if s.members[n] = !s.gone(); len(s.members) == w.want && !s.begun && !s.gone() {
			s.begun = true
			w.starts++
		}
		begun, gone := s.begun && s.members[n], s.gone()
		w.mu.Unlock()
		switch {
		case begun:
			return true
		case gone:
			return false
		}
		select {
		case <-s.retired:
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// start runs the nodes, node i after delays[i], and returns when the last one has started.
func (w *world) start(delays map[int]time.Duration) (took time.Duration) {
	w.t.Helper()
	synctest.Test(w.t, func(t *testing.T) {
		w.stores, w.began = map[netip.Addr]*fakeStore{}, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		ends := make(chan time.Duration)
		for n, after := range delays {
			go func() {
				time.Sleep(after)
				ends <- w.node(ctx, n)
			}()
		}
		for range delays {
			d := <-ends
			if d == 0 {
				w.t.Errorf("a node has not started; stores: %d", w.hosted)
			}
			took = max(took, d)
		}
	})
	if w.starts != 1 {
		w.t.Errorf("%d worlds started; want one", w.starts)
	}
	return took
}

// At random: 2 to 64 nodes whose views of the name grow in any order, late nodes, addresses without a node and such
// that drop packets. All nodes start in one world.
func TestOneStoreWhateverEachNodeSees(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(7)
		if seed%10 == 0 {
			n = 2 + r.IntN(63)
		}
		first := r.IntN(3) // so many addresses before the nodes' have no node
		all, nodes := n+first+r.IntN(3), make([]int, n)
		known := make([]time.Duration, all) // from when on an address is in the name
		dark := map[netip.Addr]bool{}
		for i := range known {
			known[i] = time.Duration(r.IntN(2)) * time.Duration(r.IntN(20_000)) * time.Millisecond
			dark[addrOf(i)] = (i < first || i >= first+n) && r.IntN(2) == 0
		}
		lag := make([]time.Duration, all) // by which the name server of a node is late
		delays, last := map[int]time.Duration{}, time.Duration(0)
		for i := range nodes {
			nodes[i] = first + i
			lag[nodes[i]] = time.Duration(r.IntN(2)) * time.Duration(r.IntN(10_000)) * time.Millisecond
			delays[nodes[i]] = time.Duration(r.IntN(2)) * time.Duration(r.IntN(8_000)) * time.Millisecond
			last = max(last, delays[nodes[i]])
		}
		for i := range known {
			for j := range lag {
				last = max(last, known[i]+lag[j])
			}
		}
		w := &world{t: t, want: n, dark: dark, views: func(node int, after time.Duration) (out []netip.Addr) {
			for i, from := range known {
				if i == node || after >= from+lag[node] { // a node sees its own address when it starts
					out = append(out, addrOf(i))
				}
			}
			rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
			return out
		}}
		took := w.start(delays)
		if limit := last + 30*time.Second; took > limit {
			t.Errorf("seed %d: %d nodes took %s; all were there, and seen, after %s", seed, n, took, last)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %d nodes, %d addresses", seed, n, all)
		}
	}
}

// Where all see all, there is one store from the beginning, and the first node hosts it.
func TestTheFirstAddressHostsTheStore(t *testing.T) {
	for _, n := range []int{2, 3, 16, 64} {
		delays, whole := map[int]time.Duration{}, []netip.Addr{}
		for i := range n {
			delays[i] = 0
			whole = append(whole, addrOf(i))
		}
		w := &world{t: t, want: n, views: func(int, time.Duration) []netip.Addr { return whole }}
		took := w.start(delays)
		if w.hosted != 1 || w.stores[addrOf(0)] == nil || took > 3*time.Second {
			t.Errorf("%d nodes: %d stores, in %s; the first one's: %v", n, w.hosted, took, w.stores[addrOf(0)])
		}
	}
}

// The first address is of a machine that runs no launch, or drops packets, or is of a pod that is 30 s late.
func TestAStoreWithoutTheFirstAddress(t *testing.T) {
	whole := []netip.Addr{addrOf(0), addrOf(1), addrOf(2)}
	views := func(int, time.Duration) []netip.Addr { return whole }
	for name, tt := range map[string]struct {
		dark   bool
		delays map[int]time.Duration
		limit  time.Duration
	}{
		"no launch":       {false, map[int]time.Duration{1: 0, 2: 0}, 4 * time.Second},
		"drops packets":   {true, map[int]time.Duration{1: 0, 2: 0}, 6 * time.Second},
		"a late pod":      {false, map[int]time.Duration{0: 30 * time.Second, 1: 0, 2: 0}, 32 * time.Second},
		"the late second": {false, map[int]time.Duration{0: 0, 1: 3 * time.Second, 2: 0}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, want: len(tt.delays), dark: map[netip.Addr]bool{addrOf(0): tt.dark}, views: views}
			if took := w.start(tt.delays); took > tt.limit || w.hosted != 1 {
				t.Errorf("%d stores, in %s; want one in %s", w.hosted, took, tt.limit)
			}
		})
	}
}

// A host that sees the store of a later one, which does not see it, goes there: its port is closed for the others.
func TestAHostThatNoOtherReachesYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Contest{
			Resolve: func(context.Context) ([]netip.Addr, error) { return []netip.Addr{addrOf(0), addrOf(1)}, nil },
			Local:   func(a netip.Addr) bool { return a == addrOf(0) },
			Probe:   func(_ context.Context, at netip.Addr) (Rival, error) { return Rival{At: at, Order: "1"}, nil },
		}
		began := time.Now()
		r, yielded := c.Yield(t.Context(), "0", func() bool { return true })
		if took := time.Since(began); !yielded || r.At != addrOf(1) || took < yields || took > 2*yields {
			t.Errorf("%v, %v after %s", r, yielded, took)
		}
	})
}

// Its own store at an address that is forwarded to this node is no rival, and a store whose job has begun stays.
func TestAStoreStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Contest{
			Resolve: func(context.Context) ([]netip.Addr, error) { return []netip.Addr{addrOf(0), addrOf(1)}, nil },
			Local:   func(a netip.Addr) bool { return a == addrOf(1) },
			Probe:   func(_ context.Context, at netip.Addr) (Rival, error) { return Rival{At: at, Order: "1"}, nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, yielded := c.Yield(ctx, "1", func() bool { return true }); yielded {
			t.Error("a node has retired its store for that same store")
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, yielded := c.Yield(ctx, "2", func() bool { return false }); yielded {
			t.Error("a store whose job has begun was retired")
		}
	})
}

func TestTurns(t *testing.T) {
	var last time.Duration
	for i := range 64 {
		now := turn(i)
		if i > 0 && now <= last || now > 30*time.Second {
			t.Errorf("turn %d: %s after %s", i, now, last)
		}
		last = now
	}
	c := &Contest{Known: []netip.Addr{netip.MustParseAddr("10.0.0.1"), addrOf(7), netip.MustParseAddr("fd00::1")},
		Local: func(a netip.Addr) bool { return a.Is6() || a == addrOf(7) }}
	if got := c.before(); !slices.Equal(got, []netip.Addr{addrOf(0)}) {
		t.Errorf("before this node's two addresses: %v", got)
	}
}

// A store that cannot be retired now, since it is slow, is asked again.
func TestARetirementThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Contest{
			Local:   func(a netip.Addr) bool { return a == addrOf(1) },
			Resolve: func(context.Context) ([]netip.Addr, error) { return []netip.Addr{addrOf(0), addrOf(1)}, nil },
			Probe: func(_ context.Context, at netip.Addr) (Rival, error) {
				return Rival{At: at, Order: "a"}, nil
			},
		}
		tries := 0
		r, yielded := c.Yield(t.Context(), "b", func() bool { tries++; return tries == 3 })
		if !yielded || r.At != addrOf(0) || tries != 3 {
			t.Errorf("%+v, %t after %d tries", r, yielded, tries)
		}
	})
}
