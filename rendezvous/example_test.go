package rendezvous_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"launch/rendezvous"
)

// Two nodes agree on ranks by a store that the first one hosts.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at := netip.MustParseAddrPort("127.0.0.1:0")
	server, err := rendezvous.Serve(ctx, "demo", []netip.AddrPort{at}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	ranks := make([]string, 2)
	var nodes sync.WaitGroup
	for i := range ranks {
		nodes.Go(func() {
			store := rendezvous.Store{Endpoints: server.Endpoints(), Job: "demo", Nodes: len(ranks)}
			client, err := rendezvous.Connect(ctx, store, nil)
			if err != nil {
				ranks[i] = err.Error()
				return
			}
			defer client.Close()
			self := rendezvous.Member{ID: fmt.Sprint("incarnation-", i), Index: i, Vouch: rendezvous.Typed,
				Size: len(ranks), Host: fmt.Sprint("node", i), Addr: at.Addr(), PID: 1 + i, First: i == 0}
			session := rendezvous.Enter(ctx, client, rendezvous.Config{Job: "demo", Self: self, Hosted: true})
			defer session.Leave("done")
			world, err := session.Join(ctx, time.Minute)
			if err != nil {
				ranks[i] = err.Error()
				return
			}
			ranks[i] = fmt.Sprintf("%s has rank %d of %d, rank 0 is %s", self.Host, world.Rank, world.Size,
				world.Master.Host)
			// Rounds make this node stay until the other has its world, too.
			_, _ = session.Round(ctx, "bye", []byte("x"), func([][]byte) ([]byte, bool) { return []byte("{}"), false })
		})
	}
	nodes.Wait()
	for _, r := range ranks {
		fmt.Println(r)
	}
	// Output:
	// node0 has rank 0 of 2, rank 0 is node0
	// node1 has rank 1 of 2, rank 0 is node0
}
