package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"launch/internal/finding"
	"launch/preflight"
)

const (
	// sourceAfter is how long the calls to the store may take before others are made from this node's other addresses.
	sourceAfter = 700 * time.Millisecond
	// maxSources bounds these.
	maxSources = 8
)

// otherSource finds an address of this node from which a store answers that is silent to the address that the route
// takes: the other machine has no way back to that one, or a filter does not know it. It waits until the calls to the
// store are slow, and tries nothing where they have ended.
func otherSource(ctx context.Context, in preflight.Input, all []endpoint, ended <-chan struct{}) (f finding.Finding,
	found bool) {
	select {
	case <-time.After(sourceAfter):
	case <-ended:
		return f, false
	}
	if in.DialFrom == nil {
		return f, false
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range all {
		for _, to := range addrsOf(ctx, in, e).addrs {
			at := net.JoinHostPort(to.String(), e.port)
			routed := sourceOf(ctx, in, at)
			for _, from := range sources(in, to, routed) {
				wg.Go(func() {
					c, err := in.DialFrom(ctx, from, at)
					if err == nil {
						_ = c.Close()
					}
					mu.Lock()
					defer mu.Unlock()
					if (err == nil || errors.Is(err, syscall.ECONNREFUSED)) && !found {
						f, found = fromElsewhere(e, at, routed, from), true
					}
				})
			}
		}
	}
	wg.Wait()
	return f, found
}

// fromElsewhere is the finding about a store that answers calls from another address of this node.
func fromElsewhere(e endpoint, at string, routed, from netip.Addr) finding.Finding {
	return finding.Warnf("%s answers calls from %s of this node, but not from %s, %s: a filter there does not know that "+
		"address, or there is no way back to it", e, from, routed, OtherSource).
		Breaking("this node waits until its --join-timeout").
		Do("ip route get %s   # its src; ip route replace … src %s, or remove %s\n"+
			"ip route get %s; nft list ruleset   # on the store's host", hostOnly(at), from, routed, routed)
}

// sourceOf returns the address from which the kernel calls another one. A UDP socket that connects sends nothing.
func sourceOf(ctx context.Context, in preflight.Input, at string) netip.Addr {
	c, err := in.Dial(ctx, "udp", at)
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	local, _ := netip.ParseAddrPort(c.LocalAddr().String())
	return local.Addr().Unmap()
}

// sources returns other addresses of this node of the same family, if the route's own is known.
func sources(in preflight.Input, to, routed netip.Addr) (out []netip.Addr) {
	for _, i := range in.Node.Interfaces {
		for _, p := range i.Addrs {
			a := p.Addr()
			if i.Up && i.Kind != "loopback" && a.IsGlobalUnicast() && a.Is4() == to.Is4() && routed.IsValid() && a != routed &&
				!slices.Contains(out, a) && len(out) < maxSources {
				out = append(out, a)
			}
		}
	}
	return out
}

// OtherSource is what store.answers says of a store that answers calls from another address of this node alone.
const OtherSource = "which the route takes"
