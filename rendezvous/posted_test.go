package rendezvous

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatSomeRanksHavePostedIsReadAlone(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		const n = 5
		ctx := short(t, 30*time.Second)
		var nodes []*node
		var chs []<-chan joined
		for i := range n {
			nodes = append(nodes, b.enter(Member{Index: -1, Size: n, Host: fmt.Sprint("h", i), Peer: 1000 + i}))
			chs = append(chs, nodes[i].join(ctx))
		}
		ws := worlds(t, chs...)
		if got, err := nodes[0].Posted(ctx, "r", []int{1}); err != nil || len(got) != 1 || got[0] != nil {
			t.Errorf("before the round: %q, %v", got, err)
		}
		var wg sync.WaitGroup
		for i, node := range nodes {
			wg.Go(func() {
				mine := fmt.Appendf(nil, "of %d", ws[i].Rank)
				if _, err := node.Round(ctx, "r", mine, func([][]byte) ([]byte, bool) { return []byte("all"), false }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got, err := nodes[0].Posted(ctx, "r", []int{4, 2})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]byte{[]byte("of 4"), []byte("of 2")}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// After the go a rank may say something to all, and knows when all have heard it.
func TestARankIsHeardAfterTheGo(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		const n = 3
		ctx := short(t, 30*time.Second)
		var nodes []*node
		var chs []<-chan joined
		for i := range n {
			nodes = append(nodes, b.enter(Member{Index: -1, Size: n, Host: fmt.Sprint("h", i), Peer: 1000 + i}))
			chs = append(chs, nodes[i].join(ctx))
		}
		ws := worlds(t, chs...)
		var wg sync.WaitGroup
		start := func([][]byte) ([]byte, bool) { return []byte("go"), true }
		for i, node := range nodes {
			wg.Go(func() {
				if _, err := node.Round(ctx, "go", []byte("{}"), start); err != nil {
					t.Error(err)
				}
				if err := node.Start(ctx); err != nil {
					t.Error(err)
				}
				mine := []byte("well")
				if ws[i].Rank == 0 {
					time.Sleep(200 * time.Millisecond) // the others wait by then
					mine = []byte("it hangs")
				} else if got, err := node.Await(ctx, "hung", 0); err != nil || string(got) != "it hangs" {
					t.Errorf("rank %d hears %q, %v", ws[i].Rank, got, err)
				}
				node.Say("hung", mine)
				for rank := range n {
					if got, err := node.Await(ctx, "hung", rank); err != nil || (string(got) == "it hangs") != (rank == 0) {
						t.Errorf("rank %d reads %q of rank %d, %v", ws[i].Rank, got, rank, err)
					}
				}
			})
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if got, err := nodes[0].Await(ctx, "other", 1); err == nil || got != nil {
			t.Errorf("a round that nobody has posted to: %q, %v", got, err)
		}
	})
}
