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

// closedBeside reports whether calls failed to another address where a library waits by its own choice. Then each node
// leaves such addresses out.
func closedBeside(posts []Post) bool {
	return slices.ContainsFunc(edges(posts), func(e edge) bool {
		library, typed := e.waits()
		return e.call.Also && !toFast(e) && left(library) && !typed && (e.call.Failed() || e.call.Stall != "")
	})
}

// unused returns the calls without those to addresses at which no rank waits, and what is said of these: without GPUs
// torch's ranks exchange data by Gloo, which waits at another address of the node, and the call there got through. At
// node rank 0's own address the job's store waits.
func unused(all, also []edge, posts []Post) (rest []edge, out []judged) {
	var idle []edge
	for _, e := range all {
		arrived := func(o edge) bool {
			library, _ := o.waits()
			return o.from.Rank == e.from.Rank && o.to.Rank == e.to.Rank && library == glooLibrary && !o.call.Failed()
		}
		if e.call.Failed() && e.to.Rank != 0 && !e.to.Loads.GPU && slices.ContainsFunc(also, arrived) {
			idle = append(idle, e)
			continue
		}
		rest = append(rest, e)
	}
	for _, b := range causes(idle, posts, func(edge) bool { return true }) {
		f := finding.Warnf("%s at their own addresses: %s; the data of the job goes to other ones, where Gloo waits",
			b.what("calls"), wordsOf(b.common(), posts).why).Named("peer.beside").
			Breaking("programs that use these addresses would wait for each other without end").
			Do("--addr NETWORK   # the network in which Gloo waits\n%s", openTCP)
		out = append(out, judged{Finding: b.see(f)})
	}
	return rest, out
}

// glooLibrary is the library of a Listen that a job without GPUs uses alone.
const glooLibrary = "Gloo"

// left reports whether the plan can leave out the addresses of a library.
func left(library string) bool { return library == "NCCL" || library == glooLibrary }

// leftOut returns a finding about an address where a library waits by its own choice, with what a start does then.
func leftOut(f finding.Finding, library string) finding.Finding {
	if !left(library) {
		return f
	}
	return f.Do("nothing: a start with launch sets %s_SOCKET_IFNAME to the network of the nodes' addresses\n"+
		"to use the other network too, open it between the nodes, and give each node its own address there",
		strings.ToUpper(library))
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
