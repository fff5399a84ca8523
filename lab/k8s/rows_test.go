package k8s

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// loss is something that ends the run of a Job.
type loss struct {
	what string
	pod  int // its index
	do   func(l *lab, p pod) (string, error)
}

// killer kills the command of a pod: the worker of torchrun, which python -u runs.
const killer = `for p in /proc/[0-9]*; do
case "$(tr '\0' ' ' <$p/cmdline)" in "sh -c"*) ;; *"-u "*step.py*) kill -9 ${p#/proc/};; esac
done`

func losses() []loss {
	remove := func(l *lab, p pod) (string, error) {
		return l.kubectl("", "delete", "pod", "--wait=false", p.Metadata.Name)
	}
	return []loss{
		{what: "the command of pod 1 is killed", pod: 1, do: func(l *lab, p pod) (string, error) {
			return l.kubectl("", "exec", p.Metadata.Name, "--", "sh", "-c", killer)
		}},
		{what: "pod 1 is deleted", pod: 1, do: remove},
		{what: "pod 0 is deleted", pod: 0, do: remove},
	}
}

// Rows prints the first table of docs/benchmarks.md, Kubernetes: the seconds from the apply or the loss until all
// ranks train, and until their commands begin.
func TestRows(t *testing.T) {
	up(t, 2).tabulate(t, "row", (*lab).measure)
}

// tabulate prints a table of Jobs, each in a number of pods and in a way to start.
func (l *lab) tabulate(t *testing.T, prefix string, run func(*lab, *testing.T, way, string, int, *table)) {
	results := newTable(ways())
	defer results.print()
	for round := range rounds() {
		for _, n := range sizes(t) {
			for _, w := range results.ways {
				run(l, t, w, fmt.Sprintf("%s-%d-%s-%d", prefix, n, w.name, round), n, results)
			}
		}
	}
}

// measure runs the losses of one Job. A Job that does not train is applied again before the next loss.
func (l *lab) measure(t *testing.T, w way, name string, n int, results *table) {
	text := l.manifest(t, name, n, w.change(l, name, n))
	defer l.remove(text)
	if !l.starts(t, "first start", w, name, n, text, results) {
		return
	}
	for i, loss := range losses() {
		p := l.of(t, name, loss.pod)
		since := time.Now()
		if out, err := loss.do(l, p); err != nil {
			t.Errorf("%s, %s: %v %s", w.name, loss.what, err, out)
			return
		}
		r := l.trains(name, n, since, w.bound(n))
		l.report(t, w, loss.what, name, n, r, results)
		if last := i == len(losses())-1; r.after == 0 && !last {
			l.remove(text)
			if !l.starts(t, "", w, name, n, text, results) {
				return
			}
		}
	}
}

// starts applies a Job and waits until it trains.
func (l *lab) starts(t *testing.T, what string, w way, name string, n int, text string, results *table) bool {
	since := time.Now()
	l.must(t, text, "apply", "-f", "-")
	r := l.trains(name, n, since, w.bound(n))
	if what != "" || r.after == 0 {
		l.report(t, w, what, name, n, r, results)
	}
	return r.after > 0
}

// report adds a try. With launch, all must train.
func (l *lab) report(t *testing.T, w way, what, name string, n int, r result, results *table) {
	if what != "" {
		results.add(what, n, w, r)
	}
	t.Logf("%s, %d pods, %s: %s s", what, n, w.name, cell([]result{r}))
	if r.after == 0 {
		l.log(t, name)
		if w.name == "launch" {
			t.Errorf("%s, %d pods: the job does not train within %s", what, n, r.bound)
		}
	}
}

// remove deletes what was applied, and waits for the end of the pods.
func (l *lab) remove(text string) {
	_, _ = l.kubectl(text, "delete", "--ignore-not-found", "--wait=true", "--cascade=foreground", "--timeout=50s",
		"-f", "-")
}

// sizes returns the numbers of pods.
func sizes(t *testing.T) (all []int) {
	text := os.Getenv("LAUNCH_K8S_PODS")
	if text == "" {
		text = "3"
	}
	for _, w := range strings.Fields(text) {
		n, err := strconv.Atoi(w)
		if err != nil || n < 2 {
			t.Fatalf("LAUNCH_K8S_PODS has %q: want numbers from 2", w)
		}
		all = append(all, n)
	}
	return all
}

// rounds returns how often each row is measured.
func rounds() int {
	n, err := strconv.Atoi(os.Getenv("LAUNCH_K8S_ROUNDS"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}
