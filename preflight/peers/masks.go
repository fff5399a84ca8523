package peers

import (
	"fmt"

	"launch/internal/finding"
)

// refusedBack reports whether another call is the one in the other direction, and its node's own kernel refused it at
// once. That is a fact, while what this caller found out about its own call that has no answer is a guess.
func (e edge) refusedBack(back edge) bool {
	return back.from.Rank == e.to.Rank && back.to.Rank == e.from.Rank && back.call.Here && back.call.Wrong.Why == "" &&
		!back.elsewhere()
}

// masked returns whether the netmasks of both ends of a call differ, although one of their networks has both.
func (e edge) masked() bool {
	a, b := e.from.Traits.Prefix, e.to.Traits.Prefix
	return a.IsValid() && b.IsValid() && a.Bits() != b.Bits() && (a.Contains(b.Addr()) || b.Contains(a.Addr()))
}

// oddMask returns the end of such a call whose netmask fewer nodes of the network have; known is false where as many
// have the other one.
func (e edge) oddMask(posts []Post) (odd, other Post, known bool) {
	wide := e.from.Traits.Prefix
	if e.to.Traits.Prefix.Bits() < wide.Bits() {
		wide = e.to.Traits.Prefix
	}
	have := map[int]int{} // nodes, by the length of the prefix
	for _, p := range posts {
		if own := p.Traits.Prefix; own.IsValid() && wide.Contains(own.Addr()) {
			have[own.Bits()]++
		}
	}
	a, b := have[e.from.Traits.Prefix.Bits()], have[e.to.Traits.Prefix.Bits()]
	if a < b {
		return e.from, e.to, true
	}
	return e.to, e.from, a > b
}

// masks says that the netmasks of both ends of a call differ; "": they do not, or one is not known.
func masks(e edge, posts []Post) string {
	if !e.masked() {
		return ""
	}
	say := func(p Post) string { return fmt.Sprintf("%s has %s", p.Name, p.Traits.Prefix) }
	odd, other, known := e.oddMask(posts)
	if !known {
		return fmt.Sprintf("; the netmasks differ: %s, and %s", say(e.from), say(e.to))
	}
	var same []string
	for _, p := range posts {
		if p.Traits.Prefix.IsValid() && p.Traits.Prefix.Masked() == other.Traits.Prefix.Masked() {
			same = append(same, p.Name)
		}
	}
	return fmt.Sprintf("; the netmask of one node differs: %s, and /%d is the netmask of %s", say(odd),
		other.Traits.Prefix.Bits(), finding.Some(same))
}
