package protocol

import (
	"math"
	"net/netip"
	"slices"
)

// Partner is a node of a sealed world with the address that other nodes call.
type Partner struct {
	Rank  int          `json:"rank"`
	ID    string       `json:"id"`              // of the sealed incarnation
	Name  string       `json:"name"`            // for people, also after it has left
	Addr  netip.Addr   `json:"addr,omitzero"`   // for its peers
	Addrs []netip.Addr `json:"addrs,omitempty"` // as Member.Addrs
	Peer  int          `json:"peer,omitempty"`  // port of its side channel
	// Role is as in Member. Port is Member.Port, where the node has a role: its role may have the job's own store there.
	Role string `json:"role,omitempty"`
	Port int    `json:"port,omitempty"`
}

// Partner returns the member as other nodes call it.
func (m Member) Partner(rank int) Partner {
	p := Partner{Rank: rank, ID: m.ID, Name: m.Name(), Addr: m.Addr, Addrs: m.Addrs, Peer: m.Peer, Role: m.Role}
	if p.Role != "" {
		p.Port = m.Port
	}
	return p
}

// Seated returns the places of the members in rank order, each with its partners.
func Seated(list []Member) []Place {
	places := make([]Place, len(list))
	for rank, m := range list {
		places[rank].Partner = m.Partner(rank)
	}
	for rank := range places {
		for _, other := range Partners(rank, len(list)) {
			places[rank].Partners = append(places[rank].Partners, places[other].Partner)
		}
	}
	return places
}

// most is the largest number of partners of a node.
const most = 4

// Partners returns the ranks that a node of a world of size nodes checks: at most
// four, and all others in a small world. The relation is symmetric, so every node
// calls and is called. The neighbours alone connect the graph, and so do the far
// partners alone: the checks reach every node and every single wire.
func Partners(rank, size int) []int {
	offsets := []int{1, stride(size)}
	if size <= most+1 {
		offsets = []int{1, 2}
	}
	var out []int
	for _, d := range offsets {
		out = append(out, (rank+d)%size, (rank+size-d%size)%size)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(r int) bool { return r == rank })
}

// stride returns the step to the far partners: the first number from the square root of
// size on that is coprime to size. Size 6 has none but the neighbours; there it is 2.
func stride(size int) int {
	for k := max(2, int(math.Sqrt(float64(size)))); 2*k < size; k++ {
		if gcd(k, size) == 1 {
			return k
		}
	}
	return 2
}

// gcd returns the greatest common divisor.
func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
