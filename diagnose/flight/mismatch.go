package flight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// side is the ranks that make the same call.
type side struct {
	entries []*Entry
	ranks   []int
}

// mismatch finds the first collective that ranks call differently, and that they did not pass. The ranks are all that
// are in it.
func (g *group) mismatch() (v verdict.Verdict, in []int, ok bool) {
	numbers := map[int64]bool{}
	for _, m := range g.members {
		for seq := range m.seqs {
			numbers[seq] = true
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(numbers)) {
		if sides := g.sides(seq); len(sides) > 1 && !g.passed(seq) {
			for _, s := range sides {
				in = append(in, s.ranks...)
			}
			return g.differing(seq, sides), in, true
		}
	}
	return verdict.Verdict{}, nil, false
}

// sides returns the calls of a number, the most frequent first.
func (g *group) sides(seq int64) (out []side) {
next:
	for _, m := range g.sorted() {
		entries := slices.DeleteFunc(slices.Clone(m.seqs[seq]), func(e *Entry) bool { return e.kind() == "coalesced" })
		if len(entries) == 0 || m.dump.Wrapped && seq == m.first {
			continue // of coalesced collectives, the first ones may be overwritten
		}
		for i := range out {
			if g.same(entries, out[i].entries, m.rank, out[i].ranks[0]) {
				out[i].ranks = append(out[i].ranks, m.rank)
				continue next
			}
		}
		out = append(out, side{entries, []int{m.rank}})
	}
	slices.SortStableFunc(out, func(a, b side) int { return cmp.Compare(len(b.ranks), len(a.ranks)) })
	return out
}

// passed says whether all ranks have ended a later collective of the group: then a difference did not stop them.
func (g *group) passed(seq int64) bool {
	for _, m := range g.members {
		later := func(n int64) bool { return n > seq && m.ended(n) }
		if len(m.seqs[seq]) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(m.seqs)), later) {
			return false
		}
	}
	return true
}

func (g *group) same(a, b []*Entry, rankA, rankB int) bool {
	return slices.EqualFunc(a, b, func(x, y *Entry) bool { return g.differ(x, y, rankA, rankB) == "" })
}

// differ says in what two calls differ that must be equal: "operation", "size", "type", or nothing.
func (g *group) differ(x, y *Entry, rankX, rankY int) string {
	kind := x.kind()
	if kind != y.kind() {
		return "operation"
	}
	in, out := true, true // compared
	switch kind {
	case "all_reduce", "allreduce_coalesced":
	case "all_gather", "_all_gather_base", "all_gather_into_tensor_coalesced":
		in = !g.uneven(x.In, x.Out, rankX) || !g.uneven(y.In, y.Out, rankY)
	case "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced":
		out = !g.uneven(x.Out, x.In, rankX) || !g.uneven(y.Out, y.In, rankY)
	case "gather", "reduce":
		out = false
	case "scatter", "broadcast":
		in = false
	default: // all_to_all may be uneven; a barrier has no tensors of the program
		return ""
	}
	return cmp.Or(unequal(in, x.In, y.In), unequal(out, x.Out, y.Out))
}

// uneven says whether a rank's share of the whole has another size than the shares of others, as the whole has it.
func (g *group) uneven(share, whole *Tensors, rank int) bool {
	parts, at := whole.numbers(), slices.Index(g.ranks, rank)
	own := share.numbers()
	return len(own) == 1 && len(parts) == len(g.ranks) && len(parts) > 1 && at >= 0 && parts[at] == own[0]
}

func unequal(compared bool, x, y *Tensors) string {
	if !compared || x == nil || y == nil {
		return ""
	}
	a, b := x.numbers(), y.numbers()
	switch {
	case !slices.Equal(x.types(), y.types()):
		return "type"
	case total(a) != total(b):
		return "size"
	}
	return ""
}

func total(all []int64) (sum int64) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// differing writes the verdict. Where no side has more ranks than the others, all are named.
func (g *group) differing(seq int64, sides []side) verdict.Verdict {
	missing := g.missing()
	v := verdict.Verdict{Cause: "collective.mismatch", Sure: verdict.Certain}
	if !g.known {
		v.Sure = verdict.Likely
	}
	most := sides[0]
	if len(most.ranks) == len(sides[1].ranks) {
		v.Ranks = append(v.Ranks, most.ranks...)
	}
	for _, s := range sides[1:] {
		v.Ranks = append(v.Ranks, s.ranks...)
	}
	slices.Sort(v.Ranks)
	what := g.difference(most, sides[1])
	var parts []string
	for _, s := range sides[1:min(len(sides), 3)] {
		parts = append(parts, fmt.Sprintf("%s %s", rankList(s.ranks), calls(s, what, true)))
	}
	parts = append(parts, fmt.Sprintf("%s %s", rankList(most.ranks), calls(most, what, false)))
	v.Says = fmt.Sprintf("in collective #%d of %s, %s", seq, g.title(), strings.Join(parts, ", "))
	v.Do = "make all ranks call the same collectives in the same order, with the same sizes and types"
	first := most.entries[0].Created
	for _, s := range slices.Backward(sides) {
		v.Seen = append(v.Seen, g.calls(seq, s.ranks)...)
		first = min(first, s.entries[0].Created)
	}
	v.Since = time.Unix(0, first)
	v.Seen = v.Seen[:min(len(v.Seen), maxSeen)]
	if len(missing) > 0 {
		v.Seen = append(v.Seen, finding.Seen{Where: "dumps", What: "no dump of " + rankList(missing)})
	}
	return v
}

// difference says in what the first different calls of two sides differ.
func (g *group) difference(a, b side) string {
	for i := range min(len(a.entries), len(b.entries)) {
		if what := g.differ(a.entries[i], b.entries[i], a.ranks[0], b.ranks[0]); what != "" {
			return what
		}
	}
	return "operation"
}

// calls says what a side calls, in the respect in which the sides differ.
func calls(s side, what string, verb bool) string {
	var text []string
	for _, e := range s.entries[:min(len(s.entries), 3)] {
		switch what {
		case "operation":
			text = append(text, e.kind())
		default:
			text = append(text, e.kind()+" of "+e.tensors())
		}
	}
	if len(s.entries) > 3 {
		text = append(text, fmt.Sprintf("%d more", len(s.entries)-3))
	}
	out := strings.Join(text, ", ")
	if e := s.entries[0]; e.At != "" {
		out += " (" + e.At + ")"
	}
	if !verb {
		return out
	}
	return finding.Noun(3-min(len(s.ranks), 2), "call") + " " + out
}
