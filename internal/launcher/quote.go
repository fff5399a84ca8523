package launcher

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plain are words that every shell takes as they are; syntax.Quote alone
// would also put --opt=value in quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quote writes words as one line to paste into a shell.
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

// Diff shows what became of the line: "-" for what left it, "+" for what is
// new, one line each, with the reason behind.
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
