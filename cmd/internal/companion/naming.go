package companion

import (
	"context"
	"net"
	"os"
	"sync"
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

// ShowNaming answers launch doctor of this node, until stop is called.
func ShowNaming(ctx context.Context, n Naming) (stop func()) {
	l, err := net.ListenUnix("unix", socketOf(os.Getpid()))
	if err != nil {
		return func() {} // launch doctor then says less
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		answerUser(ctx, l, &wg, func(c net.Conn) { tell(c, nil, News{Naming: &n}) })
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
