package hangs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// add prints a result at once, and keeps it with LAUNCH_HANGS_RECORD, so that a run that ends early has said
// something and can be continued.
func (s *score) add(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
	line := fmt.Sprintf("%s\t%s\t%s\t%.1f\t%s\n", r.kind, cmp.Or(r.want, "-"), r.said, r.took.Seconds(), r.how)
	fmt.Print("result: " + line)
	if os.Getenv(record) == "" {
		return
	}
	file, err := os.OpenFile(recorded(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.WriteString(line)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Println(err)
	}
}

// has reports whether a kind has a result in this run.
func (s *score) has(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(r result) bool { return r.kind == kind })
}

// record names the folder of what is kept.
const record = "LAUNCH_HANGS_RECORD"

func recorded() string { return filepath.Join(os.Getenv(record), "results.tsv") }

// known reports whether an earlier run has kept a result of a kind.
func known(kind string) bool {
	text, _ := os.ReadFile(recorded())
	return strings.Contains("\n"+string(text), "\n"+kind+"\t")
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
		if r.how != unmade {
			times = append(times, r.took)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f\t%s\n", r.kind, cmp.Or(r.want, "-"), r.said, r.took.Seconds(), r.how)
	}
	_ = t.Flush()
	slices.Sort(times)
	if len(times) == 0 {
		return
	}
	share := func(p int) float64 { return times[(len(times)-1)*p/100].Seconds() }
	fmt.Fprintf(
		w,
		"%d cases: %d right, %d other, %d silent, %d wrong, %d unmade; "+
			"%.1f s at the median, %.1f s for 95 %%, %.1f s at most\n",
		len(s.all),
		counts[right],
		counts[other],
		counts[silent],
		counts[wrong],
		counts[unmade],
		share(50),
		share(95),
		share(100),
	)
}
