package companion

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/finding"
	"launch/rendezvous"
)

// moved returns why the machine that answers for an address of another node may not be that node's any more: this node
// has the address itself, or its packets for it go another way or to another neighbour than while they arrived. The
// zero Fault: nothing shows that.
func (d *doctor) moved(of rendezvous.Partner, others []rendezvous.Partner) fabric.Fault {
	course := fabric.Courses()
	for _, a := range append([]netip.Addr{of.Addr}, of.Addrs...) {
		a = a.Unmap()
		if f := d.flows.moved(a, of, others, course); f.Why != "" && !arrivesStill(a) {
			return f
		}
	}
	return fabric.Fault{}
}

// movedPause is how long no data has to be acknowledged where the way to an address has changed: a training that goes
// on has acknowledged some by then.
const movedPause = 300 * time.Millisecond

// arrivesStill reports whether another machine with an address acknowledges data now.
func arrivesStill(to netip.Addr) bool {
	before := scene.TrafficWith([]netip.Addr{to})
	time.Sleep(movedPause)
	now := scene.TrafficWith([]netip.Addr{to})
	maps.DeleteFunc(now, func(l scene.Link, _ scene.Socket) bool {
		_, known := before[l]
		return !known || endsOf(l)[0] == to
	})
	return arrived(before, now)
}

// moved does what moved of a doctor does, for one address of a node, whether data still arrives or not.
func (f *flows) moved(to netip.Addr, of rendezvous.Partner, others []rendezvous.Partner, course courseOf) fabric.Fault {
	r, ok := f.trailTo(to)
	if !ok {
		return fabric.Fault{}
	}
	now, err := course(r.link.Local, r.link.Remote)
	if err != nil {
		return fabric.Fault{}
	}
	has := func(n rendezvous.Partner) bool { // that hardware address
		return slices.ContainsFunc(append([]netip.Addr{n.Addr}, n.Addrs...), func(a netip.Addr) bool {
			if !a.IsValid() || a.Unmap() == to {
				return false
			}
			c, err := course(netip.AddrPortFrom(r.link.Local.Addr(), 0), netip.AddrPortFrom(a.Unmap(), 0))
			return err == nil && c.Neighbour == now.Neighbour
		})
	}
	sharer := ""
	if now.Neighbour != "" && now.Neighbour != r.sound.Neighbour {
		if has(of) {
			return fabric.Fault{} // another interface of the same node
		}
		if i := slices.IndexFunc(others, func(n rendezvous.Partner) bool { return n.Rank != of.Rank && has(n) }); i >= 0 {
			sharer = others[i].Name
		}
	}
	return now.Moved(r.sound, r.link.Local, r.link.Remote, sharer)
}

// trailTo returns how packets went to an address while they arrived.
func (f *flows) trailTo(to netip.Addr) (trail, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ends, r := range f.trails {
		if ends[1] == to && r.isKnown {
			return *r, true
		}
	}
	for ends, r := range f.past {
		if ends[1] == to {
			return r, true
		}
	}
	return trail{}, false
}

// sayMoved reports, after something of this node failed, that another machine may have the address of a node by now:
// this node's connections there end then, or a call is refused. It returns false where nothing shows that.
func (e *ends) sayMoved(what string) bool {
	if e.p.doctor == nil || e.asked() {
		return false
	}
	others := e.p.doctor.others(e.p.ctx)
	for _, n := range others[:min(len(others), maxWays)] {
		if f := e.p.doctor.moved(n, others); f.Why != "" {
			e.p.say(finding.Warnf("%s; that is the address of node rank %d, %s, and %s failed, which may follow from that",
				f.Why, n.Rank, n.Name, what).Named("node.lost").Do("%s", f.Here()), "")
			return true
		}
	}
	return false
}

// deleted returns that the interface which had one of this node's addresses while packets arrived does not exist any
// more; the zero Fault: it does, or that is not known.
func (f *flows) deleted(own netip.Addr) fabric.Fault {
	own = own.Unmap()
	f.mu.Lock()
	var was fabric.Course
	take := func(ends pairOfEnds, r trail) {
		if ends[0] == own && r.isKnown {
			was = r.sound
		}
	}
	for ends, r := range f.past {
		take(ends, r)
	}
	for ends, r := range f.trails {
		take(ends, *r)
	}
	f.mu.Unlock()
	return was.Deleted(own)
}
