package k8s

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pod is what Kubernetes knows of a pod.
type pod struct {
	Metadata struct {
		Name    string     `json:"name"`
		Created time.Time  `json:"creationTimestamp"`
		Deleted *time.Time `json:"deletionTimestamp"`
		Labels  map[string]string
	} `json:"metadata"`
	Spec struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Containers []struct {
			State struct {
				Terminated *struct {
					Code    int    `json:"exitCode"`
					Message string `json:"message"`
				} `json:"terminated"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// ended returns the status of the pod's command and the pod's last lines, if it has ended.
func (p pod) ended() (code int, message string, ok bool) {
	for _, c := range p.Status.Containers {
		if e := c.State.Terminated; e != nil {
			return e.Code, e.Message, true
		}
	}
	return 0, "", false
}

// pods returns the pods of a Job.
func (l *lab) pods(name string) []pod {
	var list struct{ Items []pod }
	out, err := l.kubectl("", "get", "pods", "-o", "json", "-l", "batch.kubernetes.io/job-name="+name)
	if err != nil || json.Unmarshal([]byte(out), &list) != nil {
		return nil
	}
	return list.Items
}

// of returns the newest pod of an index that nothing ends.
func (l *lab) of(t *testing.T, name string, index int) (newest pod) {
	t.Helper()
	for _, p := range l.pods(name) {
		if p.Metadata.Labels["batch.kubernetes.io/job-completion-index"] == strconv.Itoa(index) &&
			p.Metadata.Deleted == nil && !p.Metadata.Created.Before(newest.Metadata.Created) {
			newest = p
		}
	}
	if newest.Metadata.Name == "" {
		t.Errorf("%s has no pod of index %d", name, index)
	}
	return newest
}

// log prints what the pods of a Job say, also those that have ended.
func (l *lab) log(t *testing.T, name string) {
	out, _ := l.kubectl("", "get", "pods", "-o", "wide", "-l", "batch.kubernetes.io/job-name="+name)
	for _, p := range l.pods(name) {
		logs, _ := l.kubectl("", "logs", "--timestamps", "--prefix", "--tail=25", p.Metadata.Name)
		out += "\n" + logs
	}
	t.Log(out)
}

// trains returns how long it takes from since until all n ranks are in a run that began after it; after is 0: not
// within bound.
func (l *lab) trains(name string, n int, since time.Time, bound time.Duration) result {
	for time.Since(since) < bound {
		if began, first, run, ok := l.steps(name, n); ok && run.After(since) {
			return result{after: first.Sub(since), began: began.Sub(since), bound: bound}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return result{bound: bound}
}

// steps returns, of the run that all n ranks are in, when the last of their commands began, when the last of them made
// its first step, and when the run began.
func (l *lab) steps(name string, n int) (began, first, run time.Time, ok bool) {
	same := ""
	for rank := range n {
		text, _ := os.ReadFile(filepath.Join(l.out, name, fmt.Sprintf("rank-%d", rank)))
		whole := text[:strings.LastIndexByte(string(text), '\n')+1]
		lines := strings.Split(strings.TrimSpace(string(whole)), "\n")
		f := strings.Fields(lines[len(lines)-1])
		if len(f) != 4 || same != "" && f[0] != same {
			return began, first, run, false
		}
		same = f[0]
		for _, line := range lines {
			if g := strings.Fields(line); len(g) == 4 && g[0] == same {
				first, began = later(first, clock(g[2])), later(began, clock(g[3]))
				break
			}
		}
	}
	return began, first, clock(same), true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clock reads a time of step.py: seconds.
func clock(text string) time.Time {
	s, _ := strconv.ParseFloat(text, 64)
	return time.UnixMicro(int64(s * 1e6))
}
