package sidechannel

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// door takes connections until it is closed.
type door struct {
	l     net.Listener
	ctx   context.Context
	stop  context.CancelFunc
	calls sync.WaitGroup
}

func (d *door) listen(at netip.AddrPort) (err error) {
	if d.l, err = net.Listen("tcp", at.String()); err == nil {
		d.ctx, d.stop = context.WithCancel(context.Background())
	}
	return err
}

// Port is where it listens.
func (d *door) Port() int { return d.l.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every call in it.
func (d *door) Close() {
	d.stop()
	d.l.Close()
	d.calls.Wait()
}

// serve begins to take calls, each until take returns. It accepts no more than it
// has room for: who waits in the kernel's queue is connected and late, not refused.
func (d *door) serve(take func(c *net.TCPConn)) {
	room := make(chan struct{}, maxCalls)
	d.calls.Go(func() {
		for {
			select {
			case room <- struct{}{}:
			case <-d.ctx.Done():
				return
			}
			c, err := d.l.Accept()
			if err != nil {
				<-room
				select { // no descriptor is free just now, or it is closed
				case <-time.After(acceptPause):
					continue
				case <-d.ctx.Done():
					return
				}
			}
			d.calls.Go(func() {
				defer func() { <-room }()
				defer c.Close()
				defer context.AfterFunc(d.ctx, func() { c.Close() })()
				take(c.(*net.TCPConn))
			})
		}
	})
}
