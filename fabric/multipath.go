package fabric

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// fewOpened is the number of connections from which the next hops of those that open and of those that do not are
// divided by chance less than once in a hundred times.
const fewOpened = 8

// DeadLeg returns that connections to an address do not open by one of several next hops of this node's route there,
// and that all opened that go by another one. bad and good are this node's ends of connections that were begun at the
// same time: the kernel chooses by the ports. It is the zero Fault where their next hops do not divide them so.
func DeadLeg(bad, good []netip.AddrPort, to netip.AddrPort) Fault {
	return deadLeg(bad, good, to, func(from netip.AddrPort) (hop, error) { return askRoute(from, to) })
}

func deadLeg(bad, good []netip.AddrPort, to netip.AddrPort, ask func(from netip.AddrPort) (hop, error)) Fault {
	if len(bad) < 2 || len(good) < 2 || len(bad)+len(good) < fewOpened {
		return Fault{}
	}
	legs := func(ends []netip.AddrPort) (out []string) {
		for _, end := range ends {
			h, err := ask(end)
			if err != nil || h.local || h.iface == "" {
				return nil
			}
			leg := h.iface
			if h.gateway.IsValid() {
				leg = fmt.Sprintf("%s on %s", h.gateway, h.iface)
			}
			if !slices.Contains(out, leg) {
				out = append(out, leg)
			}
		}
		return out
	}
	dead, live := legs(bad), legs(good)
	if len(dead) != 1 || len(live) == 0 || slices.Contains(live, dead[0]) {
		return Fault{}
	}
	h, _ := ask(bad[0])
	return Fault{
		Why: fmt.Sprintf("this node's route to %s has several next hops, and connections by %s get no answer (%d of %d), "+
			"while those by %s open", to.Addr(), dead[0], len(bad), len(bad)+len(good), live[0]),
		Do: fmt.Sprintf("ip route show %s table %s; ping %s", to.Addr(), tableName(h.table),
			cmp.Or(h.gateway, to.Addr())),
	}
}
