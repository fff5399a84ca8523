package machine

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// textFormat is the first line of a machine that a person wrote (docs/machines.md).
const textFormat = "machine/1"

// block is a line and the lines that are indented below it.
type block struct {
	line   int
	words  []string          // the first is the keyword
	keys   map[string]string // the words with a =
	below  []*block
	indent int
}

func (b *block) word(i int) string {
	if i < len(b.words) {
		return b.words[i]
	}
	return ""
}

// take returns a key's value and marks it as used.
func (b *block) take(key, missing string) string {
	v, ok := b.keys[key]
	if !ok {
		return missing
	}
	delete(b.keys, key)
	return v
}

// parseText makes blocks of a text: one for each line, without comments.
func parseText(text string) ([]*block, error) {
	top := &block{indent: -1}
	open := []*block{top}
	line := 0
	for raw := range strings.Lines(text) {
		line++
		trimmed := strings.TrimLeft(raw, " ")
		words, err := split(strings.TrimSpace(trimmed))
		if first, rest, _ := strings.Cut(strings.TrimSpace(trimmed), " "); isAnswer(first) { // its quotes are JSON's
			words, err = []word{{text: first}, {text: rest, quoted: true}}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if len(words) == 0 || line == 1 {
			continue
		}
		b := &block{line: line, indent: len(raw) - len(trimmed), keys: map[string]string{}}
		for i, w := range words {
			if k, v, ok := strings.Cut(w.text, "="); ok && i > 0 && !w.quoted {
				b.keys[k] = v
				continue
			}
			b.words = append(b.words, w.text)
		}
		for open[len(open)-1].indent >= b.indent {
			open = open[:len(open)-1]
		}
		if len(open) > maxDepth {
			return nil, fmt.Errorf("line %d: deeper than %d levels", line, maxDepth)
		}
		parent := open[len(open)-1]
		parent.below = append(parent.below, b)
		open = append(open, b)
	}
	return top.below, nil
}

// isAnswer reports whether a line has an answer in JSON.
func isAnswer(keyword string) bool {
	return keyword == "nvml" || keyword == "verbs" || keyword == "software"
}

type word struct {
	text   string
	quoted bool // it begins with a quote: never a key
}

// split splits a line at blanks. Quotes protect blanks; inside them \n is a newline.
func split(line string) ([]word, error) {
	var out []word
	rest := []rune(line)
	for {
		for len(rest) > 0 && unicode.IsSpace(rest[0]) {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] == '#' {
			return out, nil
		}
		w := word{quoted: rest[0] == '"'}
		inside := false
		var b strings.Builder
		for len(rest) > 0 && (inside || !unicode.IsSpace(rest[0])) {
			switch {
			case rest[0] == '"':
				inside = !inside
			case inside && rest[0] == '\\' && len(rest) > 1 && rest[1] == 'n':
				b.WriteByte('\n')
				rest = rest[1:]
			default:
				b.WriteRune(rest[0])
			}
			rest = rest[1:]
		}
		if inside {
			return nil, fmt.Errorf("a quote does not end")
		}
		w.text = b.String()
		out = append(out, w)
	}
}

// relative returns the target of a link in directory from to path to; both are relative to /.
func relative(from, to string) string {
	up := strings.Count(path.Clean(from), "/") + 1
	return strings.Repeat("../", up) + to
}

// errnos are the errors of reading kernel files, by name: their numbers differ between architectures.
var errnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EAGAIN": syscall.EAGAIN, "EBUSY": syscall.EBUSY,
	"EINVAL": syscall.EINVAL, "EIO": syscall.EIO,
	"ENODATA": syscall.ENODATA, "ENODEV": syscall.ENODEV, "ENXIO": syscall.ENXIO, "EOPNOTSUPP": syscall.EOPNOTSUPP,
	"EPERM": syscall.EPERM, "ETIMEDOUT": syscall.ETIMEDOUT,
}

func errnoOf(name string) (syscall.Errno, error) {
	if e, ok := errnos[name]; ok {
		return e, nil
	}
	return 0, fmt.Errorf("unknown error %q; known are %v", name, slices.Sorted(maps.Keys(errnos)))
}

// nameOf returns the name of an error; EIO if it is not in the table.
func nameOf(err error) string {
	for name, e := range errnos {
		if errors.Is(err, e) {
			return name
		}
	}
	return "EIO"
}
