package rendezvous

import (
	"math"
	"slices"
)

// most is how many partners a node has at most.
const most = 4

// Partners are the ranks that a node of a world of size nodes looks at: at most
// four, and all others where there are no more. Who is among one's partners has
// one among its own, so every node calls and is called. The graph is connected
// by the neighbours alone, and again by the far ones alone: no node, and no
// single wire between halves of a list, stays unseen.
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

// stride is the step to the far partners: the first from the square root of size
// on that shares no factor with it, so that its steps alone come to every node.
// Size 6 has none but the neighbours; there it is 2.
func stride(size int) int {
	for k := max(2, int(math.Sqrt(float64(size)))); 2*k < size; k++ {
		if gcd(k, size) == 1 {
			return k
		}
	}
	return 2
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
