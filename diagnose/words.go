package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// find returns the first element that f is true for, or nil.
func find[T any](all []*T, f func(*T) bool) *T {
	if i := slices.IndexFunc(all, f); i >= 0 {
		return all[i]
	}
	return nil
}

// number returns the value of a variable; -1: it is missing, or no number.
func number(env map[string]string, name string) int {
	n, err := strconv.Atoi(env[name])
	if err != nil {
		return -1
	}
	return n
}

// most returns the key with the largest count, the larger of equal ones; 0 without any.
func most(counts map[int]int) (best int) {
	for k, n := range counts {
		if n > counts[best] || n == counts[best] && k > best {
			best = k
		}
	}
	return best
}

func cutPort(addr string) (host, port string, ok bool) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return addr, "", false
	}
	return addr[:i], addr[i+1:], true
}

// rankWords writes ranks for a sentence: "rank 3", "ranks 0-2".
func rankWords(all []int) string {
	return finding.Noun(len(all), "rank") + " " + verdict.Spans(all)
}

// ago writes a duration for a sentence.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
}

// unions is a set of keys, some of which are of one job.
type unions struct{ up map[string]string }

func newUnion() *unions { return &unions{map[string]string{}} }

func (u *unions) find(k string) string {
	for u.up[k] != "" && u.up[k] != k {
		k = u.up[k]
	}
	return k
}

func (u *unions) join(a, b string) {
	if a, b = u.find(a), u.find(b); a != b {
		u.up[b] = a
	}
}
