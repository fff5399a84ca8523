package hostlist

import (
	"strconv"
	"strings"
)

// Counts returns Slurm's numbers per node, as in SLURM_TASKS_PER_NODE: 4(x2),8 is 4, 4, 8.
func Counts(s string) ([]int, error) {
	p := &parser{text: s}
	var out []int
	at := 0
	for item := range strings.SplitSeq(s, ",") {
		value, times, repeated := strings.Cut(item, "(x")
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return nil, p.errorf(at, "%q is not a number", value)
		}
		repeat := 1
		if repeated {
			text, closed := strings.CutSuffix(times, ")")
			if repeat, err = strconv.Atoi(text); err != nil || repeat < 1 || !closed {
				return nil, p.errorf(at+len(value), "%q where (xN) was expected", "(x"+times)
			}
		}
		if repeat > MaxNames-len(out) {
			return nil, p.errorf(at, "more than %d nodes", MaxNames)
		}
		for range repeat {
			out = append(out, n)
		}
		at += len(item) + 1
	}
	return out, nil
}
