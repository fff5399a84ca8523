package diagnose

import (
	"slices"
	"strconv"
	"strings"

	"launch/diagnose/verdict"
)

// rooted reports whether one rank sends to all in a collective, or receives from all: a rank leaves it as soon as its
// own part is done, maybe long before others join it.
func (o op) rooted() bool {
	return slices.Contains([]string{"broadcast", "reduce", "scatter", "gather"}, o.name)
}

// rootWords says what follows for the others where ranks wait in one rooted collective of Gloo, as ", which rank 1 or 2
// has not joined"; "": that is not known. ranks are those that wait in it, of all the others.
func (v *view) rootWords(ranks, others []int) string {
	root, all, name := -1, slices.Concat(ranks, others), ""
	for _, r := range ranks {
		s := v.seat(r)
		_, text, ok := strings.Cut(s.op.root(), "=")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || root >= 0 && n != root || v.groupOf(s) != 0 || !thread(s.proc, "pt_gloo_runloop") ||
			thread(s.proc, "pt_nccl_") {
			return ""
		}
		root, name = n, s.op.name
	}
	if root < 0 || root >= v.world || len(all) != v.world {
		return ""
	}
	var late []int
	for _, r := range ranks {
		for _, o := range others {
			if meets(name, root, r, o, v.world) && !slices.Contains(late, o) {
				late = append(late, o)
			}
		}
	}
	slices.Sort(late)
	is := ""
	if len(ranks) == 1 && ranks[0] == root {
		is = map[string]string{"broadcast": " as its source", "scatter": " as its source"}[name]
	}
	switch len(late) {
	case 0:
		return is
	case 1:
		return is + ", which " + rankWords(late) + " has not joined"
	case 2:
		return is + ", which rank " + strconv.Itoa(late[0]) + " or " + strconv.Itoa(late[1]) + " has not joined"
	}
	return is + ", which one of ranks " + verdict.Spans(late) + " has not joined"
}

// meets reports whether two ranks exchange data in a collective of Gloo with a root: in a broadcast along a tree in
// which a rank sends to those whose number, counted from the root, has one more bit above its own.
func meets(name string, root, a, b, world int) bool {
	switch name {
	case "scatter", "gather":
		return a == root || b == root
	case "broadcast":
		low, high := (a-root+world)%world, (b-root+world)%world
		low, high = min(low, high), max(low, high)
		bit := 1
		for bit <= low {
			bit *= 2
		}
		more := high - low
		return more >= bit && more&(more-1) == 0
	}
	return true
}
