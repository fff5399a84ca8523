package scene

import (
	"net/netip"
	"slices"
)

// Traffic is what the kernel has counted on each TCP connection of this network namespace to one node.
type Traffic map[ends]Socket

type ends struct{ local, remote netip.AddrPort }

// Exchanged is what has changed on those connections that are there at two moments.
type Exchanged struct {
	Segments uint64 // that have arrived, those that had arrived before included
	Acked    uint64 // bytes that the other end has acknowledged
	Again    uint64 // segments that were sent again
	Waiting  bool   // on one of them data waited at both moments to be acknowledged
	Unheard  bool   // on one of them data was sent again, and is not acknowledged
}

// TrafficWith returns the traffic with the node that has some addresses.
func TrafficWith(at []netip.Addr) Traffic {
	out := Traffic{}
	_ = dump("", func(k Socket) {
		if k.Info != nil && k.State != stateSynSent && slices.Contains(at, k.Remote.Addr().Unmap()) {
			out[ends{k.Local, k.Remote}] = k
		}
	})
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
