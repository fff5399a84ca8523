package rendezvous

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestASealThatFailedLeavesItsPlacesToTheNext: the next try writes what has
// changed, and all anew only where another leader may have deleted them.
func TestASealThatFailedLeavesItsPlacesToTheNext(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: -1, Size: 1000, Host: "a"}) // too few come for a seal of its own
		for !a.leads() || a.known().State != Open {
			time.Sleep(5 * time.Millisecond)
		}
		l, err := a.takeOver(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var list []Member
		for i := range 300 {
			list = append(list, Member{Index: -1, ID: fmt.Sprintf("id%03d", i), Host: fmt.Sprint("host", i)})
		}
		stored := func() (out map[string]string, newest []int64) {
			r, err := a.cli.Get(ctx, a.k.worlds(), clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			out = map[string]string{}
			for _, kv := range r.Kvs {
				out[string(kv.Key)], newest = string(kv.Value), append(newest, kv.ModRevision)
			}
			return out, newest
		}
		try := func() (nonce string, written int) {
			_, before := stored()
			if ok, err := l.drafts(ctx, list); !ok || err != nil {
				t.Fatalf("not written: %v %v", ok, err)
			}
			want := map[string]string{}
			for rank, p := range seated(list) {
				want[a.k.place(l.draft.nonce, list[rank])] = encode(p)
			}
			got, after := stored()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if len(l.places) != len(list) {
				t.Errorf("the leader knows %d places, want %d", len(l.places), len(list))
			}
			last := int64(0)
			if len(before) > 0 {
				last = slices.Max(before)
			}
			for _, mod := range after {
				if mod > last {
					written++
				}
			}
			return l.draft.nonce, written
		}
		first, n := try()
		if n != len(list) {
			t.Errorf("%d places written at first, want %d", n, len(list))
		}
		if nonce, n := try(); nonce != first || n != 0 {
			t.Errorf("the same list: nonce %s after %s, %d written, want none", nonce, first, n)
		}
		list[7].ID = "came-in-its-place"
		if nonce, n := try(); nonce != first || n != 1+most {
			t.Errorf("one has changed: nonce %s after %s, %d written, want it and its partners", nonce, first, n)
		}
		l.draft.create--
		if nonce, n := try(); nonce == first || n != len(list) {
			t.Errorf("another may have led: nonce %s after %s, %d written, want all", nonce, first, n)
		}
	})
}
