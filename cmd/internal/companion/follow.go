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
	// A pod asks whether the name of the store's host means a newer pod, in a large job more rarely: all nodes together
	// ask once in followEach, but a node at most once in followPause, and at least once in followPauseMax.
	followEach, followPause, followPauseMax = 20 * time.Millisecond, 2 * time.Second, 5 * time.Second
	// It asks so often when it has lost the connection: after lostPause, and then up to the pause of the nodes together.
	lostEach, lostPause, lostPauseMax = 5 * time.Millisecond, time.Second, 4 * time.Second
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
	find, known, lost := &dns.Pods{Config: p.spec.Names.Servers}, known{}, lostPause
	steady := together(p.spec.Self.Size, followEach, followPause, followPauseMax)
	longest := together(p.spec.Self.Size, lostEach, lostPause, lostPauseMax)
	made := false // a newer pod has an address, and no store yet
	for {
		pause := steady
		switch up := len(p.hangup.Connected()) > 0; {
		case up && len(known) == 0, made:
			pause = lostPause
		case up:
			lost = lostPause
		default:
			pause, lost = lost, min(lost*5/4, longest)
		}
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
			return
		}
		addrs, connected := find.Find(p.ctx, p.spec.Names.Host), p.hangup.Connected()
		newer := known.newer(addrs, connected)
		fresh := slices.DeleteFunc(slices.Clone(newer), func(a netip.Addr) bool { return known[a] })
		if made = len(fresh) > 0; made {
			newer = fresh
		}
		if moveTo(p.ctx, at, newer) || len(known) == 0 && len(connected) > 0 {
			known.add(addrs)
			made = false
		}
	}
}

// together returns the pause of each node of a job where one of them asks once in each.
func together(nodes int, each, least, most time.Duration) time.Duration {
	return min(max(time.Duration(nodes)*each, least), most)
}

// known is the addresses that the name of the store's host had when this node looked it up first, or moved.
type known map[netip.Addr]bool

func (k known) add(addrs []netip.Addr) {
	for _, a := range addrs {
		k[a] = true
	}
}

// newer returns the addresses of the name that may be a newer pod's: all, if the connection leads to none of them. Of
// two pods with one name, which there are while Kubernetes cannot end the old one, the added one is the newer.
func (k known) newer(addrs, connected []netip.Addr) []netip.Addr {
	led := func(a netip.Addr) bool { return slices.Contains(connected, a) }
	switch {
	case !slices.ContainsFunc(addrs, led):
		return addrs
	case len(k) == 0:
		return nil
	}
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return k[a] || led(a) })
}

// moveTo moves to the store at these addresses, if it is the job's.
func moveTo(ctx context.Context, at rendezvous.Store, addrs []netip.Addr) (moved bool) {
	if len(addrs) == 0 {
		return false
	}
	there := at
	there.Hangup, there.Later, there.Endpoints = nil, false, nil
	_, port, _ := net.SplitHostPort(at.Endpoints[0])
	for _, a := range addrs {
		there.Endpoints = append(there.Endpoints, net.JoinHostPort(a.String(), port))
	}
	ctx, cancel := context.WithTimeout(ctx, oursBudget)
	defer cancel()
	c, err := rendezvous.Connect(ctx, there, nil)
	if err == nil {
		_ = c.Close()
		at.Hangup.Move(addrs)
	}
	return err == nil
}
