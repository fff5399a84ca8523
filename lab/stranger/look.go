package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"launch/internal/sidechannel"
)

// look asks each port of a host as a node of the job does, without a token.
func look(host string) {
	ctx := context.Background()
	ports := make(chan uint16)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for port := range ports {
				to := netip.AddrPortFrom(netip.MustParseAddr(host), port)
				a, err := sidechannel.Probe(ctx, to, nil, sidechannel.Options{})
				switch cause := sidechannel.CauseOf(err); {
				case cause == sidechannel.Token:
					fmt.Println("is not let in:", err)
				case err == nil:
					shown, err := sidechannel.Look(ctx, to, nil, a.ID)
					if len(shown) > 0 {
						fmt.Printf("is shown %d bytes\n", len(shown))
					} else {
						fmt.Println("gets nothing:", err)
					}
				}
			}
		})
	}
	for port := 1024; port < 1<<16; port++ {
		ports <- uint16(port)
	}
	close(ports)
	wg.Wait()
}
