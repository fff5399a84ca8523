package bench

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
)

// Rounds is which rounds of the circle method n nodes play, most of them: 0 or
// as many as there are is each pair once. It follows from n and nonce alone, and
// so does Partner, so that a node needs to know nobody but its partners.
//
// The rounds are consecutive ones: those who meet in any two of them hang
// together as one path through all nodes, so that a node is always compared
// with all others, if by way of some. Where they begin is the nonce's.
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

// circle is how many rounds n nodes need for each pair to meet once.
func circle(n int) int {
	if n < 2 {
		return 0
	}
	return n - 1 + n%2
}

// Partner is whom a rank meets in a round of the circle method; false: nobody,
// which with an odd number of nodes is one of them in each round. The last of an
// even number stands still, and the others go round it: they meet whose sum with
// theirs is the round's number.
func Partner(rank, n, round int) (int, bool) {
	m := circle(n)
	if m == 0 {
		return 0, false
	}
	still := m // of an odd number of nodes nobody is there, and who meets it is idle
	other := still
	switch {
	case rank == still:
		other = half(round, m)
	case (2*rank-round)%m != 0:
		other = ((round-rank)%m + m) % m
	}
	return other, other < n
}

// half is who would meet itself in a round: twice its number is the round's,
// and m is odd.
func half(round, m int) int {
	round %= m
	if round%2 == 1 {
		round += m
	}
	return round / 2
}

// Match says which ports of two nodes meet: those of one name; of the rest those
// in one network, and what is left, in the order of their names. Each is the
// places of a port of a and one of b. Both ends see it alike.
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
