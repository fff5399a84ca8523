package k8s

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bound is how long a row waits for a start.
const bound = 150 * time.Second

// way is how the pods of a Job start torchrun.
type way struct {
	name   string
	change func(l *lab, name string, n int) func(job, container object)
}

// ways are launch, and what people do without it.
func ways() []way {
	shell := func(l *lab, name, line string) func(job, container object) {
		return func(job, c object) {
			script := l.root + "/lab/k8s/testdata/step.py " + l.out + "/" + name
			c["command"], c["args"] = []any{"sh", "-c", "exec 2>&1; " + line + " " + script}, []any{}
			delete(at(job, "spec"), "podFailurePolicy") // its statuses are launch's
		}
	}
	return []way{
		{"launch", func(*lab, string, int) func(job, container object) { return nil }},
		{"torchrun c10d", func(l *lab, name string, n int) func(job, container object) {
			return shell(l, name, fmt.Sprintf("torchrun --nnodes=%d --nproc_per_node=1 --max_restarts=10 --rdzv_id=%s "+
				"--rdzv_backend=c10d --rdzv_endpoint=%s-0.%[2]s:29400", n, name, name))
		}},
		{"sleep, torchrun", func(l *lab, name string, n int) func(job, container object) {
			return shell(l, name, fmt.Sprintf("sleep $((JOB_COMPLETION_INDEX*30+30)); torchrun --nnodes=%d "+
				"--nproc_per_node=1 --max_restarts=10 --node_rank=$JOB_COMPLETION_INDEX --master_addr=%s-0.%[2]s", n, name))
		}},
	}
}

// trains returns the seconds from since until all n ranks are in a run that began after it; false: not within bound.
func (l *lab) trains(name string, n int, since time.Time) (float64, bool) {
	for time.Since(since) < bound {
		last, all := 0.0, true
		run := ""
		for rank := range n {
			text, _ := os.ReadFile(filepath.Join(l.out, name, fmt.Sprintf("rank-%d", rank)))
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			f := strings.Fields(lines[len(lines)-1])
			if len(f) != 3 || run != "" && f[0] != run {
				all = false
				break
			}
			run = f[0]
			last = max(last, firstOf(lines, run))
		}
		if began, _ := strconv.ParseFloat(run, 64); all && began > seconds(since) {
			return last - seconds(since), true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return 0, false
}

// firstOf returns the time of the first step of a run.
func firstOf(lines []string, run string) float64 {
	for _, line := range lines {
		if f := strings.Fields(line); len(f) == 3 && f[0] == run {
			t, _ := strconv.ParseFloat(f[2], 64)
			return t
		}
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// row is one line of the table.
type row struct{ what, pods, way, result string }

// measure runs the losses of one Job, and adds their rows.
func (l *lab) measure(t *testing.T, w way, name string, n int, rows *[]row) {
	add := func(what string, s float64, ok bool) {
		result := fmt.Sprintf("%.1f s", s)
		if !ok {
			result = fmt.Sprintf("not within %s", bound)
		}
		*rows = append(*rows, row{what, strconv.Itoa(n), w.name, result})
		t.Logf("%s, %d pods, %s: %s", what, n, w.name, result)
	}
	text := l.manifest(t, name, n, w.change(l, name, n))
	since := time.Now()
	l.must(t, text, "apply", "-f", "-")
	defer l.kubectl(text, "delete", "--ignore-not-found", "--wait=true", "--timeout=60s", "-f", "-")
	s, ok := l.trains(name, n, since)
	if add("first start", s, ok); !ok {
		l.log(t, name)
		return
	}
	for _, loss := range []struct {
		what string
		do   func() (string, error)
	}{
		{"the command of pod 1 is killed", func() (string, error) {
			return l.kubectl("", "exec", l.pod(t, name, 1), "--", "sh", "-c",
				`for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline)" in *-u*step.py*) kill -9 ${p#/proc/};; esac; done`)
		}},
		{"pod 1 is deleted", func() (string, error) {
			return l.kubectl("", "delete", "pod", "--wait=false", l.pod(t, name, 1))
		}},
		{"pod 0 is deleted", func() (string, error) {
			return l.kubectl("", "delete", "pod", "--wait=false", l.pod(t, name, 0))
		}},
	} {
		since = time.Now()
		if out, err := loss.do(); err != nil {
			t.Errorf("%s: %v %s", loss.what, err, out)
			return
		}
		s, ok := l.trains(name, n, since)
		if add(loss.what, s, ok); !ok {
			l.log(t, name)
			return
		}
	}
}

// pod returns the name of the running pod of an index.
func (l *lab) pod(t *testing.T, name string, index int) string {
	t.Helper()
	out := l.must(t, "", "get", "pods", "--field-selector=status.phase=Running", "-o",
		`jsonpath={range .items[?(@.metadata.deletionTimestamp=="")]}{.metadata.name}{"\n"}{end}`, "-l",
		fmt.Sprintf("batch.kubernetes.io/job-name=%s,batch.kubernetes.io/job-completion-index=%d", name, index))
	if out == "" {
		out = l.must(t, "", "get", "pods", "--field-selector=status.phase=Running", "-o",
			`jsonpath={.items[0].metadata.name}`, "-l",
			fmt.Sprintf("batch.kubernetes.io/job-name=%s,batch.kubernetes.io/job-completion-index=%d", name, index))
	}
	first, _, _ := strings.Cut(out, "\n")
	return first
}

// log prints what the pods of a Job say.
func (l *lab) log(t *testing.T, name string) {
	out, _ := l.kubectl("", "get", "pods", "-o", "wide", "-l", "batch.kubernetes.io/job-name="+name)
	logs, _ := l.kubectl("", "logs", "--prefix", "--tail=25", "--max-log-requests=20", "-l",
		"batch.kubernetes.io/job-name="+name)
	t.Logf("%s\n%s", out, logs)
}

// Rows prints the table of docs/benchmarks.md: seconds from the apply or the loss until all ranks train.
func TestRows(t *testing.T) {
	l := up(t)
	var rows []row
	defer func() {
		fmt.Println("| what happens | pods | started by | training after |\n|---|---|---|---|")
		for _, r := range rows {
			fmt.Printf("| %s | %s | %s | %s |\n", r.what, r.pods, r.way, r.result)
		}
	}()
	l.mistakes(t, &rows)
	for _, n := range sizes(t) {
		for i, w := range ways() {
			if only := os.Getenv("LAUNCH_K8S_WAYS"); only != "" && !strings.Contains(only, strings.Fields(w.name)[0]) {
				continue
			}
			l.measure(t, w, fmt.Sprintf("row-%d-%d", n, i), n, &rows)
		}
	}
}

// sizes returns the numbers of pods.
func sizes(t *testing.T) (all []int) {
	text := os.Getenv("LAUNCH_K8S_PODS")
	if text == "" {
		text = "3 6"
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
