package launcher

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plain matches texts that no shell changes; syntax.Quote alone would also quote --opt=value.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quote returns an argument vector as one line to paste into a shell.
func Quote(argv []string) string {
	out := make([]string, len(argv))
	for i, w := range argv {
		if plain.MatchString(w) {
			out[i] = w
			continue
		}
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil { // a NUL byte, which no argument vector can hold
			q = "'" + strings.ReplaceAll(w, "\x00", "") + "'"
		}
		out[i] = q
	}
	return strings.Join(out, " ")
}

// Diff returns the changes of the line: "-" removed, "+" added, one line each, with the reason.
func (e Exec) Diff() []string {
	var out []string
	for _, c := range e.Changes {
		if c.Old != "" && c.New != "" {
			out = append(out, "- "+c.Old)
		}
		line := "+ " + c.New
		if c.New == "" {
			line = "- " + c.Old
		}
		out = append(out, line+"   # "+c.Reason)
	}
	return out
}
