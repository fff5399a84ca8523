package peers

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
)

// compareClocks reports nodes with a wrong wall clock. Each call measures the difference of its two ends; together
// they relate every clock to node rank 0's. The clock of most nodes is the right one.
func compareClocks(posts []Post, allowed time.Duration) []judged {
	clock, doubt := clocks(posts)
	if len(clock) < 2 {
		return nil
	}
	ranks := slices.SortedFunc(maps.Keys(clock), func(a, b int) int { return cmp.Compare(clock[a], clock[b]) })
	mid := ranks[(len(ranks)-1)/2]
	middle := clock[mid]
	var off []Post
	var worst time.Duration
	for _, p := range posts {
		c, known := clock[p.Rank]
		if d := c - middle; known && d.Abs()-doubt[p.Rank]-doubt[mid] > allowed {
			off = append(off, p)
			if d.Abs() > worst.Abs() {
				worst = d
			}
		}
	}
	if len(off) == 0 {
		return nil
	}
	names := namesOf(off)
	f := finding.Warnf("the clock of %s is %s the others", names[0], away(worst))
	switch {
	case len(clock) == 2:
		names = namesOf(posts[:2])
		f = finding.Warnf("the clocks of %s and %s are %s apart", names[0], names[1], plainly(worst.Abs()))
	case len(off) > 1:
		f = finding.Warnf("the clocks of %s are up to %s the others", finding.Some(names), away(worst))
	}
	for _, p := range off[:min(len(off), 4)] {
		f = f.See("clock of "+p.Name, "%s the median of %d nodes, within %s",
			away(clock[p.Rank]-middle), len(clock), plainly(doubt[p.Rank]+doubt[mid]))
	}
	f = f.Named("peer.clock").About(names)
	return []judged{{Finding: f.Breaking("logs cannot be ordered, certificates and tokens count as "+
		"expired, and torch's own c10d rendezvous drops a node that is 15 s behind").
		Do("chronyc makestep; timedatectl   # on %s; shows whether the time service runs",
			strings.Join(names[:min(len(names), 4)], ", "))}}
}

// clocks returns the difference of each wall clock to node rank 0's, as far as
// calls connect them, and the error that the round trips leave.
func clocks(posts []Post) (clock, doubt map[int]time.Duration) {
	if len(posts) == 0 {
		return nil, nil
	}
	next := map[int][]edge{}
	for _, e := range edges(posts) {
		if !e.call.Failed() && e.call.Doubt > 0 {
			next[e.from.Rank] = append(next[e.from.Rank], e)
			back := edge{from: e.to, to: e.from, call: e.call}
			back.call.Offset = -e.call.Offset
			next[e.to.Rank] = append(next[e.to.Rank], back)
		}
	}
	first := posts[0].Rank
	clock, doubt = map[int]time.Duration{first: 0}, map[int]time.Duration{first: 0}
	for queue := []int{first}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, e := range next[at] {
			if _, known := clock[e.to.Rank]; !known {
				clock[e.to.Rank], doubt[e.to.Rank] = clock[at]+e.call.Offset, doubt[at]+e.call.Doubt
				queue = append(queue, e.to.Rank)
			}
		}
	}
	return clock, doubt
}

func away(d time.Duration) string {
	if d < 0 {
		return plainly(-d) + " behind"
	}
	return plainly(d) + " ahead of"
}

// plainly returns a duration with few digits.
func plainly(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", math.Round(d.Seconds()*10)/10)
	}
	return d.Round(100 * time.Microsecond).String()
}
