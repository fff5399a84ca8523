package envgen

import (
	"cmp"
	"strconv"
	"strings"
)

// version is the version of a library, "2.27.5"; the zero version is unknown.
type version [3]int

// parseVersion parses the leading numbers of "2.27.5+cuda12.9".
func parseVersion(s string) version {
	var v version
	for i := range v {
		end := 0
		for end < len(s) && digit(s[end]) < 10 {
			end++
		}
		n, err := strconv.Atoi(s[:end])
		if err != nil {
			return v
		}
		v[i] = n
		if end == len(s) || s[end] != '.' {
			return v
		}
		s = s[end+1:]
	}
	return v
}

func (v version) known() bool { return v != version{} }

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}

// span is a range of versions: from since on, before before; "" is open.
type span struct{ since, before string }

// holds reports whether a version is in the range. An unknown version counts as a
// current one: it is only in a range with an open end.
func (s span) holds(v version) bool {
	if !v.known() {
		return s.before == ""
	}
	return (s.since == "" || v.compare(parseVersion(s.since)) >= 0) &&
		(s.before == "" || v.compare(parseVersion(s.before)) < 0)
}

func (s span) String() string {
	var words []string
	if s.since != "" {
		words = append(words, "from "+s.since)
	}
	if s.before != "" {
		words = append(words, "before "+s.before)
	}
	return strings.Join(words, ", ")
}
