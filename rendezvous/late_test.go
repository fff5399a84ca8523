package rendezvous

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"launch/rendezvous/memstore"
)

// gone is three nodes that have all read that they may start; those of acks
// have said so.
func gone(t *testing.T, b *bench, acks ...int) []*node {
	t.Helper()
	ctx := short(t, 20*time.Second)
	var nodes []*node
	var chs []<-chan joined
	for i := range 3 {
		n := b.enter(Member{Index: i, Vouch: Typed, Size: 3, Host: string(rune('a' + i))})
		nodes, chs = append(nodes, n), append(chs, n.join(ctx))
	}
	worlds(t, chs...)
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			if _, err := n.Round(ctx, "go", nil, concat); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, i := range acks {
		nodes[i].Start(ctx)
	}
	return nodes
}

func TestWhoHasNotStartedInTimeIsNamedByTheOthers(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.startTimeout = 2 * time.Second
		nodes := gone(t, b, 0, 1)
		for _, n := range nodes[:2] {
			if e := n.notified(t, Late); e.Text != "node rank 2, node 2 c (10.0.0.1), has not started" {
				t.Errorf("%s got %q", n.me().Host, e.Text)
			}
		}
	})
}

func TestWhoIsLostAfterTheStartIsNamedAndWhoseCommandEndedIsNot(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.startTimeout = 30 * time.Second
		nodes := gone(t, b, 0, 1, 2)
		nodes[1].Leave("its command has ended")
		nodes[2].die()
		if e := nodes[0].notified(t, Gone); !strings.Contains(e.Text, "node 2 c") || !strings.HasSuffix(e.Text, "was lost") {
			t.Errorf("got %q", e.Text)
		}
		nodes[0].mu.Lock()
		defer nodes[0].mu.Unlock()
		for _, e := range nodes[0].events {
			if (e.Kind == Late || e.Kind == Gone) && strings.Contains(e.Text, "rank 1") {
				t.Errorf("got %q, but its command ended", e.Text)
			}
		}
	})
}

func TestWhoseCommandFailsIsNamedToTheOthers(t *testing.T) {
	for failed, name := range []string{"the leader", "another node"} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, b *bench) {
				b.startTimeout = 30 * time.Second
				nodes := gone(t, b, 0, 1, 2)
				nodes[failed].Finished(3)
				nodes[failed].Leave("its command has ended")
				want := fmt.Sprintf("node rank %d, node %[1]d %c (10.0.0.1), failed: its command ended with 3", failed, 'a'+failed)
				if e := nodes[2].notified(t, Failed); e.Text != want {
					t.Errorf("got %q, want %q", e.Text, want)
				}
				nodes[1-failed].Finished(0)
				nodes[1-failed].Leave("its command has ended")
				time.Sleep(time.Second)
				nodes[2].mu.Lock()
				defer nodes[2].mu.Unlock()
				for _, e := range nodes[2].events {
					if (e.Kind == Gone || e.Kind == Failed) && e.Text != want {
						t.Errorf("got %q", e.Text)
					}
				}
			})
		})
	}
}

// Commands that end one after the other pass the lead on: the node that has it when it
// leaves, and does not know that yet, was not lost.
func TestWhoEndsAsItBecomesTheLeaderIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		b := &bench{t: t, store: memory{s}, job: "j", exact: true, startTimeout: 30 * time.Second}
		var links []*memstore.Link
		var nodes []*node
		var chs []<-chan joined
		for i := range 3 {
			l := s.Dial()
			n := b.enterBy(l.Client(), Member{Index: i, Vouch: Typed, Size: 3, Host: string(rune('a' + i))})
			links, nodes = append(links, l), append(nodes, n)
			if i == 0 {
				n.notified(t, Progress) // it leads
			}
			chs = append(chs, n.join(t.Context()))
		}
		worlds(t, chs...)
		var wg sync.WaitGroup
		for _, n := range nodes {
			wg.Go(func() {
				if _, err := n.Round(t.Context(), "go", nil, concat); err != nil {
					t.Error(err)
				}
				n.Start(t.Context())
			})
		}
		wg.Wait()
		for i, there := range []time.Duration{0, 500 * time.Millisecond, 600 * time.Millisecond} {
			links[i].SetFaults(func(r any) (memstore.Fault, time.Duration) {
				if puts(r, nodes[i].k.Leader) {
					return memstore.None, 2 * there // and as long back
				}
				return memstore.None, 0
			})
		}
		nodes[0].Leave("its command has ended")
		time.Sleep(700 * time.Millisecond) // the second node leads, which it has not heard
		nodes[1].Leave("its command has ended")
		time.Sleep(5 * time.Second)
		nodes[2].mu.Lock()
		for _, e := range nodes[2].events {
			if e.Kind == Late || e.Kind == Gone {
				t.Errorf("got %q, but its command ended", e.Text)
			}
		}
		nodes[2].mu.Unlock()
		nodes[2].Leave("")
	})
}

// TestHealthyRunsHearOfNoLoss: commands run for ten minutes, and end one after the other.
func TestHealthyRunsHearOfNoLoss(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			s := memstore.New()
			b := &bench{t: t, store: memory{s}, job: "j", exact: true, startTimeout: 30 * time.Second}
			var nodes []*node
			var chs []<-chan joined
			for i := range 3 {
				n := b.enterBy(s.Dial().Client(), Member{Index: i, Vouch: Typed, Size: 3, Host: string(rune('a' + i))})
				nodes, chs = append(nodes, n), append(chs, n.join(t.Context()))
			}
			worlds(t, chs...)
			var wg sync.WaitGroup
			for _, n := range nodes {
				runs := 10*time.Minute + time.Duration(dice.Int64N(int64(time.Minute)))
				wg.Go(func() {
					if _, err := n.Round(t.Context(), "go", nil, concat); err != nil {
						t.Error(err)
					}
					n.Start(t.Context())
					time.Sleep(runs)
					n.Leave("its command has ended")
				})
			}
			wg.Wait()
			for _, n := range nodes {
				for _, e := range n.events {
					if e.Kind == Late || e.Kind == Gone {
						t.Errorf("seed %d: %s got %q", seed, n.me().Host, e.Text)
					}
				}
			}
		})
	}
}
