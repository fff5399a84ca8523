package scene

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/tcpstore"
)

// The limits of one store: its name, its connection, and all of it with the answer. At most maxStores are asked.
const (
	nameLimit  = 1500 * time.Millisecond
	dialLimit  = 2 * time.Second
	storeLimit = 2500 * time.Millisecond
	maxStores  = 8
)

// stores asks each store that the job's processes name, all at once. It comes after the samples: an answer is
// work of the process that has the store.
func stores(ctx context.Context, job []*seen, here uint64, o Options, g *gaps) []Store {
	var all []address
	of := map[address]int{}
	for _, p := range job {
		if p.foreign() {
			continue
		}
		for _, a := range p.addresses() {
			if of[a] == 0 {
				all = append(all, a)
			}
			of[a] = p.pid
		}
	}
	// Ranks may call a store master that is an endpoint to their agents: it is asked once.
	slices.SortStableFunc(all, func(a, b address) int { return -compareKinds(a.kind, b.kind) })
	all = unique(all, func(a, b address) bool { return a.host == b.host && a.port == b.port && a.net == b.net })
	if more := len(all) - maxStores; more > 0 {
		g.add(0, fmt.Sprintf("%d stores", more), fmt.Sprintf("at most %d are asked", maxStores), "")
		all = all[:maxStores]
	}
	out := make([]Store, len(all))
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	hints := hintsOf(job)
	var wg sync.WaitGroup
	for i, a := range all {
		wg.Go(func() {
			if o.Store != nil {
				out[i] = o.Store(ctx, a.host, a.port)
			} else {
				ns := ""
				if a.net != 0 && a.net != here {
					ns = procPath(of[a], "ns/net")
				}
				out[i] = askStore(ctx, a, ns, hints)
			}
			out[i].Addr, out[i].Kind, out[i].Net = clean(a.String(), maxValue), a.kind, a.net
		})
	}
	wg.Wait()
	return out
}

// foreign returns whether a rank is known to have no torch: what it reaches at MASTER_PORT is its own, and
// might take a question in torch's protocol for a message of the job. A rank of torchrun is torch's.
func (p *seen) foreign() bool {
	return p.role == Rank && p.libs != nil && !has(p.libs, "torch") && p.env["TORCHELASTIC_RUN_ID"] == ""
}

// hintsOf returns what the job's processes say of it, for a store that cannot list its keys.
func hintsOf(job []*seen) (h tcpstore.Hints) {
	for _, p := range job {
		if id := p.env["TORCHELASTIC_RUN_ID"]; id != "" && !slices.Contains(h.Runs, id) {
			h.Runs = append(h.Runs, id)
		}
		if w, err := strconv.Atoi(p.env["WORLD_SIZE"]); err == nil {
			h.World = max(h.World, w)
		}
		if n, err := strconv.Atoi(p.env["GROUP_WORLD_SIZE"]); err == nil {
			h.Nodes = max(h.Nodes, n)
		}
	}
	return h
}

// compareKinds orders endpoints after masters.
func compareKinds(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == kindEndpoint:
		return 1
	}
	return -1
}

func unique[T any](all []T, same func(a, b T) bool) (out []T) {
	for _, x := range all {
		if !slices.ContainsFunc(out, func(y T) bool { return same(x, y) }) {
			out = append(out, x)
		}
	}
	return out
}

// askStore reaches one store from a network namespace, and reads its keys; an empty path is our own.
func askStore(ctx context.Context, a address, ns string, hints tcpstore.Hints) Store {
	began := time.Now()
	out := Store{Outcome: Unreachable}
	dialed := false
	board, err := tcpstore.Read(ctx, func(ctx context.Context) (net.Conn, error) {
		conn, at, outcome, err := reach(ctx, a, ns)
		if out.At, dialed = at, dialed || err == nil; err != nil && !dialed {
			out.Outcome = outcome
		}
		return conn, err
	}, hints)
	switch {
	case err == nil:
		out.Outcome, out.Board = Answered, &board
	case dialed && (errors.Is(err, tcpstore.ErrGarbage) || errors.Is(err, tcpstore.ErrClosed)):
		out.Outcome = Garbage
	case dialed:
		out.Outcome = Silent
	}
	if err != nil {
		out.Err = clean(plain(err), maxValue)
		if !dialed {
			out.Here = here(err, out.At, ns)
		}
	}
	out.Took = time.Since(began)
	return out
}

// reach connects with the first address of a store that answers. The error of the last one counts.
func reach(ctx context.Context, a address, ns string) (net.Conn, netip.AddrPort, Outcome, error) {
	addrs, err := resolve(ctx, a.host)
	if err != nil {
		return nil, netip.AddrPort{}, NoName, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var at netip.AddrPort
	outcome := Unreachable
	for i, addr := range addrs {
		at = netip.AddrPortFrom(addr, uint16(a.port))
		limit := dialLimit
		if end, ok := ctx.Deadline(); ok {
			limit = max(time.Until(end)/time.Duration(len(addrs)-i), time.Millisecond)
		}
		conn, e := dial(ctx, at, ns, limit)
		if e == nil {
			return conn, at, Answered, nil
		}
		if err, outcome = e, Unreachable; errors.Is(e, unix.ECONNREFUSED) {
			outcome = Refused
		}
	}
	return nil, at, outcome, err
}

// here returns the name of the error of a call if this node's own kernel refused it, so that no packet left; else "".
// A router may also report that there is no route. Then the route of a datagram socket decides, which sends nothing.
func here(err error, to netip.AddrPort, ns string) string {
	errno, _ := errors.AsType[unix.Errno](err)
	switch errno {
	case unix.EINVAL, unix.EPERM, unix.EADDRNOTAVAIL, unix.EMFILE, unix.ENFILE:
		return unix.ErrnoName(errno)
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES:
		_ = inNet(ns, func() error {
			c, e := net.Dial("udp", to.String())
			if err = e; e == nil {
				_ = c.Close()
			}
			return nil
		})
		if errors.Is(err, errno) {
			return unix.ErrnoName(errno)
		}
	}
	return ""
}

// resolve returns at most four addresses of a host, IPv4 first.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nameLimit)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		if d.IsTimeout {
			return nil, errors.New("no name server answers")
		}
		return nil, errors.New(d.Err)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	addrs = slices.Compact(addrs)
	return addrs[:min(len(addrs), 4)], err
}

// dial connects from a network namespace. With one numeric address, the socket is made by the calling thread.
func dial(ctx context.Context, to netip.AddrPort, ns string, limit time.Duration) (conn net.Conn, err error) {
	d := net.Dialer{Timeout: limit, KeepAlive: -1}
	err = inNet(ns, func() error {
		conn, err = d.DialContext(ctx, "tcp", to.String())
		return err
	})
	return conn, err
}
