package k8s

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// mistake is a Job that cannot run, and what its pods must say of it.
type mistake struct {
	name, what string
	change     func(job, container object)
	without    string // the kind of object that is not applied
	fails      bool   // the Job fails by it, at once or within the bound
	says       []string
}

// setEnv sets a variable of the container.
func setEnv(c object, name, value string) {
	for _, v := range c["env"].([]any) {
		if v := v.(object); v["name"] == name {
			v["value"] = value
			return
		}
	}
	c["env"] = append(c["env"].([]any), object{"name": name, "value": value})
}

func mistakes() []mistake {
	return []mistake{
		{name: "misspelt", what: "torchrunn in the place of torchrun", fails: true, says: []string{"command not found"},
			change: func(_, c object) { c["args"].([]any)[0] = "torchrunn" }},
		{name: "few", what: "LAUNCH_NNODES is too small", fails: true, says: []string{"out of range"},
			change: func(_, c object) { setEnv(c, "LAUNCH_NNODES", "2") }},
		{name: "many", what: "LAUNCH_NNODES is too large (join timeout 20 s)", says: []string{"missing: node 3",
			"kubectl -n default get pods -l batch.kubernetes.io/job-name=many", "completions and parallelism"},
			change: func(_, c object) { setEnv(c, "LAUNCH_NNODES", "4"); setEnv(c, "LAUNCH_JOIN_TIMEOUT", "20s") }},
		{name: "unserved", what: "no Service", fails: true, without: "kind: Service",
			says: []string{"does not exist, or does not select these pods", "kubectl -n default get service unserved"}},
	}
}

// mistakes applies each wrong Job, and adds how long it takes until its pods say so.
func (l *lab) mistakes(t *testing.T, rows *[]row) {
	for _, m := range mistakes() {
		text := l.manifest(t, m.name, 3, m.change)
		var docs []string
		for doc := range strings.SplitSeq(text, "---\n") {
			if m.without == "" || !strings.Contains(doc, m.without) {
				docs = append(docs, doc)
			}
		}
		text = strings.Join(docs, "---\n")
		since := time.Now()
		l.must(t, text, "apply", "-f", "-")
		said, after := l.said(m, since)
		if said != "" {
			t.Errorf("%s: the pods do not say %q", m.what, said)
			l.log(t, m.name)
		}
		*rows = append(*rows, row{m.what, "3", "launch", after})
		t.Logf("%s: %s", m.what, after)
		_, _ = l.kubectl(text, "delete", "--wait=true", "--timeout=60s", "-f", "-")
	}
}

// said waits until a pod says all that it must and the Job has failed, if it must; it returns what is missing.
func (l *lab) said(m mistake, since time.Time) (missing, after string) {
	for time.Since(since) < bound {
		out, _ := l.kubectl("", "get", "pods", "-l", "batch.kubernetes.io/job-name="+m.name, "-o",
			"jsonpath={.items[*].status.containerStatuses[0].state.terminated.message}")
		missing = ""
		for _, want := range m.says {
			if !strings.Contains(out, want) {
				missing = want
			}
		}
		failed, _ := l.kubectl("", "get", "job", m.name, "-o", `jsonpath={.status.conditions[?(@.type=="Failed")].reason}`)
		if missing == "" && (failed != "") == m.fails {
			return "", fmt.Sprintf("said after %.0f s%s", time.Since(since).Seconds(),
				map[bool]string{true: ", the Job has failed"}[m.fails])
		}
		if missing == "" && m.fails {
			missing = "(the Job fails)"
		}
		time.Sleep(500 * time.Millisecond)
	}
	return missing, "not within " + bound.String()
}
