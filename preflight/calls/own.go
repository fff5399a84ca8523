package calls

import (
	"iter"
	"net/netip"
	"time"

	"launch/fabric"
	"launch/internal/sidechannel"
)

// Tables are what this node's own kernel knows of the way of a call: the functions of fabric. Each is asked only after
// calls have failed. Those that are nil are not asked.
type Tables struct {
	Wrong   func(fabric.Call) fabric.Fault
	DeadLeg func(bad, good []netip.AddrPort, to netip.AddrPort) fabric.Fault
	Detour  func(from netip.Addr, to netip.AddrPort) fabric.Detour // fabric.DetourTo
}

// mostBlamed bounds the calls of which the reason is looked for, and blameTime how long that may take before another
// one is begun; each takes up to 3 s.
const mostBlamed, blameTime = 16, 8 * time.Second

// own finds the calls that this node's own tables explain: it is at fault then, and not the called node or the path.
func (c Caller) own(made []Call) {
	left, end := mostBlamed, time.Now().Add(blameTime)
	for i := range made { // one after the other: some send packets, and look at a counter that all share
		if k := &made[i]; left > 0 && time.Now().Before(end) && (k.Failed() || k.Stall != "" || k.Hole || k.Never > 0) {
			c.blame(k)
			left--
		}
	}
	if c.Tables.Detour != nil {
		c.detours(made)
	}
}

// blame asks why one call failed, or a part of its connections or of its packets.
func (c Caller) blame(k *Call) {
	at, err := netip.ParseAddrPort(k.Addr)
	if err != nil || k.Here {
		return
	}
	if c.Tables.DeadLeg != nil && k.Never > 0 && k.Never < k.Tried {
		k.Wrong = c.Tables.DeadLeg(k.ends.Unopened, k.ends.Opened, at)
	}
	switch {
	case c.Tables.Wrong == nil || k.Wrong.Why != "":
	case k.Other != "" || k.Cause == sidechannel.Refused:
		k.Wrong = c.Tables.Wrong(fabric.Call{From: k.from, To: at, Gone: fabric.Astray})
	case k.unanswered():
		k.Wrong = c.Tables.Wrong(fabric.Call{From: k.from, To: at, Gone: fabric.All})
	case k.Stall != "" || k.Hole: // the other node may have seen more of what this one sends
		k.Wrong = c.Tables.Wrong(fabric.Call{From: k.from, To: at, Gone: fabric.Long})
	}
	k.Here = k.Wrong.Why != ""
}

// unanswered reports whether a call had no answer from the other node itself.
func (c Call) unanswered() bool {
	switch c.Cause {
	case sidechannel.Dropped, sidechannel.Silent, sidechannel.NoHost, sidechannel.Denied:
		return true
	}
	return false
}

// detours finds the calls that failed after their packets took an unusual way, which no call that got through took.
func (c Caller) detours(made []Call) {
	usual := map[string]bool{}
	look := func(failed bool, see func(*Call, fabric.Detour)) (seen bool) {
		for i := range made {
			k := &made[i]
			at, err := netip.ParseAddrPort(k.Addr)
			if err != nil || k.Port || k.Here || k.Failed() != failed || k.Cause == sidechannel.Unknown {
				continue
			}
			if d := c.Tables.Detour(k.from, at); d.Why != "" {
				see(k, d)
				seen = true
			}
		}
		return seen
	}
	if !look(true, func(*Call, fabric.Detour) {}) {
		return
	}
	look(false, func(_ *Call, d fabric.Detour) { usual[d.Way] = true })
	for from, to := range c.connected(made) {
		usual[c.Tables.Detour(from, to).Way] = true
	}
	look(true, func(k *Call, d fabric.Detour) {
		if !usual[d.Way] {
			k.Wrong, k.Here = d.Fault, true
		}
	})
}

// connected returns connections that this node has as a client or as the host of the store, which show what is usual.
func (c Caller) connected(made []Call) iter.Seq2[netip.Addr, netip.AddrPort] {
	return func(yield func(from netip.Addr, to netip.AddrPort) bool) {
		if c.Store.IsValid() && !yield(netip.Addr{}, c.Store) {
			return
		}
		for _, k := range made {
			if at, err := netip.ParseAddrPort(k.Addr); err == nil && c.Hosts.IsValid() && !k.Also &&
				!yield(c.Hosts, netip.AddrPortFrom(at.Addr(), 0)) {
				return
			}
		}
	}
}
