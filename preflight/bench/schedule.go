package bench

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
)

// Rounds returns the rounds of the circle method that n nodes use, at most the given
// number; 0 or the full number measures each pair once. The result follows from n and
// nonce alone, as Partner's does, so a node needs to know only its partners.
//
// The rounds are consecutive: the pairs of any two of them connect all nodes in one path, so each
// node is compared with all others, if indirectly. The nonce decides where the rounds start.
func Rounds(n int, nonce string, most int) []int {
	all := circle(n)
	if most < 1 || most > all {
		most = all
	}
	if most == 0 {
		return nil
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(nonce))
	_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	first := int(sum.Sum64() % uint64(all))
	out := make([]int, most)
	for i := range out {
		out[i] = (first + i) % all
	}
	return out
}

// circle returns the number of rounds in which n nodes measure each pair once.
func circle(n int) int {
	if n < 2 {
		return 0
	}
	return n - 1 + n%2
}

// Partner returns the partner of a rank in a round of the circle method. It returns false for the one node without
// a partner, which each round has if the number of nodes is odd. The last of an even number of nodes stays in
// place and the others rotate: two nodes are partners if their sum is the round's number.
func Partner(rank, n, round int) (int, bool) {
	m := circle(n)
	if m == 0 {
		return 0, false
	}
	other := m // the place that stays: with an odd number of nodes it is empty, and its partner is idle
	switch {
	case rank == m:
		other = half(round, m)
	case (2*rank-round)%m != 0:
		other = ((round-rank)%m + m) % m
	}
	return other, other < n
}

// half returns the node that would be its own partner in a round: twice its number is the round's, and m is odd.
func half(round, m int) int {
	round %= m
	if round%2 == 1 {
		round += m
	}
	return round / 2
}

// Match pairs the ports of two nodes: those of one name; of the rest those in one network; then the others in the
// order of their names. Each result is an index of a and one of b. Both ends get the same pairs.
func Match(a, b []Port) [][2]int {
	var out [][2]int
	leftA, leftB := byName(a), byName(b)
	meet := func(alike func(x, y Port) bool) {
		leftA = slices.DeleteFunc(leftA, func(i int) bool {
			k := slices.IndexFunc(leftB, func(j int) bool { return alike(a[i], b[j]) })
			if k < 0 {
				return false
			}
			out = append(out, [2]int{i, leftB[k]})
			leftB = slices.Delete(leftB, k, k+1)
			return true
		})
	}
	meet(func(x, y Port) bool { return x.Name == y.Name })
	meet(func(x, y Port) bool { return network(x).IsValid() && network(x) == network(y) })
	meet(func(x, y Port) bool { return (x.HCA == "") == (y.HCA == "") && x.Link == y.Link })
	slices.SortFunc(out, func(x, y [2]int) int { return x[0] - y[0] })
	return out
}

func network(p Port) netip.Prefix { return p.Net.Masked() }

func byName(ports []Port) []int {
	out := make([]int, len(ports))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(i, j int) int { return strings.Compare(ports[i].Name, ports[j].Name) })
	return out
}
