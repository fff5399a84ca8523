package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/ui"
	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/rendezvous"
)

// say adds to the verdict that launch has not started its command what it waits for.
func say(v *verdict.Verdict, n companion.News) {
	head, _, _ := strings.Cut(v.Says, ": ")
	if n.Naming != nil {
		w := *n.Naming
		v.Cause, v.Since, v.Do = "store.name", w.Since, w.Do
		v.Says = fmt.Sprintf("%s: it waits for the name %s of the store's host, until %s: %s", head, w.Host,
			w.Until.Format(time.TimeOnly), w.Why)
		return
	}
	text := ui.Event(*n.Waiting)
	if text == "" {
		return
	}
	v.Says = head + ": " + text
	if n.Waiting.Kind == rendezvous.Lost {
		v.Do = "look at the store's host: does launch run there, and does its port accept connections from this node?"
		if b := n.Before; b != nil && b.Attendance != nil && len(b.Attendance.Left)+len(b.Attendance.Unfit) > 0 {
			v.Says += "; before that: " + ui.Event(*b) + ui.Left(b.Attendance.Left)
			v.Do = "correct why that node left or is unfit, then start launch there again with the same line"
		}
	}
	if a := n.Waiting.Attendance; a != nil && a.Joined < a.Want {
		v.Cause, v.Nodes = "node.missing", nil
		for _, i := range a.Missing {
			v.Nodes = append(v.Nodes, "node "+strconv.Itoa(i))
		}
		v.Do = "start launch there with the same line, and check that it reaches the store"
		if v.Says += ui.Left(a.Left); len(a.Left) > 0 {
			v.Do = "correct why it left, then start launch there again with the same line"
		}
		if len(a.Unfit) > 0 { // the text of the event says why
			names := finding.Map(a.Unfit, func(n rendezvous.Note) string { return n.Name })
			v.Do = fmt.Sprintf("fix first what makes it unfit: %s; then start launch there again with the same line",
				finding.Some(names))
		}
	}
}
