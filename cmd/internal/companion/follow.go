package companion

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"launch/internal/dns"
	"launch/rendezvous"
)

const (
	// followPause is how often a pod asks whether the name of the store's host means a newer pod. When it loses the
	// connection, it asks after lostPause, and then more and more rarely.
	followPause, lostPause = 15 * time.Second, time.Second
	// oursBudget bounds the question whether a store is this job's.
	oursBudget = 5 * time.Second
)

// Names is how a pod finds the pod that hosts the store.
type Names struct {
	Host    string     `json:"host"`
	Servers dns.Config `json:"servers"`
}

// follow moves to the newer pod of the store's host: Kubernetes replaces a pod of a machine that it cannot reach, and
// the old one may run on. What the other nodes find by the name counts.
func (p *companion) follow(at rendezvous.Store) {
	find := &dns.Pods{Config: p.spec.Names.Servers}
	lost := lostPause
	for {
		pause := followPause
		if len(p.hangup.Connected()) > 0 {
			lost = lostPause
		} else {
			pause, lost = lost, min(lost*5/4, followPause)
		}
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
			return
		}
		moveTo(p.ctx, at, find.Find(p.ctx, p.spec.Names.Host))
	}
}

// moveTo moves to the store at these addresses, if no connection leads there and the store there is the job's.
func moveTo(ctx context.Context, at rendezvous.Store, addrs []netip.Addr) {
	led := func(a netip.Addr) bool { return slices.Contains(addrs, a) }
	if len(addrs) == 0 || slices.ContainsFunc(at.Hangup.Connected(), led) {
		return
	}
	there := at
	there.Hangup, there.Later, there.Endpoints = nil, false, nil
	_, port, _ := net.SplitHostPort(at.Endpoints[0])
	for _, a := range addrs {
		there.Endpoints = append(there.Endpoints, net.JoinHostPort(a.String(), port))
	}
	ctx, cancel := context.WithTimeout(ctx, oursBudget)
	defer cancel()
	if c, err := rendezvous.Connect(ctx, there, nil); err == nil {
		_ = c.Close()
		at.Hangup.Move(addrs)
	}
}
