package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/internal/finding"
)

// Listen is an address on which a library waits for the other nodes, in addition to the address of the node.
type Listen struct {
	Library string     `json:"library"` // "NCCL", "Gloo", or a network that no library has yet
	Addr    netip.Addr `json:"addr"`
	Typed   bool       `json:"typed,omitempty"` // chosen by a setting, not by the library
	Speed   int        `json:"speed,omitempty"` // of a network that is faster than that of the node's address, Mb/s
	Than    int        `json:"than,omitempty"`  // the speed of that one, Mb/s
}

// closedBeside reports whether calls failed to another address where NCCL waits by its own choice. Then each node
// leaves such addresses out.
func closedBeside(posts []Post) bool {
	return slices.ContainsFunc(edges(posts), func(e edge) bool {
		library, typed := e.waits()
		return e.call.Also && !toFast(e) && library == ncclLibrary && !typed && (e.call.Failed() || e.call.Stall != "")
	})
}

// ncclLibrary is the library of a Listen whose addresses the plan can leave out.
const ncclLibrary = "NCCL"

// leftOut returns a finding about an address where a library waits by its own choice, with what a start does where the
// library is NCCL.
func leftOut(f finding.Finding, library string) finding.Finding {
	if library != ncclLibrary {
		return f
	}
	return f.Do("nothing: a start with launch sets NCCL_SOCKET_IFNAME to the network of the nodes' addresses\n" +
		"to use the other network too, open it between the nodes, and give each node its own address there")
}

// otherAddress judges calls to the other addresses on which a library waits. It fails only where the
// user's own setting names the address: a library may not use what it chooses itself.
func (b blamed) otherAddress(w words) judged {
	e := b.common()
	library, typed := e.waits()
	f := finding.Warnf("%s: %s", b.what(fmt.Sprintf("calls to the address where %s waits (%s)", library,
		hostOf(e.call.Addr))), w.why).Named("peer.beside").
		Breaking("the nodes reach each other at their own addresses, but %s waits there, and hangs when it connects",
			library).
		Do("set %s_SOCKET_IFNAME to the interface of %s on that node, or open that network between the nodes",
			strings.ToUpper(library), e.to.Name)
	if w.several {
		f.What = fmt.Sprintf("%s, where %s waits", w.why, library)
		f.Fix = w.fix
	}
	if !typed {
		return judged{Finding: b.see(leftOut(f, library))}
	}
	f.Status = finding.Fail
	return judged{b.see(f), b.unfit()}
}

// largeBeside is large for the other addresses on which a library waits.
func (b blamed) largeBeside() judged {
	library, typed := b.common().waits()
	f := b.large()
	f.What += fmt.Sprintf("; this is at the address where %s waits (%s), not at the node's own", library,
		hostOf(b.common().call.Addr))
	if typed {
		return judged{f, b.unfit()}
	}
	f.Status = finding.Warn
	return judged{Finding: leftOut(f, library)}
}

// waits returns which library waits at the called address, and whether the user's own setting names it.
func (e edge) waits() (library string, typed bool) {
	for _, l := range e.to.Listens {
		if l.Addr.String() == hostOf(e.call.Addr) {
			return l.Library, l.Typed
		}
	}
	return "a library", false
}
