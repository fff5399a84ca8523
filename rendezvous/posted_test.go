package rendezvous

import (
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
