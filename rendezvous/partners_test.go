package rendezvous

import (
	"fmt"
	"launch/rendezvous/protocol"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPartnersAreMutualFewAndNeverOneself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 12_000).Draw(t, "size")
		rank := rapid.IntRange(0, size-1).Draw(t, "rank")
		mine := protocol.Partners(rank, size)
		if want := min(size-1, 4); len(mine) != want {
			t.Errorf("%d partners, want %d: %v", len(mine), want, mine)
		}
		if !slices.IsSorted(mine) || len(slices.Compact(slices.Clone(mine))) != len(mine) || slices.Contains(mine, rank) {
			t.Errorf("partners %v of rank %d are twice there, out of order or itself", mine, rank)
		}
		for _, other := range mine {
			if other < 0 || other >= size {
				t.Fatalf("rank %d of %d does not exist", other, size)
			}
			if theirs := protocol.Partners(other, size); !slices.Contains(theirs, rank) {
				t.Errorf("%d calls %d, which calls %v only", rank, other, theirs)
			}
		}
	})
}

// reached is how many ranks are reached from 0 by partners of which use says so.
func reached(size int, use func(from, to int) bool) int {
	seen := make([]bool, size)
	seen[0] = true
	for queue, n := []int{0}, 1; ; {
		if len(queue) == 0 {
			return n
		}
		from := queue[0]
		queue = queue[1:]
		for _, to := range protocol.Partners(from, size) {
			if !seen[to] && use(from, to) {
				seen[to], queue, n = true, append(queue, to), n+1
			}
		}
	}
}

func TestPartnersConnectAllNodesInTwoWays(t *testing.T) {
	for size := 2; size < 1200; size++ {
		near := func(from, to int) bool { d := (to - from + size) % size; return d == 1 || d == size-1 }
		far := func(from, to int) bool { return !near(from, to) }
		if n := reached(size, near); n != size {
			t.Errorf("%d nodes: the neighbours reach %d", size, n)
		}
		if size < 7 { // all others, but for one of six
			if n := reached(size, func(int, int) bool { return true }); n != size {
				t.Errorf("%d nodes: %d are reached", size, n)
			}
			continue
		}
		if n := reached(size, far); n != size {
			t.Errorf("%d nodes: the far ones alone reach %d", size, n)
		}
	}
}

// same compares addresses, whose fields are their own.
var same = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestANodeKnowsItsPartnersAndOnRequestEveryone(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		const n = 130 // more than a page
		ctx := short(t, 30*time.Second)
		var nodes []*node
		var chs []<-chan joined
		for i := range n {
			nodes = append(nodes, b.enter(Member{Index: -1, Size: n, Host: fmt.Sprint("h", i), Peer: 1000 + i}))
			chs = append(chs, nodes[i].join(ctx))
		}
		want := make([]Partner, n)
		ws := worlds(t, chs...)
		for i, w := range ws {
			m := w.Self
			want[w.Rank] = Partner{Rank: w.Rank, ID: m.ID, Name: m.Name(), Addr: m.Addr, Peer: 1000 + i}
		}
		for _, w := range ws {
			var mine []Partner
			for _, rank := range protocol.Partners(w.Rank, n) {
				mine = append(mine, want[rank])
			}
			if diff := cmp.Diff(mine, w.Partners, same); diff != "" {
				t.Fatalf("partners of rank %d (-want +got):\n%s", w.Rank, diff)
			}
		}
		all, err := nodes[7].Everyone(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, all, same); diff != "" {
			t.Errorf("everyone (-want +got):\n%s", diff)
		}
	})
}
