package hangs

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// result is one line of the table.
type result struct {
	kind, want, said string
	how              outcome
	took             time.Duration // of all answers of a case
}

// results collects the results of all cases.
var results = &score{}

type score struct {
	mu  sync.Mutex
	all []result
}

func (s *score) add(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

// print writes a table of all cases, how many are right, and how long the answers took.
func (s *score) print(w io.Writer) {
	if len(s.all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\texpected\tsaid\tseconds\t")
	counts := map[outcome]int{}
	var times []time.Duration
	for _, r := range s.all {
		counts[r.how]++
		times = append(times, r.took)
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f\t%s\n", r.kind, cmp.Or(r.want, "-"), r.said, r.took.Seconds(), r.how)
	}
	_ = t.Flush()
	slices.Sort(times)
	share := func(p int) float64 { return times[(len(times)-1)*p/100].Seconds() }
	fmt.Fprintf(
		w,
		"%d cases: %d right, %d other, %d silent, %d wrong; %.1f s at the median, %.1f s for 95 %%, %.1f s at most\n",
		len(s.all),
		counts[right],
		counts[other],
		counts[silent],
		counts[wrong],
		share(50),
		share(95),
		share(100),
	)
}
