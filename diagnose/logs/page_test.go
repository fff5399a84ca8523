package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const pageHead = `<!-- Generated from the tables of diagnose/logs: UPDATE=1 go test ./diagnose/logs -run Page -->
## What a log says

"launch doctor --log" names these causes ([After it failed](guide/hangs.md#after-it-failed)). The
first failure counts: what other ranks write after it follows from it. Find the words of your log
here; letters and numbers around them differ.

A verdict is "certain" where nothing else gives that line, and "likely" where a few causes do.
`

const openHead = `
## What a log does not decide

These lines have many causes. "launch doctor --log" then says what to gather.
`

// TestPage compares the second part of docs/causes.md with the tables (UPDATE=1 writes it).
func TestPage(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "causes.md")
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(all, []byte(pageHead[:strings.IndexByte(pageHead, '\n')]))
	want := append(slices.Clone(first), page()...)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(all, want) {
		t.Error("docs/causes.md differs from the tables: UPDATE=1 go test ./diagnose/logs -run Page")
	}
}

// TestEachCauseOfALogSaysWhatToDo: a cause has a remedy, and a failure that is open has what to gather.
func TestEachCauseOfALogSaysWhatToDo(t *testing.T) {
	for _, c := range table() {
		if c.form != nil {
			c.form() // panics if it is no pattern
		}
		switch {
		case c.grade <= failed && (c.do == "" || c.says == ""):
			t.Errorf("%s %q has no remedy", c.id, c.words)
		case c.grade >= open && c.grade <= ended && len(c.need) == 0:
			t.Errorf("%s %q does not say what to gather", c.id, c.words)
		}
	}
}

func page() []byte {
	var b bytes.Buffer
	b.WriteString(strings.ReplaceAll(pageHead, `"`, "`"))
	b.WriteString("\n| words of the log | cause | verdict | it says | what to do |\n|---|---|---|---|---|\n")
	rows(&b, func(c *cause) string {
		switch c.grade {
		case decisive:
			return "| certain | " + general(c.says) + " | " + cell(c.do) + " |"
		case family:
			return "| likely | " + general(c.says) + " | " + cell(c.do) + " |"
		}
		return ""
	})
	b.WriteString(strings.ReplaceAll(openHead, `"`, "`"))
	b.WriteString("\n| words of the log | failure | it says | what to gather |\n|---|---|---|---|\n")
	rows(&b, func(c *cause) string {
		if c.grade == open || c.grade == waits || c.grade == ended {
			return "| " + general(c.says) + " | " + cell(strings.Join(c.need, "; ")) + " |"
		}
		return ""
	})
	return b.Bytes()
}

// rows writes the rows of the table by their IDs, so that all words of one cause are together.
func rows(b *bytes.Buffer, rest func(*cause) string) {
	var ids []string
	all := table()
	for _, c := range all {
		if !slices.Contains(ids, c.id) {
			ids = append(ids, c.id)
		}
	}
	for _, id := range ids {
		for i := range all {
			if c := &all[i]; c.id == id && len(c.words) > 0 {
				if text := rest(c); text != "" {
					fmt.Fprintf(b, "| %s | %s %s\n", wordsOf(c), id, text)
				}
			}
		}
	}
}

// wordsOf returns what people look for in their log.
func wordsOf(c *cause) string {
	const few = 6
	var out []string
	for _, w := range c.words[:min(few, len(c.words))] {
		out = append(out, "`"+cell(strings.TrimSpace(w))+"`")
	}
	if len(c.words) > few {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

var value = regexp.MustCompile(`\{(\w+)\}`)

// general returns a sentence without the values that a log gives.
func general(says string) string {
	says = optional.ReplaceAllString(says, "")
	return cell(value.ReplaceAllStringFunc(says, func(v string) string {
		switch v {
		case "{who}":
			return "a rank"
		case "{where}":
			return "a node"
		case "{at}":
			return ""
		}
		return "…"
	}))
}

// cell returns a text for a table; what a log names appears in capitals.
func cell(s string) string {
	s = value.ReplaceAllStringFunc(s, func(v string) string { return capital(v[1 : len(v)-1]) })
	return strings.ReplaceAll(s, "|", `\|`)
}
