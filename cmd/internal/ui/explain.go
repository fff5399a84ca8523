package ui

import (
	"fmt"
	"strings"

	"launch/envgen"
)

// Explain writes, as data, what launch does with each variable, and why.
func (u *UI) Explain(all []envgen.Explanation) {
	if u.json {
		for _, e := range all {
			u.Emit(true, "explain", e)
		}
		return
	}
	head := ""
	for _, e := range all {
		if h := e.Group(); h != head {
			if head != "" {
				fmt.Fprintln(u.out)
			}
			fmt.Fprintln(u.out, h)
			head = h
		}
		u.explain(e)
	}
}

func (u *UI) explain(e envgen.Explanation) {
	title := e.Name
	switch {
	case e.Set:
		title += "=" + quoted(e.Value)
	case e.From != "":
		title += "=" + quoted(e.User) + "   # from " + e.From
		if e.Value != "" {
			title += "; launch would set " + quoted(e.Value)
		}
	}
	u.print(u.out, "  ", "      ", title)
	row := func(label, text string) {
		if text != "" {
			u.print(u.out, fmt.Sprintf("      %-8s", label), strings.Repeat(" ", 14), text)
		}
	}
	row("why", e.Why)
	row("default", e.Library+" "+e.Alone)
	for _, s := range e.Seen {
		row("seen", strings.TrimPrefix(s.Where+": "+s.What, ": "))
	}
	if e.Group() == "not set" { // docs/env.md and --json have the rest
		return
	}
	if e.Versions != "" {
		row("for", e.Library+" "+e.Versions)
	}
	row("source", e.Source)
}

// quoted quotes a value that begins with "=", which makes NCCL compare whole names: NAME='=eth0'.
func quoted(value string) string {
	if strings.HasPrefix(value, "=") {
		return "'" + value + "'"
	}
	return value
}
