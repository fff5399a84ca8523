package start

import (
	"fmt"
	"net/netip"
	"os"
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

// unreachedCallers watches, on the store's host, the calls to the store to which this node's answers do not get
// through. The nodes that call cannot see the reason, and the leader does not know of them.
type unreachedCallers struct {
	port  int
	since map[netip.Addr]time.Time // half open since then
	said  map[netip.Addr]bool
	open  map[netip.Addr]bool           // had an open connection: it has got an answer
	stuck map[netip.Addr]netip.AddrPort // the other end of the first connection that got stuck
}

// look returns what is to be said now, once for each address.
func (c *unreachedCallers) look(now time.Time) (out []string) {
	half := process.HalfOpen(os.DirFS("/proc"), c.port)
	for _, a := range process.Callers(os.DirFS("/proc"), c.port) {
		c.open[a] = true
	}
	since := map[netip.Addr]time.Time{}
	for _, a := range half {
		if since[a] = now; !c.since[a].IsZero() {
			since[a] = c.since[a]
		}
		if now.Sub(since[a]) >= halfAfter && !c.said[a] && !c.open[a] {
			c.said[a] = true
			out = append(out, halfOpen(a, fabric.Misdirected(a)))
		}
	}
	c.since = since
	for _, k := range scene.Unheard(uint16(c.port)) {
		a := k.Remote.Addr().Unmap()
		if _, known := c.stuck[a]; !known && k.SendQ > shortest {
			c.stuck[a] = k.Remote
		}
		// It has connected again, which takes short packets only, and the same has happened to it.
		if k.SendQ > shortest && c.stuck[a] != k.Remote && !c.said[a] {
			c.said[a] = true
			out = append(out, unheard(a, k, fabric.Misdirected(a)))
		}
	}
	return out
}

// halfOpen says why a node that calls the store may not get its answer.
func halfOpen(a netip.Addr, why string) string {
	text := fmt.Sprintf("%s calls the store here, and does not acknowledge this node's answer: ", a)
	if why != "" {
		return text + why
	}
	return text + fmt.Sprintf("packets from here to it are dropped, lost or go elsewhere\n"+
		"ip route get %s; ip neigh show %s   # here: is it the way there\n"+
		"nft list ruleset; iptables -S   # there, and on firewalls between: a rule that drops what arrives", a, a)
}

// unheard says why a node may not get the store's longer answers.
func unheard(a netip.Addr, k scene.Socket, why string) string {
	if why != "" {
		return fmt.Sprintf("%s does not acknowledge the answers of the store here: %s", a, why)
	}
	return fmt.Sprintf("the store's answers to %s do not arrive, although it connects again each time: %d bytes were "+
		"sent %d times without an acknowledgement. A firewall or tunnel drops packets of that length, or most are lost\n"+
		"ping -M do -s %d %s   # here; then with other sizes", a, k.SendQ, int(k.Info.Backoff)+1,
		max(56, min(int(k.SendQ), 1200)), a)
}

// sayCallers prints what unreachedCallers finds; nil where this node does not host the store.
func (s *Start) sayCallers() func(now time.Time) {
	if s.store == nil || len(s.store.Serve) == 0 {
		return nil
	}
	c := &unreachedCallers{port: int(s.store.Serve[0].Port()), said: map[netip.Addr]bool{},
		open: map[netip.Addr]bool{}, stuck: map[netip.Addr]netip.AddrPort{}}
	return func(now time.Time) {
		for _, text := range c.look(now) {
			s.UI.Note("%s", strings.TrimSpace(text))
		}
	}
}
