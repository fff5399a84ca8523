package verdict

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/finding"
)

// Certain reports whether the job hangs for a reason that nothing else explains. A person may be
// at work in a debugger, or be asked for input, and a path that loses packets lets some through.
func (a Answer) Certain() bool {
	if a.State != Hung || len(a.Why) == 0 {
		return false
	}
	v := a.Why[0]
	return v.Sure == Certain && v.Cause != "rank.traced" && v.Cause != "path.loss" && !v.Blocked
}

// Key is what makes two answers the same reason.
func (a Answer) Key() string {
	var parts []string
	for _, v := range a.Why {
		ranks := finding.Map(v.Ranks, strconv.Itoa)
		parts = append(parts, v.Cause+" "+strings.Join(slices.Concat(ranks, v.Nodes), " "))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// How much of an answer one finding has.
const (
	maxAlso = 3 // causes besides the first
	maxNeed = 4 // of what was not seen
)

// Finding says in one warning why something of the job does not go on; what begins its sentence. There is a first
// verdict.
func (a Answer) Finding(what string) finding.Finding {
	v := a.Why[0]
	f := finding.Warnf("%s: %s (%s, %s)", what, v.Says, v.Cause, v.Sure)
	for _, s := range v.Seen {
		f = f.See(s.Where, "%s", s.What)
	}
	for _, more := range a.Why[1:min(len(a.Why), 1+maxAlso)] {
		f = f.See("also", "%s (%s, %s)", more.Says, more.Cause, more.Sure)
	}
	for _, n := range a.Need[:min(len(a.Need), maxNeed)] {
		f = f.See("not seen", "%s", n)
	}
	return f.Do("%s", cmp.Or(v.Do, "launch doctor"))
}
