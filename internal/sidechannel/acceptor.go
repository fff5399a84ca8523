package sidechannel

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// acceptor accepts connections until it is closed.
type acceptor struct {
	keys  *tls.Config // nil: there is no secret
	id    string      // the answer to every caller
	l     net.Listener
	ctx   context.Context
	stop  context.CancelFunc
	calls sync.WaitGroup
}

func (a *acceptor) listen(at netip.AddrPort, keys *tls.Config, id string) (err error) {
	if len(id) > maxID {
		return fmt.Errorf("the ID has %d bytes, the limit is %d", len(id), maxID)
	}
	a.keys, a.id = keys, id
	if a.l, err = net.Listen("tcp", at.String()); err == nil {
		a.ctx, a.stop = context.WithCancel(context.Background())
	}
	return err
}

// Port returns the port on which it listens.
func (a *acceptor) Port() int { return a.l.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every call in it.
func (a *acceptor) Close() {
	a.stop()
	a.l.Close()
	a.calls.Wait()
}

// serve starts to accept calls, each until take returns. It accepts maxCalls at
// once: a caller in the kernel's queue is connected and late, not refused.
func (a *acceptor) serve(take func(c *net.TCPConn)) {
	room := make(chan struct{}, maxCalls)
	a.calls.Go(func() {
		for {
			select {
			case room <- struct{}{}:
			case <-a.ctx.Done():
				return
			}
			c, err := a.l.Accept()
			if err != nil {
				<-room
				select { // there is no free descriptor, or it is closed
				case <-time.After(acceptPause):
					continue
				case <-a.ctx.Done():
					return
				}
			}
			a.calls.Go(func() {
				defer func() { <-room }()
				defer c.Close()
				defer context.AfterFunc(a.ctx, func() { c.Close() })()
				take(c.(*net.TCPConn))
			})
		}
	})
}
