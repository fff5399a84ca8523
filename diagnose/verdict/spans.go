package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Spans writes ranks as 0-3,7; an unknown one (-1) is ?.
func Spans(all []int) string {
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 && all[i] >= 0 {
			j++
		}
		switch {
		case all[i] < 0:
			parts = append(parts, "?")
		case j == i:
			parts = append(parts, strconv.Itoa(all[i]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", all[i], all[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
