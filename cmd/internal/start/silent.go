package start

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// longPing is a packet of 1,400 bytes, which passes most tunnels, too.
const longPing = "ping -M do -s 1372 %s"

// manyNodes is the size of a job whose nodes open one connection each to a store that is silent.
const manyNodes = 64

// storeAt returns the addresses and ports of the store, as other nodes than its host see them.
func (s *Start) storeAt() (out []netip.AddrPort) {
	if s.store == nil || len(s.store.Serve) > 0 {
		return nil
	}
	for _, e := range s.store.Endpoints {
		host, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(e, "https://"), "http://"))
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); err == nil {
			out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(n)))
			continue
		}
		for _, a := range s.store.Means {
			out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(n)))
		}
	}
	return out
}

// onlyStore returns the address of the store, to which this node has a connection then; zero where it has several.
func (s *Start) onlyStore() netip.AddrPort {
	if at := s.storeAt(); len(at) == 1 {
		return at[0]
	}
	return netip.AddrPort{}
}

// whySilent returns why a store may not answer; "": nothing is known. New connections show whether packets to its
// host are lost, or connections beyond a limit, or those of some ports. Where all open, a firewall or tunnel may drop
// longer packets alone; that is said only after a long silence.
func (s *Start) whySilent(ctx context.Context, long bool) string {
	crowd := 12
	if s.Job.Nodes.V >= manyNodes {
		crowd = 1
	}
	for _, at := range s.storeAt() {
		f, ends := sidechannel.OpenFlows(ctx, at, sidechannel.Options{}, crowd)
		if ctx.Err() != nil {
			return "" // a later wait looks again
		}
		text := own(at, f, ends)
		if text == "" {
			text = unopened(at.String(), f)
		}
		if text == "" && long && f.Tried > 0 && f.Never == 0 {
			text = silence(at.String(), at.Addr().String())
		}
		if text == "" && f.Never == f.Tried && f.Tried > f.Refused && s.onlyStore() == at &&
			s.accepted() {
			text = fmt.Sprintf("%s has accepted connections of this node before, and opens none of %d now: a limit on new "+
				"connections there or between, or its host or the path to it is down since\n%s", at, f.Tried,
				calls.FindLimit("the store host"))
		}
		if text != "" {
			return text
		}
	}
	return ""
}

// own returns what this node's own tables show of connections to the store, of which none opens, or a part, or all
// while the store is silent: then long packets may be dropped; "": nothing.
func own(at netip.AddrPort, f sidechannel.Flows, ends sidechannel.Ends) string {
	if f.Tried == f.Refused {
		return "" // it was not started yet
	}
	why := fabric.DeadLeg(ends.Unopened, ends.Opened, at)
	call := fabric.Call{To: at, Gone: fabric.Long}
	if f.Never == f.Tried {
		call.Gone = fabric.All
	}
	if why.Why == "" {
		why = fabric.Wrong(call)
	}
	if why.Why == "" {
		return ""
	}
	return fmt.Sprintf("the store at %s is not reached, and the reason is here: %s\n%s", at, why.Why, why.Here())
}

// accepted reports whether the store has accepted a connection of this node.
func (s *Start) accepted() bool {
	return slices.ContainsFunc(s.Local, func(f finding.Finding) bool {
		return f.ID == "store.answers" && f.Status == finding.Pass
	})
}

// unopened says what connections show of which some open; "": all do, or none.
func unopened(at string, f sidechannel.Flows) string {
	all := calls.Opened(f, " to the store at "+at)
	switch {
	case f.Never == f.Tried:
		return ""
	case f.ByPort():
		return all + ". " + calls.OnePath + "\n" + calls.FindPath("both nodes")
	case f.Lossy():
		return all + ": packets to or from the store host are lost, or new connections are limited\n" +
			"ip -s link; ethtool -S IFACE; nft list ruleset   # on both"
	case f.Never > 0 && f.Again == sidechannel.Others:
		return all + ", also when tried again: a limit on new connections there or between\n" +
			calls.FindLimit("the store host")
	}
	return ""
}

// silence says what a store may lack that accepts a connection, and has given no answer for silentAfter.
func silence(at, host string) string {
	return fmt.Sprintf("%s accepts connections, and for %s no answer of the store has arrived. If longer packets are "+
		"dropped on the way, in one direction or both, "+longPing+" shows it, here and on that host towards this one; "+
		"else its launch is stopped or overloaded", at, silentAfter, host)
}

// sayApart prints, on the store's host, why nodes may be lost again and again after they have joined.
func (s *Start) sayApart() {
	if s.store == nil || len(s.store.Serve) == 0 {
		return
	}
	s.UI.Note("nodes have left twice after the ranks were agreed. If they join again each time, longer packets may be "+
		"dropped on the way to them: "+longPing+", from here to that node", "HOST")
}
