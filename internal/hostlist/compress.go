package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// name is a host name cut around its last run of digits.
type name struct {
	head, digits, tail string
	n                  int64
	numbered           bool
}

func cut(s string) name {
	end := strings.LastIndexAny(s, "0123456789") + 1
	start := end
	for start > 0 && s[start-1] >= '0' && s[start-1] <= '9' {
		start--
	}
	if end == 0 || end-start > maxDigits {
		return name{head: s}
	}
	n, _ := strconv.ParseInt(s[start:end], 10, 64) // at most maxDigits digits
	return name{head: s[:start], digits: s[start:end], tail: s[end:], n: n, numbered: true}
}

// Compress writes names as one host list. It keeps their order, so that
// Expand gives back exactly what went in; only neighbours share a bracket.
func Compress(names []string) string {
	var items []string
	for i := 0; i < len(names); {
		first := cut(names[i])
		end := i + 1
		for end < len(names) && sameShape(first, cut(names[end])) {
			end++
		}
		if end == i+1 {
			items = append(items, names[i])
		} else {
			items = append(items, first.head+"["+ranges(names[i:end])+"]"+first.tail)
		}
		i = end
	}
	return strings.Join(items, ",")
}

func sameShape(a, b name) bool {
	return a.numbered && b.numbered && a.head == b.head && a.tail == b.tail
}

// ranges joins the numbers of names that differ in nothing else.
func ranges(names []string) string {
	var out []string
	for i := 0; i < len(names); {
		low := cut(names[i])
		high, end := low, i+1
		for ; end < len(names); end++ {
			next := cut(names[end])
			// The width of the lower bound must reproduce the text.
			if next.n != high.n+1 || fmt.Sprintf("%0*d", len(low.digits), next.n) != next.digits {
				break
			}
			high = next
		}
		if end == i+1 {
			out = append(out, low.digits)
		} else {
			out = append(out, low.digits+"-"+high.digits)
		}
		i = end
	}
	return strings.Join(out, ",")
}
