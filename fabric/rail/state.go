package rail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
)

// configured returns whether a port knows its subnet manager.
func configured(p fabric.Port) bool { return p.SMLID != 0 && p.SMLID != noLID }

// armed is the IBTA state of a port that a subnet manager has configured and not yet made active.
const armed = 3

// waits reports whether the cable of an InfiniBand port is up (5 is LinkUp) and the port is not: down, initializing or
// armed.
func waits(p fabric.Port) bool {
	return p.LinkLayer == "InfiniBand" && p.PhysState == 5 && p.State >= 1 && p.State <= armed
}

// Armed reports whether the first port of an HCA that waits has been configured already.
func Armed(h fabric.HCA) bool {
	i := slices.IndexFunc(h.Ports, waits)
	return i >= 0 && h.Ports[i].State == armed
}

// Barred reports whether an InfiniBand virtual function is down for another reason than its cable or a missing subnet
// manager: it has no GUID, its link policy is "down", or the manager leaves it out.
func Barred(n fabric.Node, h fabric.HCA, p fabric.Port) bool {
	bare := p.LinkLayer == "InfiniBand" && NoGUID(n, h, p) && (p.State == 1 || p.State == 2) // whatever its cable shows
	return h.VF && (bare || waits(p) && p.State != armed && (p.State == 1 && configured(p) || Served(n, h)))
}

// NoGUID reports whether a virtual function has neither a GUID nor a GID, while other devices of this node have a
// GUID: a recording may lack them all.
func NoGUID(n fabric.Node, h fabric.HCA, p fabric.Port) bool {
	return h.VF && h.GUID == "" && len(p.GIDs) == 0 &&
		slices.ContainsFunc(n.HCAs, func(o fabric.HCA) bool { return o.GUID != "" })
}

// Served reports whether a subnet manager serves this node's fabric, so that another one is no remedy for a port that
// waits: more ports of its make are active and have one than wait. Where half of them wait, these are perhaps
// another fabric's.
func Served(n fabric.Node, h fabric.HCA) bool {
	up, wait := 0, 0
	for _, o := range n.HCAs {
		for _, p := range o.Ports {
			switch alike := o.Driver == h.Driver && o.Type == h.Type && p.LinkLayer == "InfiniBand"; {
			case alike && p.Active() && configured(p):
				up++
			case alike && waits(p):
				wait++
			}
		}
	}
	return up > wait
}

// states describes the ports of an HCA without an active one.
func states(n fabric.Node, h fabric.HCA) string {
	var out []string
	for _, p := range h.Ports {
		out = append(out, fmt.Sprintf("port %d is %s", p.Num, State(n, h, p)))
	}
	return strings.Join(out, "; ")
}

// State describes a port that is not active.
func State(n fabric.Node, h fabric.HCA, p fabric.Port) string {
	names := map[int]string{1: "down", 2: "initializing (no " + Manager(h) + "?)", armed: "armed"}
	phys := map[int]string{1: "asleep", 2: "polling for a cable", 3: "disabled", 6: "recovering from link errors"}
	s := cmp.Or(names[p.State], fmt.Sprintf("in state %d", p.State))
	w := phys[p.PhysState]
	switch {
	case p.State == 0:
		s = "of unknown state and without a local identifier"
	case Barred(n, h, p) && NoGUID(n, h, p) && !waits(p):
		s, w = "down", "a virtual function without a GUID"
	case !waits(p):
	case p.State == armed:
		w = "though its cable is up and a " + Manager(h) + " has configured it"
	case NoGUID(n, h, p):
		s, w = "down", "though its cable is up: a virtual function without a GUID"
	case Barred(n, h, p) && configured(p):
		w = "though its cable is up and a subnet manager is known: a virtual function that was not enabled"
	case Barred(n, h, p):
		w = "though its cable is up and a subnet manager serves other ports: a virtual function that was not enabled"
	case Served(n, h):
		s, w = map[int]string{1: "down", 2: "initializing"}[p.State],
			"though its cable is up and a "+Manager(h)+" serves other ports"
	case p.State == 1:
		w = "though its cable is up (does a " + Manager(h) + " serve it?)"
	}
	if w != "" {
		s += ", " + w
	}
	return s
}

// Manager returns what the program is called that configures the ports of an HCA's fabric.
func Manager(h fabric.HCA) string {
	if isOmniPath(h) {
		return "fabric manager"
	}
	return "subnet manager"
}
