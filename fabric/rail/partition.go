package rail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
)

// Partitions returns the partitions that a port is a full member of, without the bit of membership.
func Partitions(p fabric.Port) (out []int) {
	for _, k := range p.PKeys {
		if key, err := strconv.ParseUint(k.Key, 0, 16); err == nil && k.Full() {
			out = append(out, int(key&0x7fff))
		}
	}
	return out
}

// strangers returns the full members that are not in the partition of all others: they cannot reach each other. Where
// each rail has a partition of its own, or two groups have one each, no port is one.
func (v *view) strangers(all []candidate) (out []ruled) {
	const clear = 3 // times as many are in the partition
	count, home := map[int]int{}, -1
	for _, c := range all {
		for _, p := range Partitions(c.port) {
			if count[p]++; home < 0 || count[p] > count[home] || count[p] == count[home] && p < home {
				home = p
			}
		}
	}
	var few, rest []candidate
	for _, c := range all {
		switch own := Partitions(c.port); {
		case slices.Contains(own, home):
			rest = append(rest, c)
		case c.kind == InfiniBand && len(own) > 0:
			few = append(few, c)
		}
	}
	if len(rest) < clear*len(few) {
		return nil
	}
	for _, c := range few {
		role := Unusable
		if !v.vacant(c, few, rest) {
			role, _ = v.otherRole(c)
		}
		why := fmt.Sprintf("in partition %s, and the rest in %s", keys(Partitions(c.port)), keys([]int{home}))
		out = append(out, ruled{c, role, why, role == Unusable})
	}
	return out
}

// keys returns partitions as a table of full members has them.
func keys(partitions []int) string {
	var out []string
	for _, p := range partitions {
		out = append(out, fmt.Sprintf("%#x", p|0x8000))
	}
	return strings.Join(out, " and ")
}
