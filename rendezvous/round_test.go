package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"launch/rendezvous/memstore"
	"launch/rendezvous/protocol"
)

func TestALastingStoreTakesAnotherNumberOfNodes(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		one := b.enter(Member{Index: -1, Size: 1, Host: "a"})
		worlds(t, one.join(ctx))
		if _, err := one.Round(ctx, "go", nil, concat); err != nil {
			t.Fatal(err)
		}
		one.Start(ctx)
		one.Leave("")
		worlds(t, b.enter(Member{Index: -1, Size: 2, Host: "a"}).join(ctx),
			b.enter(Member{Index: -1, Size: 2, Host: "c"}).join(ctx))
	})
}

func TestWhoseTimeRunsOutBesideTheGoGoesByIt(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
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
		if got := c.withdraw(ctx, "go"); string(got) != "xx" {
			t.Errorf("gave up although all start: %q", got)
		}
	})
}

func TestWhoGivesUpBeforeTheGoStopsIt(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		a, c := b.enter(Member{Index: -1, Size: 2, Host: "a"}), b.enter(Member{Index: -1, Size: 2, Host: "c"})
		worlds(t, a.join(ctx), c.join(ctx))
		if got := c.withdraw(ctx, "go"); got != nil {
			t.Fatalf("a result before there was one: %q", got)
		}
		var broken *BrokenError
		if _, err := a.Round(ctx, "go", nil, concat); !errors.As(err, &broken) || !strings.Contains(broken.Why, "c") {
			t.Errorf("got %v, want a broken world that names c", err)
		}
	})
}

// puts returns whether a request is a transaction that puts a key.
func puts(request any, key string) bool {
	txn, _ := request.(*pb.TxnRequest)
	return slices.ContainsFunc(txn.GetSuccess(),
		func(op *pb.RequestOp) bool { return string(op.GetRequestPut().GetKey()) == key })
}

// The go of a leader is on its way to the store while another node of the world
// leaves: its key is gone when the go arrives, so it cannot be compared.
func TestWhoLeavesWhileTheGoIsOnItsWayStopsIt(t *testing.T) {
	late := func(t *testing.T, c *node) {
		if got, err := c.Round(short(t, time.Second), "go", nil, concat); err == nil {
			t.Errorf("got %q before the go was there", got)
		}
		c.Leave("")
	}
	for _, leave := range []struct {
		name   string
		how    func(t *testing.T, c *node)
		faults func(c *node, request any) memstore.Fault
	}{
		{"its time runs out", late, nil},
		{"it is interrupted", func(t *testing.T, c *node) {
			go c.Round(t.Context(), "go", nil, concat)
			time.Sleep(time.Second)
			c.Leave("interrupted")
		}, nil},
		{"it has a new lease and its key the old one", late, func(c *node, request any) memstore.Fault {
			switch {
			case puts(request, c.k.Post(1, "go", 1)):
				return memstore.DropReply
			case puts(request, c.k.Member(c.me())):
				return memstore.Refuse
			}
			return memstore.None
		}},
	} {
		t.Run(leave.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				b := &bench{t: t, store: memory{s}, job: "j", exact: true}
				la, lc := s.Dial(), s.Dial()
				a := b.enterBy(la.Client(), Member{Index: -1, Size: 2, Host: "a"})
				a.notified(t, Progress) // it leads
				c := b.enterBy(lc.Client(), Member{Index: -1, Size: 2, Host: "c"})
				worlds(t, a.join(t.Context()), c.join(t.Context()))
				la.SetFaults(func(r any) (memstore.Fault, time.Duration) {
					if puts(r, a.k.Result(1, "go")) {
						return memstore.None, 6 * time.Second // half of it on the way there
					}
					return memstore.None, 0
				})
				if leave.faults != nil {
					lc.SetFaults(func(r any) (memstore.Fault, time.Duration) { return leave.faults(c, r), 0 })
				}
				done := make(chan error, 1)
				go func() {
					_, err := a.Round(t.Context(), "go", nil, concat)
					done <- err
				}()
				leave.how(t, c)
				var broken *BrokenError
				if err := <-done; !errors.As(err, &broken) {
					t.Errorf("got %v, want a broken world", err)
				}
			})
		})
	}
}

func TestAReducerWithoutADecisionDecidesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: -1, Size: 1, Host: "a"})
		worlds(t, a.join(short(t, 10*time.Second)))
		began := time.Now()
		out, err := a.Round(short(t, time.Second), "go", nil, func([][]byte) ([]byte, bool) { return nil, false })
		if err == nil {
			t.Errorf("got %q", out)
		}
		b.took(began, time.Second)
	})
}

// What a node does between two rounds is to end with its world, not with the next
// round; a world that has started stays one.
func TestAWorldThatFallsIsTold(t *testing.T) {
	for _, started := range []bool{false, true} {
		t.Run(fmt.Sprint("started ", started), func(t *testing.T) {
			eachStore(t, func(t *testing.T, b *bench) {
				var nodes []*node
				var chs []<-chan joined
				for i := range 3 {
					nodes = append(nodes, b.enter(Member{Index: i, Vouch: Typed, Size: 3, Host: fmt.Sprint("h", i)}))
					chs = append(chs, nodes[i].join(short(t, 10*time.Second)))
				}
				worlds(t, chs...)
				if started {
					var wg sync.WaitGroup
					for _, n := range nodes {
						wg.Go(func() {
							if _, err := n.Round(t.Context(), "go", nil,
								func([][]byte) ([]byte, bool) { return []byte("{}"), true }); err != nil {
								t.Error(err)
							}
							if err := n.Start(t.Context()); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
				}
				nodes[2].Leave("enough")
				for _, n := range nodes[:2] {
					if !started {
						if e := n.notified(t, Broken); !strings.Contains(e.Text, "h2") {
							t.Errorf("%s got %q, want the name of h2", n.me().Host, e.Text)
						}
						continue
					}
					waitMembers(t, n, 2)
					time.Sleep(100 * time.Millisecond)
					n.mu.Lock()
					for _, e := range n.events {
						if e.Kind == Broken {
							t.Errorf("%s was notified of a world that has started: %s", n.me().Host, e.Text)
						}
					}
					n.mu.Unlock()
				}
			})
		})
	}
}

// withdraw lets a node give up in a round; it returns the result, if there is one.
func (n *node) withdraw(ctx context.Context, name string) []byte {
	e := event{Kind: protocol.GiveUp, Name: name, Err: errors.New("interrupted")}
	return n.ask(ctx, e, event{}, nil).Value
}
