package companion

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"launch/cmd/internal/storeaddr"
	"launch/rendezvous"
)

// Reasons to choose the host of the store again, by the addresses that its name has by now.
var (
	// ErrYielded: the store of this node is retired, since another node hosts one of the same job.
	ErrYielded = errors.New("another node hosts a store of this job, too, and goes first: this node joins that one")
	// ErrNamed: the name had no address of this node when it started.
	ErrNamed = errors.New("the store's name has an address of this node by now, and no store answers")
)

// Shared is a name of the store that may have the addresses of several nodes, which choose one of them.
type Shared struct {
	Host  string       `json:"host"`
	Port  int          `json:"port"`
	Known []netip.Addr `json:"known"`       // the addresses that it has had
	At    netip.Addr   `json:"at,omitzero"` // where the chosen one is; zero: it is this node, or where the name leads
}

// Contest returns the choice among the addresses of the name. store is how to connect to the job's own.
func (s Shared) Contest(store rendezvous.Store) *storeaddr.Contest {
	store.Hangup, store.Later, store.Nodes = nil, false, 0
	return &storeaddr.Contest{
		Known: slices.Clone(s.Known),
		Resolve: func(ctx context.Context) ([]netip.Addr, error) {
			addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.Host)
			for i := range addrs {
				addrs[i] = addrs[i].Unmap()
			}
			return addrs, err
		},
		Local: local,
		Probe: func(ctx context.Context, at netip.Addr) (storeaddr.Rival, error) {
			there := store
			there.Endpoints = []string{net.JoinHostPort(at.String(), strconv.Itoa(s.Port))}
			is, err := rendezvous.Peek(ctx, there)
			return storeaddr.Rival{At: at, Order: is.Order, Begun: is.Begun}, err
		},
	}
}

// local reports whether this node has an address.
func local(a netip.Addr) bool {
	all, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(all, func(have net.Addr) bool {
		p, err := netip.ParsePrefix(have.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// dialChosen has the chosen store dialed, not any that the name leads to.
func (p *companion) dialChosen() {
	at := p.spec.Shared.At
	if !at.IsValid() {
		if len(p.spec.Serve) == 0 {
			return
		}
		at = p.spec.Serve[0].Addr()
	}
	four := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	switch at {
	case netip.IPv4Unspecified():
		p.hangup.Move([]netip.Addr{four})
	case netip.IPv6Unspecified(): // also where IPv6 is off: it listens by IPv4, too
		p.hangup.Move([]netip.Addr{four, netip.IPv6Loopback()})
	default:
		p.hangup.Move([]netip.Addr{at})
	}
}

// yield retires the store of this node where another one of the job wins over it, until the job has begun.
func (p *companion) yield(server *rendezvous.Server) {
	at := rendezvous.Store{Job: p.spec.Job, TLS: p.storeTLS()}
	if p.spec.Munge { // each store has its own secret, which its certificate shows
		at.TLS = Learn(&p.spec.Job)
	}
	retire := func() bool { return server.Retire(p.choosing) }
	if _, yielded := p.spec.Shared.Contest(at).Yield(p.choosing, server.Order(), retire); yielded {
		p.broken <- ErrYielded
	}
}

// findAgain looks at the addresses of the store's name while there is no connection to the store. It may be retired, or
// its node replaced: then it goes where the job's store is by now. A node that took no part, and has had no connection
// yet, has a reason to choose again where the name has its address by now.
func (p *companion) findAgain(at rendezvous.Store) {
	ctx, c, pause := p.choosing, p.spec.Shared.Contest(at), lostPause
	host, known := p.spec.Shared.At, false
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if len(p.hangup.Connected()) > 0 {
			pause, known = lostPause, true
			continue
		}
		pause = min(pause*5/4, lostPauseMax)
		if !host.IsValid() {
			if addrs, _ := c.Resolve(ctx); !known && slices.ContainsFunc(addrs, c.Local) {
				p.broken <- ErrNamed
				return
			}
			continue
		}
		r := c.Look(ctx)
		if r == nil || len(p.hangup.Connected()) > 0 {
			continue
		}
		// The store of a job that has begun may be silent for a time. Another one, of a node that does not see it, is
		// not the job's then.
		if !p.begun.Load() || r.Begun || errors.Is(c.Last(host), syscall.ECONNREFUSED) {
			host = r.At
			p.hangup.Move([]netip.Addr{host})
		}
	}
}
