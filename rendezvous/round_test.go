package rendezvous

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestALastingStoreTakesAnotherNumberOfNodes(t *testing.T) {
	b := newBench(t)
	ctx := short(t, 15*time.Second)
	one := b.enter(Member{Index: -1, Size: 1, Host: "a"})
	worlds(t, one.join(ctx))
	if _, err := one.Round(ctx, "go", nil, concat); err != nil {
		t.Fatal(err)
	}
	one.Start(ctx)
	one.Leave("")
	worlds(t, b.enter(Member{Index: -1, Size: 2, Host: "a"}).join(ctx), b.enter(Member{Index: -1, Size: 2, Host: "c"}).join(ctx))
}

func TestWhoseTimeRunsOutBesideTheGoGoesByIt(t *testing.T) {
	b := newBench(t)
	ctx := short(t, 15*time.Second)
	a, c := b.enter(Member{Index: -1, Size: 2, Host: "a"}), b.enter(Member{Index: -1, Size: 2, Host: "c"})
	worlds(t, a.join(ctx), c.join(ctx))
	done := make(chan error, 2)
	for _, n := range []*node{a, c} {
		go func() {
			_, err := n.Round(ctx, "go", []byte("x"), concat)
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	ep := c.known()
	if got := c.withdraw(ctx, ep, c.k.result(ep.N, "go")); string(got) != "xx" {
		t.Errorf("gave up although all start: %q", got)
	}
}

func TestWhoGivesUpBeforeTheGoStopsIt(t *testing.T) {
	b := newBench(t)
	ctx := short(t, 15*time.Second)
	a, c := b.enter(Member{Index: -1, Size: 2, Host: "a"}), b.enter(Member{Index: -1, Size: 2, Host: "c"})
	worlds(t, a.join(ctx), c.join(ctx))
	ep := c.known()
	if got := c.withdraw(ctx, ep, c.k.result(ep.N, "go")); got != nil {
		t.Fatalf("a result before there was one: %q", got)
	}
	var broken *BrokenError
	if _, err := a.Round(ctx, "go", nil, concat); !errors.As(err, &broken) || !strings.Contains(broken.Why, "c") {
		t.Errorf("got %v, want a broken world that names c", err)
	}
}

func TestAReducerWithoutADecisionDecidesNothing(t *testing.T) {
	b := newBench(t)
	a := b.enter(Member{Index: -1, Size: 1, Host: "a"})
	worlds(t, a.join(short(t, 10*time.Second)))
	out, err := a.Round(short(t, time.Second), "go", nil, func([][]byte) ([]byte, bool) { return nil, false })
	if err == nil {
		t.Errorf("got %q", out)
	}
}
