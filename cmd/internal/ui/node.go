package ui

import (
	"fmt"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"launch/internal/finding"
	"launch/rendezvous"
)

// Job is one job of a store, for launch status.
type Job struct {
	ID      string              `json:"id"`
	Epoch   rendezvous.Epoch    `json:"epoch"`
	Places  []rendezvous.Place  `json:"places,omitempty"`
	Members []rendezvous.Member `json:"members"`
	Ready   map[int]bool        `json:"ready,omitempty"` // ranks of a sealed world that only wait for the start
	Verdict finding.Report      `json:"verdict"`
}

// Job writes the state of a job, as data.
func (u *UI) Job(j Job) {
	if u.json {
		u.Emit(true, "job", j)
		return
	}
	here := map[string]rendezvous.Member{}
	for _, m := range j.Members {
		here[m.ID] = m
	}
	t := plainTable("NODE RANK", "NODE", "ADDRESS", "PHASE", "SINCE", "PID")
	since := func(m rendezvous.Member) string {
		return fmt.Sprintf("%s (%s)", m.Since.Local().Format("15:04:05"), max(time.Since(m.Since), 0).Round(time.Second))
	}
	for _, p := range j.Places {
		m, ok := here[p.ID]
		if !ok {
			t.AppendRow(table.Row{p.Rank, visible(p.Name), "", end(p)})
			continue
		}
		delete(here, p.ID)
		word := phase(m)
		if j.Ready[p.Rank] && m.Phase == rendezvous.PhaseArrived {
			word = "ready"
		}
		t.AppendRow(table.Row{p.Rank, visible(m.Host), m.Addr, word, since(m), m.PID})
	}
	for _, m := range j.Members {
		if _, waits := here[m.ID]; waits {
			rank := "-"
			if m.Index >= 0 && len(j.Places) == 0 { // a sealed world has assigned all ranks
				rank = strconv.Itoa(m.Index)
			}
			t.AppendRow(table.Row{rank, visible(m.Host), m.Addr, phase(m), since(m), m.PID})
		}
	}
	state := visible(string(j.Epoch.State))
	if state == "" {
		state = "not open yet"
	}
	nodes := strconv.Itoa(j.Epoch.Size)
	switch {
	case j.Epoch.Size == 0:
		nodes = "?"
	case j.Epoch.State == rendezvous.Open:
		nodes = rendezvous.Count(j.Epoch.Size, j.Epoch.Min)
	}
	if j.Epoch.Restart > 0 {
		state += fmt.Sprintf(" (restart %d of %d)", j.Epoch.Restart, j.Epoch.Restarts)
	}
	u.Print(fmt.Sprintf("job %s  epoch %d %s, %s nodes expected, %d joined\n%s\n",
		visible(j.ID), j.Epoch.N, state, nodes, len(j.Members), t.Render()))
	u.findings(u.out, j.Verdict)
}

// end returns the state of a place that no member holds.
func end(p rendezvous.Place) string {
	switch {
	case !p.Over:
		return "lost"
	case p.Status == nil:
		return "ended"
	}
	return fmt.Sprintf("ended %d", *p.Status)
}

// phase returns the phase of a node, with the exit status of a command that has ended.
func phase(m rendezvous.Member) string {
	if m.Phase == rendezvous.PhaseEnded {
		return fmt.Sprintf("%s %d", m.Phase, m.Status)
	}
	return visible(m.Phase)
}

// plainTable returns a table without borders.
func plainTable(head ...any) table.Writer {
	t := table.NewWriter()
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	t.SetStyle(s)
	t.AppendHeader(table.Row(head))
	t.SuppressTrailingSpaces()
	return t
}

func prefixed(by, s string) string {
	if s == "" {
		return ""
	}
	return by + s
}
