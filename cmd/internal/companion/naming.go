package companion

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Naming is a wait of launch for the name of the store's host. It has no companion yet.
type Naming struct {
	Host  string    `json:"host"`
	Why   string    `json:"why"` // what the resolver says
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Do    string    `json:"do,omitempty"`
}

// ShowNaming answers launch doctor of this node with what n has, until stop is called.
func ShowNaming(ctx context.Context, n *atomic.Pointer[Naming]) (stop func()) {
	l, err := net.ListenUnix("unix", socketOf(os.Getpid()))
	if err != nil {
		return func() {} // launch doctor then says less
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		answerUser(context.WithoutCancel(ctx), l, &wg, func(c net.Conn) { tell(c, nil, News{Naming: n.Load()}) })
	})
	return func() {
		_ = l.Close() // the first Close waits until the address is free again
		wg.Wait()
	}
}
