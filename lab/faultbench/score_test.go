package faultbench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// score is the outcome of one trial.
type score struct {
	group, name string
	hosts       int
	found       bool // the cause was printed
	named       bool // with the sick host
	others      bool // also by another host
	after       time.Duration
	ended       time.Duration // when the last host ended
	exits       string
	real        string
	bad         string // why it counts as missed
}

// kept are the scores of this run.
var kept struct {
	sync.Mutex
	scores []score
	starts []started
	alarms []string // of these
}

func keep(s score) {
	kept.Lock()
	defer kept.Unlock()
	kept.scores = append(kept.scores, s)
}

// print writes the tables of docs/benchmarks.md.
func print(w io.Writer) {
	all := kept.scores
	if len(all) > 0 {
		slices.SortStableFunc(all, func(a, b score) int {
			return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.hosts, b.hosts))
		})
		fmt.Fprintf(w, "\n| group | fault | hosts | named | by others too | s after | all ended, s | exit "+
			"|\n|---|---|---|---|---|---|---|---|\n")
		hit := 0
		var times []time.Duration
		for _, s := range all {
			verdict := "yes"
			if s.bad != "" {
				verdict = "NO: " + s.bad
			} else {
				hit++
				times = append(times, s.after)
			}
			others := map[bool]string{true: "yes", false: "-"}[s.others]
			fmt.Fprintf(w, "| %s | %s | %d | %s | %s | %.1f | %.1f | %s |\n", s.group, s.name, s.hosts, verdict, others,
				s.after.Seconds(), s.ended.Seconds(), s.exits)
		}
		slices.Sort(times)
		if len(times) > 0 {
			fmt.Fprintf(w, "\n%d of %d trials: the right cause on the right host; after %.1f s in the median, %.1f s at most\n",
				hit, len(all), times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
		}
	}
	printHealthy(w, kept.starts, kept.alarms)
	printCompared(w)
}
