package rendezvous

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNodesSpreadByTheirNumber(t *testing.T) {
	got := map[int]time.Duration{}
	for _, n := range []int{0, 1, 64, 65, 1000, 4000, 10000} {
		got[n] = spread(n)
		for range 100 {
			if d := stagger(n); d < 0 || d > spread(n) {
				t.Fatalf("%d nodes: one waits %s of %s", n, d, spread(n))
			}
		}
	}
	want := map[int]time.Duration{
		0: 0, 1: 0, 64: 0, 65: 13 * time.Millisecond, 1000: 200 * time.Millisecond,
		4000: 1700 * time.Millisecond, 10000: 4700 * time.Millisecond,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestAnEtcdThatIsThereAlreadyIsAskedMoreSlowly: from thousands of nodes on.
func TestAnEtcdThatIsThereAlreadyIsAskedMoreSlowly(t *testing.T) {
	type pace struct{ spread, lease time.Duration }
	paceOf := func(n int) pace { return pace{spread(n), leaseOf(n)} }
	got := map[int]pace{}
	for _, n := range []int{2, 1000, 4000, 10000} {
		s, etcd := Config{OwnStore: true, Self: Member{Size: n}}, Config{Self: Member{Size: n}}
		if ours := (Store{Job: "j", Nodes: n}).crowd(); ours != n || s.crowd() != n {
			t.Errorf("launch's own store: %d nodes are %d and %d", n, ours, s.crowd())
		}
		if c := (Store{Nodes: n}).crowd(); c != etcd.crowd() {
			t.Errorf("%d nodes connect as %d and register as %d", n, c, etcd.crowd())
		}
		got[n] = paceOf(etcd.crowd())
	}
	want := map[int]pace{
		2: {0, LeaseTTL}, 1000: {200 * time.Millisecond, LeaseTTL},
		4000: {4700 * time.Millisecond, 19 * time.Second}, 10000: {13700 * time.Millisecond, 37 * time.Second},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(pace{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestNodesDoNotAskAStoreThatComesLateAllAtOnce: also after many failed tries.
func TestNodesDoNotAskAStoreThatComesLateAllAtOnce(t *testing.T) {
	const n, nodes = 10000, 2000
	busiest := map[int]int{}
	for range nodes {
		r, at := retries(n), stagger(n)
		for range 20 {
			at += r.NextBackOff()
			busiest[int(at/time.Second)]++
		}
	}
	for second, tries := range busiest {
		if tries > nodes*6/10 {
			t.Errorf("%d of %d nodes try in second %d", tries, nodes, second)
		}
	}
}

func TestConnectComesInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := Connect(ctx, Store{Endpoints: []string{"127.0.0.1:1"}, Nodes: 1 << 30}, nil)
		if !errors.Is(err, ErrUnreachable) || time.Since(began) != time.Millisecond {
			t.Errorf("got %v after %s, want a wait that ends with its context", err, time.Since(began))
		}
	})
}

func TestManyNodesHaveLongerLeases(t *testing.T) {
	got := []time.Duration{leaseOf(2), leaseOf(1000), leaseOf(4000), leaseOf(10000)}
	want := []time.Duration{LeaseTTL, LeaseTTL, LeaseTTL + 3*time.Second, LeaseTTL + 9*time.Second}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
