package protocol

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A seal that failed leaves its places to the next try, which writes the
// difference, and writes all again only where another leader may have deleted them.
func TestASealThatFailedLeavesItsPlacesToTheNext(t *testing.T) {
	n := New(Config{Job: "j", Self: Member{ID: "a", Index: -1}}, TableOf(Rules()))
	store := &simStore{leases: map[int64]bool{1: true}}
	store.transact(&Action{Then: []Op{{Do: Put, Key: n.k.Leader, Value: n.self, Lease: 1},
		{Do: Put, Key: n.k.Epoch, Value: Epoch{N: 1, State: Open, Size: 300}}}})
	n.phase, n.turn, n.lease, n.leadLease = Leading, math.MaxInt, 1, 1 // no turn is left
	n.ep, n.epMod, n.leader = Epoch{N: 1, State: Open, Size: 300}, 1, registered{create: 1, mod: 1}
	n.lead = &lead{members: map[string]registered{}, places: map[string]Place{}, mine: map[int64]bool{}}
	var list []Member
	for i := range 300 {
		list = append(list, Member{Index: -1, ID: fmt.Sprintf("id%03d", i), Host: fmt.Sprint("host", i), Size: 300,
			Phase: PhaseArrived})
	}
	try := func() (nonce string, written int) {
		clear(n.lead.members)
		for i, m := range list {
			n.store(KV{Key: fmt.Sprint(n.k.Members, i), Value: m, Create: int64(i), Mod: int64(i)})
		}
		n.Step(time.Time{}, Event{})
		n.seal()
		for a := n.out[0]; a.Kind != Seal; a = n.out[0] {
			for _, op := range a.Then {
				if op.Do == Put {
					written++
				}
			}
			e, _ := store.transact(&a)
			if !e.OK {
				t.Fatalf("not written: %+v", a.If)
			}
			n.Step(time.Time{}, e)
		}
		want := map[string]Place{}
		for rank, p := range Seated(list) {
			want[n.k.Place(n.lead.draft.nonce, list[rank])] = p
		}
		got := map[string]Place{}
		for _, k := range store.keys {
			if strings.HasPrefix(k.Key, n.k.Worlds) {
				got[k.Key] = k.Value.(Place)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(Place{}.Addr)); diff != "" {
			t.Errorf("places (-want +got):\n%s", diff)
		}
		if len(n.lead.places) != len(list) {
			t.Errorf("the leader knows %d places, want %d", len(n.lead.places), len(list))
		}
		return n.lead.draft.nonce, written
	}
	first, written := try()
	if written != len(list) {
		t.Errorf("%d places written at first, want %d", written, len(list))
	}
	if nonce, written := try(); nonce != first || written != 0 {
		t.Errorf("the same list: nonce %s after %s, %d written, want none", nonce, first, written)
	}
	list = slices.Clone(list)
	list[7].ID = "in-its-place"
	if nonce, written := try(); nonce != first || written != 1+most {
		t.Errorf("one has changed: nonce %s after %s, %d written, want it and its partners", nonce, first, written)
	}
	n.lead.draft.create--
	if nonce, written := try(); nonce == first || written != len(list) {
		t.Errorf("another may have led: nonce %s after %s, %d written, want all", nonce, first, written)
	}
}
