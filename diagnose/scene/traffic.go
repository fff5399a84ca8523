package scene

import (
	"net/netip"
	"slices"
)

// Traffic is what the kernel has counted on each TCP connection of this network namespace to one node.
type Traffic map[Link]Socket

// Link is the two ends of a TCP connection, as one node has it.
type Link struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
}

// Exchanged is what has changed on those connections that are there at two moments.
type Exchanged struct {
	Segments uint64 // that have arrived, those that had arrived before included
	Acked    uint64 // bytes that the other end has acknowledged
	Again    uint64 // segments that were sent again
	Waiting  bool   // on one of them data waited at both moments to be acknowledged
	Unheard  bool   // on one of them data was sent again, and is not acknowledged
}

// Flows reports whether data arrives and is acknowledged without a delay.
func (e Exchanged) Flows() bool { return e.Segments > 0 && e.Acked > 0 && !e.Waiting && !e.Unheard }

// TrafficWith returns the traffic with the node that has some addresses.
func TrafficWith(at []netip.Addr) Traffic {
	out := Traffic{}
	_ = dump("", func(k Socket) {
		if k.Info != nil && k.State != stateSynSent && slices.Contains(at, k.Remote.Addr().Unmap()) {
			out[Link{k.Local, k.Remote}] = k
		}
	})
	return out
}

// TrafficOf returns the traffic with other machines of processes of a job.
func TrafficOf(pids func() []int) Traffic {
	at, out := map[uint64]Socket{}, Traffic{} // by inode
	_ = dump("", func(k Socket) {
		if to := k.Remote.Addr().Unmap(); k.State == "established" && k.Info != nil && k.Inode != 0 && !to.IsLoopback() &&
			to != k.Local.Addr().Unmap() {
			at[k.Inode] = k
		}
	})
	if len(at) == 0 {
		return out
	}
	for _, pid := range pids() {
		for _, inode := range openSockets(pid) {
			if k, found := at[inode]; found {
				out[Link{k.Local, k.Remote}] = k
			}
		}
	}
	return out
}

// Since returns what was exchanged since an earlier moment.
func (t Traffic) Since(before Traffic) (e Exchanged) {
	for at, now := range t {
		was, ok := before[at]
		if !ok || now.Inode != was.Inode {
			continue
		}
		e.Segments += uint64(now.Info.Segments - was.Info.Segments)
		e.Acked += now.Info.Acked - was.Info.Acked
		e.Again += uint64(now.Info.Retrans - was.Info.Retrans)
		e.Waiting = e.Waiting || was.SendQ > 0 && now.SendQ > 0
		e.Unheard = e.Unheard || now.Info.Unacked > 0 && now.Info.Backoff > 0
	}
	return e
}

// LinksTo returns the connections to an address that processes of a job have open.
func LinksTo(to netip.Addr, pids func() []int) (out []Link) {
	at := map[uint64]Link{} // by inode
	_ = dump("", func(k Socket) {
		if k.State == "established" && k.Inode != 0 && k.Remote.Addr().Unmap() == to.Unmap() {
			at[k.Inode] = Link{k.Local, k.Remote}
		}
	})
	if len(at) == 0 {
		return nil
	}
	for _, pid := range pids() {
		for _, inode := range openSockets(pid) {
			if l, found := at[inode]; found {
				out = append(out, l)
				delete(at, inode)
			}
		}
	}
	return out
}

// Severed returns the connections that other nodes have open to addresses of this one and of which this node's kernel
// has no other end: what that end sent when it was closed has not arrived there. there are all connections of these
// nodes. Where NAT is between, each end has other addresses or ports of the same connection: one to an end at which
// this node has an open connection that is in no list may be that, and is left out.
func Severed(there []Link, own []netip.Addr) (out []Link) {
	listed, here, unlisted := map[Link]bool{}, map[Link]bool{}, map[netip.AddrPort]bool{}
	for _, l := range there {
		listed[l.unmapped()] = true
	}
	if dump("", func(k Socket) {
		l := Link{k.Remote, k.Local}.unmapped()
		here[l] = true
		if k.State == "established" && !listed[l] {
			unlisted[l.Remote] = true
		}
	}) != nil {
		return nil
	}
	for _, l := range there {
		at := l.unmapped()
		if slices.Contains(own, at.Remote.Addr()) && !here[at] && !unlisted[at.Remote] {
			out = append(out, l)
		}
	}
	return out
}

// unmapped returns a link without IPv4 addresses in the form of IPv6, which sockets of both families have.
func (l Link) unmapped() Link {
	plain := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
	return Link{plain(l.Local), plain(l.Remote)}
}
