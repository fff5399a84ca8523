package start

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/rendezvous"
)

// unreachedBudget bounds the connection by which this node sees why an embedded store is not reached.
const unreachedBudget = 2 * time.Second

// Unreached adds to the error of a subcommand whose embedded store does not answer what this node sees of the store's
// host, and where the state of the job is still to be had.
func Unreached(ctx context.Context, err error, at job.Store) error {
	if !errors.Is(err, rendezvous.ErrUnreachable) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unreachedBudget)
	defer cancel()
	f := Failure(err, nil)
	addrs, unnamed := systemResolver(ctx, at.Host)
	if a, err := netip.ParseAddr(at.Host); err == nil {
		addrs, unnamed = []netip.Addr{a}, nil
	}
	stuck := fabric.Stuck(finding.Map(addrs, func(a netip.Addr) netip.AddrPort {
		return netip.AddrPortFrom(a, uint16(at.Port))
	}))
	if stuck.Why != "" {
		f.What += "; the reason is on this node: " + stuck.Why
		return (&f).Do("%s\n%s", stuck.Here(), WithoutStore)
	}
	var c net.Conn
	if c, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(at.Host, strconv.Itoa(at.Port))); err == nil {
		c.Close()
	}
	what, fix := lostStore(at, unnamed, err)
	if f.What += what; fix == "" {
		fix = f.Fix
	}
	return (&f).Do("%s\n%s", fix, WithoutStore)
}

// WithoutStore is how the other nodes are asked when the store is lost: it alone has the state of all.
const WithoutStore = "launch doctor   # on a node of the job: it asks the others without the store, and names " +
	"the lost nodes"

// lostStore says what a failed call shows of an embedded store, and what to do; "": what the error says. unnamed is the
// error of the look-up of the name of its host.
func lostStore(at job.Store, unnamed, err error) (what, fix string) {
	host := at.Host
	dns, _ := errors.AsType[*net.DNSError](unnamed)
	switch {
	case dns != nil && dns.IsNotFound:
		return "", fmt.Sprintf("getent hosts %s   # on this node: is it spelled right?", host)
	case unnamed != nil:
		return fmt.Sprintf("; this node has no address of %s within %s", host, unreachedBudget),
			fmt.Sprintf("time getent hosts %s   # on this node: does its name server answer?", host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("; nothing listens at %s: launch has not started there, has ended, or uses another port",
				net.JoinHostPort(host, strconv.Itoa(at.Port))),
			fmt.Sprintf("look at what launch printed last on %s; other nodes may still run their commands: end them, and "+
				"start again on all", host)
	case err != nil:
		return fmt.Sprintf("; nothing answers at %s: that host is lost, or this node is cut off from it", host),
			fmt.Sprintf("launch status --store %s   # on another node: if it answers there, this node is the one cut off\n"+
				"ip -br link; ip route get %s; ping %s   # on this node", host, host, host)
	}
	return "", ""
}
