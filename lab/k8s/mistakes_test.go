package k8s

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"
)

// mistake is a Job that cannot run, and what its pods must say of it.
type mistake struct {
	name, what string
	change     change
	after      func(t *testing.T, l *lab, name string) // what happens to the Job that was applied
	fails      bool                                    // the Job fails by it, at once or within the bound
	says       []string
}

// mistakeBound is how long a mistake may take until the pods say it: noService of cmd/internal/start is a minute.
const mistakeBound = 150 * time.Second

func mistakes() []mistake {
	unserved := []string{"does not exist, or does not select these pods"}
	return []mistake{
		{name: "misspelt", what: "`torchrunn`", fails: true, says: []string{"command not found"},
			change: func(w work) { w.container["args"].([]any)[0] = "torchrunn" }},
		{name: "few", what: "LAUNCH_NNODES is 2 of 3", fails: true, says: []string{"out of range"},
			change: func(w work) { setEnv(w.container, "LAUNCH_NNODES", "2") }},
		{name: "many", what: "LAUNCH_NNODES is 4 of 3, `--join-timeout 20s`", says: []string{"missing: node 3",
			"kubectl -n default get pods -l batch.kubernetes.io/job-name=many", "completions and parallelism"},
			change: func(w work) {
				setEnv(w.container, "LAUNCH_NNODES", "4")
				setEnv(w.container, "LAUNCH_JOIN_TIMEOUT", "20s")
			}},
		{name: "unserved", what: "no Service", fails: true, says: append(unserved, "kubectl -n default get service unserved"),
			change: func(w work) { clear(w.service) }},
		{name: "selects", what: "the Service selects no pod", fails: true,
			says:   append(unserved, "batch.kubernetes.io/job-name: selects"),
			change: func(w work) { at(w.service, "spec")["selector"] = object{"app": "another"} }},
		{name: "complete", what: "an index is complete, the other pods are deleted; no restarts, `--join-timeout 20s`",
			says: []string{"missing: node 1", "a Completed one does not come back"},
			change: func(w work) {
				setEnv(w.container, "LAUNCH_RESTARTS", "0")
				setEnv(w.container, "LAUNCH_JOIN_TIMEOUT", "20s")
				w.container["args"] = []any{"sh", "-c", `[ "$NODE_RANK" = 1 ] || exec sleep 600`}
			},
			after: completes},
	}
}

// completes waits until pod 1 is complete, and deletes the other two.
func completes(t *testing.T, l *lab, name string) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
		for _, p := range l.pods(name) {
			if p.Status.Phase == "Succeeded" {
				l.must(t, "", "delete", "pod", "--wait=false", l.of(t, name, 0).Metadata.Name, l.of(t, name, 2).Metadata.Name)
				return
			}
		}
	}
	t.Error("no pod is complete")
	l.log(t, name)
}

// Mistakes prints the second table of docs/benchmarks.md, Kubernetes: how long it takes until the status of a pod
// says what is wrong, and until the Job has failed.
func TestMistakes(t *testing.T) {
	l := up(t, 2)
	began, rows := load(), ""
	defer func() {
		fmt.Printf("\nLoad %s at the start and %s at the end.\n\n", began, load())
		fmt.Print("| mistake, 3 pods | a pod says so after | status | the Job has failed after |\n|---|---|---|---|\n" + rows)
	}()
	for _, m := range mistakes() {
		t.Run(m.name, func(t *testing.T) {
			said, missing := l.try(t, m)
			if missing != "" {
				t.Errorf("%s: the pods do not say %q", m.what, missing)
			}
			rows += fmt.Sprintf("| %s | %s |\n", m.what, said)
			t.Logf("%s | %s", m.what, said)
		})
	}
}

// try applies a mistake, and returns what said does.
func (l *lab) try(t *testing.T, m mistake) (cells, missing string) {
	text := l.manifest(t, m.name, 3, m.change)
	defer l.remove(text)
	since := time.Now()
	l.must(t, text, "apply", "-f", "-")
	if m.after != nil {
		m.after(t, l, m.name)
		since = time.Now()
	}
	if cells, missing = l.said(m, since); missing != "" {
		l.log(t, m.name)
	}
	return cells, missing
}

// said waits until a pod says all that it must and the Job has failed, if it must; it returns the cells of the row,
// and what is missing.
func (l *lab) said(m mistake, since time.Time) (cells, missing string) {
	after, status := time.Duration(0), 0
	for time.Since(since) < mistakeBound {
		if after == 0 {
			if status, missing = says(l.pods(m.name), m.says); missing == "" {
				after = time.Since(since)
			}
		}
		failed, _ := l.kubectl("", "get", "job", m.name, "-o", `jsonpath={.status.conditions[?(@.type=="Failed")].reason}`)
		switch {
		case after > 0 && failed != "":
			cells = fmt.Sprintf("%.0f s | %d | %.0f s (%s)", after.Seconds(), status, time.Since(since).Seconds(), failed)
			return cells, map[bool]string{false: "(the Job goes on)"}[m.fails]
		case after > 0 && !m.fails:
			return fmt.Sprintf("%.0f s | %d | a new pod tries again", after.Seconds(), status), ""
		}
		time.Sleep(500 * time.Millisecond)
	}
	return "not within " + mistakeBound.String() + " | - | -", cmp.Or(missing, "(the Job has failed)")
}

// says returns the status of the pod whose last lines have all of want, or what the last one lacks.
func says(pods []pod, want []string) (status int, missing string) {
	missing = want[0]
	for _, p := range pods {
		code, message, ok := p.ended()
		if !ok {
			continue
		}
		missing = ""
		for _, w := range want {
			if !strings.Contains(message, w) {
				missing = w
			}
		}
		if missing == "" {
			return code, ""
		}
	}
	return 0, missing
}
