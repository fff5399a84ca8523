// Package spelling finds the word that was meant by one that is not known.
package spelling

import "strings"

// Closest is the one of known that word may have been meant to be, or "": one that
// is a slip or two away, else the only one that begins with it, else one that
// has it as its first or last part (timeout, join-timeout) or is such a part of
// it. Upper and lower case are the same; parts are parted by '-', '_' or '.'.
func Closest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", min(1+len(word)/4, len(word)-1)
	for _, k := range known {
		if d := distance(word, strings.ToLower(k)); d <= least && (best == "" || d < least) {
			best, least = k, d
		}
	}
	if best != "" || word == "" {
		return best
	}
	begin := 0
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), word) {
			best, begin = k, begin+1
		}
	}
	if begin == 1 {
		return best
	}
	for _, k := range known {
		if low := strings.ToLower(k); part(low, word) || part(word, low) {
			return k
		}
	}
	return ""
}

// part tells whether short is the first or last part of long. One of two
// letters is a part of too much.
func part(long, short string) bool {
	const parting = "-_."
	if len(short) < 3 || len(short) >= len(long) {
		return false
	}
	return strings.HasPrefix(long, short) && strings.IndexByte(parting, long[len(short)]) >= 0 ||
		strings.HasSuffix(long, short) && strings.IndexByte(parting, long[len(long)-len(short)-1]) >= 0
}

// distance is how many letters were added, left out, changed or swapped with
// their neighbour (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
