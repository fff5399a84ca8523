package rendezvous

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// segment is the most data that a packet to or from the store carries, in bytes. With
// the headers and options of TCP it fits IPv6's least MTU of 1,280 (RFC 8200, 5). A path
// that silently drops longer packets, which the checks between nodes find, must not
// prevent the rendezvous.
const segment = 1200

// headStart is how long a connection to one address of a store may take before the next address is tried, too (RFC
// 8305, 5: Connection Attempt Delay). A name has a second address while a pod of a lost machine is replaced.
const headStart = 250 * time.Millisecond

// dialShort returns the first connection to a store at these endpoints. It has segments of that size in both
// directions: the kernel announces the limit to the other end and observes it. The rest is as in gRPC's own dialer.
func dialShort(ctx context.Context, endpoints ...string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment) })
	}}
	return race(ctx, addressesOf(ctx, endpoints), func(ctx context.Context, addr string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	})
}

// addressesOf returns endpoints with each name replaced by its addresses. A name that is not found remains.
func addressesOf(ctx context.Context, endpoints []string) (all []string) {
	for _, e := range endpoints {
		host, port, err := net.SplitHostPort(e)
		if err != nil || host == "" {
			all = append(all, e)
			continue
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil || len(addrs) < 2 {
			all = append(all, e)
			continue
		}
		for _, a := range addrs {
			all = append(all, net.JoinHostPort(a.Unmap().String(), port))
		}
	}
	return all
}

// race dials addrs in order, each headStart after the last or once the last has failed, and returns the first
// connection, else the first error.
func race(ctx context.Context, addrs []string, dial func(ctx context.Context, addr string) (net.Conn, error)) (net.Conn,
	error) {
	if len(addrs) == 1 {
		return dial(ctx, addrs[0])
	}
	type answer struct {
		c   net.Conn
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	answers, open := make(chan answer), 0
	defer func() { // the others end with ctx
		cancel()
		go func() {
			for ; open > 0; open-- {
				if a := <-answers; a.c != nil {
					_ = a.c.Close()
				}
			}
		}()
	}()
	var first error
	next := time.NewTimer(0)
	defer next.Stop()
	for len(addrs) > 0 || open > 0 {
		select {
		case <-next.C:
			if len(addrs) == 0 {
				continue
			}
			addr := addrs[0]
			addrs = addrs[1:]
			open++
			go func() {
				c, err := dial(ctx, addr)
				answers <- answer{c, err}
			}()
			next.Reset(headStart)
		case a := <-answers:
			open--
			if a.err == nil {
				return a.c, nil
			}
			if first == nil {
				first = a.err
			}
			next.Reset(0)
		}
	}
	return nil, first
}
