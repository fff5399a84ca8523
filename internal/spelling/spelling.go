// Package spelling suggests the known name that an unknown one was meant to be.
package spelling

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Closest returns the entry of known that was most likely meant, or "". It prefers an entry that is
// a slip or two away. Otherwise it is the only entry that begins with name, or an entry that shares
// its first or last part (timeout, join-timeout). '-', '_' and '.' separate parts; case is ignored.
func Closest(name string, known []string) string {
	name = strings.ToLower(name)
	best, least := "", min(1+len(name)/4, len(name)-1)
	var longer, alike []string
	for _, k := range known {
		low := strings.ToLower(k)
		if d := smetrics.WagnerFischer(name, low, 1, 1, 1); d <= least && (best == "" || d < least) {
			best, least = k, d
		}
		if strings.HasPrefix(low, name) {
			longer = append(longer, k)
		}
		if hasPart(low, name) || hasPart(name, low) {
			alike = append(alike, k)
		}
	}
	switch {
	case best != "" || name == "":
		return best
	case len(longer) == 1:
		return longer[0]
	case len(alike) > 0:
		return alike[0]
	}
	return ""
}

// hasPart reports whether short is the first or last part of long. Two letters
// are a part of too many names.
func hasPart(long, short string) bool {
	const separators = "-_."
	if len(short) < 3 || len(short) >= len(long) {
		return false
	}
	before, after := long[len(long)-len(short)-1], long[len(short)]
	return strings.HasPrefix(long, short) && strings.IndexByte(separators, after) >= 0 ||
		strings.HasSuffix(long, short) && strings.IndexByte(separators, before) >= 0
}
