package faultbench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/lab/starts"
)

// fault is one thing that is wrong.
type fault struct {
	group, name string
	sizes       []int // numbers of hosts; nil: 2, 3 and 5
	ci          bool  // also in the short form
	inject      func(tr *trial)

	// want are IDs of findings each of which names the cause. An entry with a
	// space is an exit status and a part of the error's text, "75 missing", or the
	// kind of a wait line, "wait conflict", or "note" and a part of its text; "fail ID" and a part of its text.
	want []string
	// runs: the job must start, since it may work.
	runs bool
	// either: the job may start or not.
	either bool
	// shared: the cause is not on a single host.
	shared bool
	// alone: the sick host must leave, and no other one: it knows itself what is wrong.
	alone bool
	real  string // how a real cluster differs, or what is replayed
}

// faults returns all faults, by group.
func faults() []fault {
	return slices.Concat(jobFaults(), storeFaults(), nameFaults(), peerNameFaults(), reachFaults(), gpuFaults(),
		rdmaFaults(), envFaults(), systemFaults(), nodeFaults(), ownFaults())
}

func TestFaults(t *testing.T) {
	for _, f := range faults() {
		sizes := f.sizes
		if sizes == nil {
			sizes = []int{2, 3, 5}
		}
		if !full {
			if !f.ci {
				continue
			}
			sizes = sizes[len(sizes)/2 : len(sizes)/2+1]
		}
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s/%s/%d", f.group, strings.ReplaceAll(f.name, " ", "-"), n), func(t *testing.T) {
				t.Parallel()
				tr := newTrial(t, n)
				f.inject(tr)
				tr.run()
				s := f.judge(tr)
				keep(s)
				if s.bad != "" {
					t.Errorf("%s: %s\n%s", f.name, s.bad, tr.printed())
				}
			})
		}
	}
}

// unfit is the exit status of a node that must leave.
const unfit = 65

// judge scores one trial.
func (f fault) judge(tr *trial) score {
	s := score{group: f.group, name: f.name, hosts: len(tr.hosts), real: f.real}
	first := time.Time{}
	for _, h := range tr.hosts {
		for _, l := range h.Lines() {
			if !f.cause(l.Said) {
				continue
			}
			s.found = true
			about := l.Said.About()
			named := f.shared || h == tr.sick || strings.Contains(about, tr.sick.Addr) || strings.Contains(about, tr.sick.Name)
			if !named {
				continue
			}
			s.named = true
			if h != tr.sick {
				s.others = true
			}
			if first.IsZero() || l.At.Before(first) {
				first = l.At
			}
		}
	}
	s.after = max(0, first.Sub(tr.observable))
	var exits []string
	last := time.Time{}
	for _, h := range tr.hosts {
		exits = append(exits, fmt.Sprint(h.Status))
		if h.Ended.After(last) {
			last = h.Ended
		}
		if h.Status == 137 && h.Ended.Sub(h.Begun) >= patience {
			s.bad = h.Name + " did not end"
		}
		if f.runs && !f.either && h.Status != 0 && !h.absent && !h.killed {
			s.bad = fmt.Sprintf("%s ended with %d; want a job that runs", h.Name, h.Status)
		}
		if f.alone && (h.Status == unfit) != (h == tr.sick) {
			s.bad = fmt.Sprintf("%s ended with %d; want that %s alone leaves", h.Name, h.Status, tr.sick.Name)
		}
		if !f.runs && !f.either && len(h.Out.String()) > 0 {
			s.bad = h.Name + " started its ranks"
		}
	}
	s.exits, s.ended = strings.Join(exits, " "), last.Sub(tr.observable)
	switch {
	case s.bad != "":
	case !s.found:
		s.bad = fmt.Sprintf("no host printed %q", f.want)
	case !s.named:
		s.bad = fmt.Sprintf("%s was not named", tr.sick.Name)
	}
	return s
}

// cause reports whether a line names the cause.
func (f fault) cause(s starts.Said) bool {
	return slices.ContainsFunc(f.want, func(w string) bool {
		if kind, ok := strings.CutPrefix(w, "wait "); ok {
			return s.Type == "wait" && s.Kind == kind && (kind != "progress" || len(s.Attendance.Missing) > 0)
		}
		if part, ok := strings.CutPrefix(w, "note "); ok {
			return s.Type == "note" && strings.Contains(s.Text, part)
		}
		if said := strings.SplitN(w, " ", 3); len(said) == 3 && (said[0] == "warn" || said[0] == "fail") {
			return s.Type == "finding" && string(s.Status) == said[0] && s.ID == said[1] && strings.Contains(s.What, said[2])
		}
		if code, part, ok := strings.Cut(w, " "); ok {
			return s.Type == "error" && fmt.Sprint(s.Code) == code && strings.Contains(s.What, part)
		}
		return s.Type == "finding" && s.ID == w && (s.Status == "fail" || s.Status == "warn")
	})
}
