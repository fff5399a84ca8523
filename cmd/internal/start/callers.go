package start

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/process"
)

// halfAfter is for how long a call to the store may remain half open: the answer was sent three times.
const halfAfter = 3 * time.Second

// shortest is the number of bytes from which an answer is one packet of more than the least that networks carry.
const shortest = 400

// Limits of what unreachedCallers says and remembers. Where more callers are half open at once, the store's queue may
// be full: Linux then leaves connections half open whose other end has acknowledged.
const (
	fewCallers = 4
	maxCallers = 64
	maxNotes   = 8
)

// unreachedCallers watches, on the store's host, the calls to the store to which this node's answers do not get
// through. The nodes that call cannot see the reason, and the leader does not know of them.
type unreachedCallers struct {
	since map[netip.Addr]time.Time // half open since then, and without an open connection
	said  map[netip.Addr]bool
	stuck map[netip.Addr]map[netip.AddrPort]bool     // the other ends that were connected when a first one got stuck
	wrong func(netip.Addr, fabric.Gone) fabric.Fault // about packets to an address
}

func newUnreachedCallers(wrong func(netip.Addr, fabric.Gone) fabric.Fault) *unreachedCallers {
	return &unreachedCallers{since: map[netip.Addr]time.Time{}, said: map[netip.Addr]bool{},
		stuck: map[netip.Addr]map[netip.AddrPort]bool{}, wrong: wrong}
}

// look returns what is to be said now, once for each address: of callers that are half open, of connections on which
// nothing is acknowledged, and with the other ends of all that are open.
func (c *unreachedCallers) look(now time.Time, half []netip.Addr, unheard []scene.Socket,
	open []netip.AddrPort) []string {
	var out []string
	say := func(a netip.Addr, gone fabric.Gone, text func(fabric.Fault) string) {
		if !c.said[a] && len(c.said) < maxNotes {
			c.said[a] = true
			out = append(out, text(c.wrong(a, gone)))
		}
	}
	if len(half) > fewCallers {
		half = nil
	}
	since := map[netip.Addr]time.Time{}
	for _, a := range half {
		if slices.ContainsFunc(open, func(o netip.AddrPort) bool { return o.Addr().Unmap() == a.Unmap() }) {
			continue // it has got an answer
		}
		if since[a] = now; !c.since[a].IsZero() {
			since[a] = c.since[a]
		}
		if now.Sub(since[a]) >= halfAfter {
			say(a, fabric.All, func(f fabric.Fault) string { return halfOpen(a, f) })
		}
	}
	c.since = since
	for _, k := range unheard {
		a := k.Remote.Addr().Unmap()
		switch ends := c.stuck[a]; {
		case k.SendQ <= shortest:
		case ends == nil && len(c.stuck) < maxCallers:
			c.stuck[a] = endsOf(a, unheard, open)
		case ends != nil && !ends[unmapped(k.Remote)]:
			// It has connected again, which takes short packets only, and the same has happened to it.
			say(a, fabric.Long, func(f fabric.Fault) string { return unheardBy(a, k, f) })
		}
	}
	return out
}

// endsOf returns the other ends of the connections of an address.
func endsOf(a netip.Addr, unheard []scene.Socket, open []netip.AddrPort) map[netip.AddrPort]bool {
	ends := map[netip.AddrPort]bool{}
	for _, k := range unheard {
		open = append(open[:len(open):len(open)], k.Remote)
	}
	for _, o := range open {
		if o.Addr().Unmap() == a {
			ends[unmapped(o)] = true
		}
	}
	return ends
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// halfOpen says why a node that calls the store may not get its answer.
func halfOpen(a netip.Addr, f fabric.Fault) string {
	text := fmt.Sprintf("%s calls the store here, and does not acknowledge this node's answer: ", a)
	if f.Why != "" {
		return text + f.Why + "\n" + f.Here()
	}
	return text + fmt.Sprintf("packets from here to it are dropped, lost or go elsewhere\n"+
		"ip route get %s; ip neigh show %s   # here: is it the way there\n"+
		"nft list ruleset; iptables -S   # there, and on firewalls between: a rule that drops what arrives", a, a)
}

// unheardBy says why a node may not get the store's longer answers.
func unheardBy(a netip.Addr, k scene.Socket, f fabric.Fault) string {
	if f.Why != "" {
		return fmt.Sprintf("%s does not acknowledge the answers of the store here: %s\n%s", a, f.Why, f.Here())
	}
	return fmt.Sprintf("the store's answers to %s do not arrive, although it connects again each time. %d bytes were "+
		"sent %d times without an acknowledgement. A firewall or tunnel drops packets of that length, or most are lost\n"+
		"ping -M do -s %d %s   # here; then with other sizes", a, k.SendQ, int(k.Info.Backoff)+1,
		max(56, min(int(k.SendQ), 1200)), a)
}

// wrongWay returns why packets of this node may not get to an address.
func wrongWay(a netip.Addr, gone fabric.Gone) fabric.Fault {
	to := netip.AddrPortFrom(a, 0)
	if f := fabric.Wrong(fabric.Call{To: to, Gone: gone}); f.Why != "" {
		return f
	}
	return fabric.DetourTo(netip.Addr{}, to).Fault
}

// sayCallers prints what unreachedCallers finds; nil where this node does not host the store.
func (s *Start) sayCallers() func(now time.Time) {
	if s.store == nil || len(s.store.Serve) == 0 {
		return nil
	}
	port := int(s.store.Serve[0].Port())
	c := newUnreachedCallers(wrongWay)
	return func(now time.Time) {
		procfs := os.DirFS("/proc")
		half, unheard := process.HalfOpen(procfs, port), scene.Unheard(uint16(port))
		var open []netip.AddrPort
		if len(half)+len(unheard) > 0 {
			open = process.Callers(procfs, port)
		}
		for _, text := range c.look(now, half, unheard, open) {
			s.UI.Note("%s", strings.TrimSpace(text))
		}
	}
}
