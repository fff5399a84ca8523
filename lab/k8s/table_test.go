package k8s

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// result is how one try of a row ended.
type result struct {
	after time.Duration // from what happened until all ranks train; 0: not within bound
	began time.Duration // and until their commands began: the rest is torch's own start
	bound time.Duration
}

// table has the results of all tries of a row, for each way.
type table struct {
	ways  []way
	rows  []string
	cells map[[2]string][]result // by row and way
	began string                 // the load at the start
}

func newTable(ways []way) *table {
	return &table{ways: ways, cells: map[[2]string][]result{}, began: load()}
}

// add adds a try.
func (t *table) add(what string, n int, w way, r result) {
	row := fmt.Sprintf("%s | %d", what, n)
	if !slices.Contains(t.rows, row) {
		t.rows = append(t.rows, row)
	}
	t.cells[[2]string{row, w.name}] = append(t.cells[[2]string{row, w.name}], r)
}

// print writes the table of docs/benchmarks.md.
func (t *table) print() {
	if len(t.rows) == 0 {
		return
	}
	fmt.Printf("\n%d cores, load %s at the start and %s at the end.\n\n", runtime.NumCPU(), t.began, load())
	fmt.Print("| what happens | pods |")
	for _, w := range t.ways {
		fmt.Printf(" %s |", w.title)
	}
	fmt.Println("\n|---|---|" + strings.Repeat("---|", len(t.ways)))
	for _, row := range t.rows {
		fmt.Printf("| %s |", row)
		for _, w := range t.ways {
			fmt.Printf(" %s |", cell(t.cells[[2]string{row, w.name}]))
		}
		fmt.Println()
	}
}

// cell returns the seconds of tries: the median and the range; of the median, when the commands began; and how many did
// not train.
func cell(tries []result) string {
	if len(tries) == 0 {
		return "-"
	}
	late := 0
	var ok []result
	for _, r := range tries {
		if r.after == 0 {
			late++
		} else {
			ok = append(ok, r)
		}
	}
	slices.SortFunc(ok, func(a, b result) int { return int(a.after - b.after) })
	text := ""
	if len(ok) > 0 {
		m := ok[(len(ok)-1)/2]
		text = fmt.Sprintf("%.1f", m.after.Seconds())
		if len(ok) > 1 {
			text += fmt.Sprintf(" (%.1f-%.1f)", ok[0].after.Seconds(), ok[len(ok)-1].after.Seconds())
		}
		text += fmt.Sprintf(" [%.1f]", m.began.Seconds())
	}
	switch {
	case late == 0:
		return text
	case late == len(tries):
		return fmt.Sprintf("> %.0f", tries[0].bound.Seconds())
	}
	return fmt.Sprintf("%s, %d of %d > %.0f", text, late, len(tries), tries[0].bound.Seconds())
}

// load returns the load of the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
