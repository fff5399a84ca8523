package truth

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tally holds the results of this run.
type tally struct {
	sync.Mutex
	all []result
}

var results tally

// add keeps a result, in files too if TRUTH_OUT names a folder.
func (a *tally) add(t *testing.T, r result) {
	a.Lock()
	defer a.Unlock()
	a.all = append(a.all, r)
	line := fmt.Sprintf("%-13s %s=%s  %s: alone it %s; with launch: %s. %s", r.Verdict, seedVar, r.Seed, r.Draw, r.Alone,
		r.Launch, r.Why)
	t.Log(line)
	dir := os.Getenv(outVar)
	if dir == "" {
		return
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(filepath.Join(dir, "results.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	}
	if err == nil {
		_, err = f.Write(append(text, '\n'))
		_ = f.Close()
	}
	if err == nil && !r.Verdict.good() {
		name := string(r.Verdict) + "-" + strings.ReplaceAll(r.Seed, "/", "-") + ".txt"
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")), []byte(r.printed()), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// print writes the confusion matrix, and each disagreement with the seed that replays it.
func (a *tally) print(w io.Writer) {
	if len(a.all) == 0 {
		return
	}
	healthy, harmful, firsts := map[string]map[verdict]int{}, map[string]map[verdict]int{}, []float64{}
	for _, r := range a.all {
		if r.Verdict == unmade {
			fmt.Fprintf(w, "\nunmade  %s=%s  %s\n   %s\n", seedVar, r.Seed, r.Draw, r.Why)
			continue
		}
		to := harmful
		if slices.Contains(healthyVerdicts, r.Verdict) {
			to = healthy
		} else if r.Verdict != prevented && r.Verdict != silent {
			firsts = append(firsts, r.First)
		}
		for _, topic := range append(topicsOf(r), "all") {
			if to[topic] == nil {
				to[topic] = map[verdict]int{}
			}
			to[topic][r.Verdict]++
		}
	}
	table(w, "the job runs alone", healthy, healthyVerdicts)
	table(w, "the job hangs or dies alone", harmful, harmfulVerdicts)
	if slices.Sort(firsts); len(firsts) > 0 {
		fmt.Fprintf(w, "\nfirst line of a harmful draw: after %.1f s in the median, %.1f s in nine of ten, %.1f s at most\n",
			firsts[len(firsts)/2], firsts[len(firsts)*9/10], firsts[len(firsts)-1])
	}
	a.disagreements(w)
}

// topicsOf returns each topic of a result once.
func topicsOf(r result) []string {
	var out []string
	for _, t := range r.Topics {
		topic, _, _ := strings.Cut(t, ":")
		out = append(out, topic)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func table(w io.Writer, title string, rows map[string]map[verdict]int, verdicts []verdict) {
	fmt.Fprintf(w, "\n| %s | draws |", title)
	for _, v := range verdicts {
		fmt.Fprintf(w, " %s |", v)
	}
	fmt.Fprintf(w, "\n|%s\n", strings.Repeat("---|", len(verdicts)+2))
	topics := slices.DeleteFunc(slices.Sorted(maps.Keys(rows)), func(t string) bool { return t == "all" })
	for _, topic := range append(topics, "all") {
		sum := 0
		for _, n := range rows[topic] {
			sum += n
		}
		fmt.Fprintf(w, "| %s | %d |", topic, sum)
		for _, v := range verdicts {
			fmt.Fprintf(w, " %d |", rows[topic][v])
		}
		fmt.Fprintln(w)
	}
}

func (a *tally) disagreements(w io.Writer) {
	for _, v := range slices.Concat(harmfulVerdicts, healthyVerdicts) {
		if v.good() {
			continue
		}
		for _, r := range a.all {
			if r.Verdict != v {
				continue
			}
			note := ""
			if r.Known != "" {
				note = " (known: " + r.Known + ")"
			}
			if r.Once {
				note = " (one of two runs)"
			}
			fmt.Fprintf(w, "\n%s%s  %s=%s\n   %s\n   alone it %s; with launch: %s\n   %s\n", r.Verdict, note, seedVar, r.Seed,
				r.Draw, r.Alone, r.Launch, r.Why)
		}
	}
}
