package launcher

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"launch/internal/exit"
	"launch/internal/spelling"
)

// argparser parses a line up to the first positional, the script, as Python's
// argparse does for torchrun. It differs on purpose: two spellings of one option are
// not ambiguous (1.13 has only one of them, and Python from 3.12.8 accepts both), and
// an unknown option is a flag, with a note, since a newer torch may know it.
type argparser struct {
	words []string
	base  int // index in Argv of words[0]
	table []torchOption
	title string // the launcher, for messages; "": torchrun

	out     []Option
	unknown []int          // index in Argv of each option that is not in table
	meant   map[int]string // the option of table that is spelled most like it, by index
	notes   []string
}

// match is one way to read an argument as an option.
type match struct {
	option   torchOption
	spelling string
	explicit string // after '=' or attached to a short option
	attached bool
}

var negative = regexp.MustCompile(`^-\d+$|^-\d*\.\d+$`)

// parse parses the options and returns the index in Argv of the script, or of the end.
func (p *argparser) parse() (rest int, err error) {
	for i := 0; i < len(p.words); {
		w := p.words[i]
		if w == "--" {
			return p.base + i + 1, nil
		}
		m, kind, err := p.classify(w)
		if ft, ok := p.ftOption(w, p.word(i+1)); ok {
			m, kind, err = ft, known, nil
		}
		switch {
		case err != nil:
			return 0, err
		case kind == positional:
			return p.base + i, nil
		case kind == unknown:
			p.notes = append(p.notes,
				fmt.Sprintf("%s option %s is unknown%s: write %s=VALUE, or launch may take its value for the "+
					"script", p.name(), w, p.guess(w, p.base+i), strings.TrimRight(w, "=")))
			p.unknown = append(p.unknown, p.base+i)
			i++
		default:
			used, err := p.take(m, i)
			if err != nil {
				return 0, err
			}
			i += used
		}
	}
	return p.base + len(p.words), nil
}

// guess records which option of table an unknown one at an index in Argv may be, and returns it as a question; "":
// no option is spelled like it.
func (p *argparser) guess(w string, at int) string {
	name, _, _ := strings.Cut(strings.Trim(w, "-"), "=")
	flag := spelling.Closest(strings.ReplaceAll(name, "_", "-"), p.flags())
	if flag == "" {
		return ""
	}
	if p.meant == nil {
		p.meant = map[int]string{}
	}
	p.meant[at] = "--" + flag
	return " (did you mean --" + flag + "?)"
}

// name returns the launcher for messages.
func (p *argparser) name() string {
	if p.title != "" {
		return p.title
	}
	return string(Torchrun)
}

// word returns words[i], or "".
func (p *argparser) word(i int) string {
	if i < len(p.words) {
		return p.words[i]
	}
	return ""
}

// flags returns the names of all options, without dashes.
func (p *argparser) flags() (names []string) {
	for _, o := range p.table {
		names = append(names, strings.TrimLeft(o.flag(), "-"))
	}
	return names
}

type wordKind int

const (
	positional wordKind = iota
	known
	unknown
)

// classify follows ArgumentParser._parse_optional.
func (p *argparser) classify(w string) (match, wordKind, error) {
	if len(w) < 2 || w[0] != '-' {
		return match{}, positional, nil
	}
	if m, ok := p.exact(w); ok {
		return m, known, nil
	}
	if name, value, attached := strings.Cut(w, "="); attached {
		if m, ok := p.exact(name); ok {
			m.explicit, m.attached = value, true
			return m, known, nil
		}
	}
	matches := p.prefixed(w)
	switch {
	case len(matches) > 1:
		return p.ambiguous(w, matches)
	case len(matches) == 1:
		return matches[0], known, nil
	case negative.MatchString(w), strings.Contains(w, " "):
		return match{}, positional, nil
	}
	return match{}, unknown, nil
}

func (p *argparser) exact(w string) (match, bool) {
	for _, o := range p.table {
		if slices.Contains(o.spellings(), w) || o.short != 0 && w == "-"+string(o.short) {
			return match{option: o, spelling: w}, true
		}
	}
	return match{}, false
}

// prefixed follows _get_option_tuples: abbreviations of long options, and
// short options with what is attached to them.
func (p *argparser) prefixed(w string) []match {
	var out []match
	if !strings.HasPrefix(w, "--") {
		for _, o := range p.table {
			if o.short != 0 && w[1] == o.short {
				out = append(out, match{option: o, spelling: w[:2], explicit: w[2:], attached: true})
			}
		}
		return out
	}
	name, value, attached := strings.Cut(w, "=")
	for _, o := range p.table {
		for _, s := range o.spellings() {
			if strings.HasPrefix(s, name) {
				out = append(out, match{option: o, spelling: s, explicit: value, attached: attached})
				break // the other spelling is the same option
			}
		}
	}
	return out
}

// ambiguous refuses an abbreviation, unless all its options take the same arguments and do not
// matter to launch: the installed torchrun decides (1.13 has fewer options than 2.x).
func (p *argparser) ambiguous(w string, matches []match) (match, wordKind, error) {
	var names []string
	same := true
	for _, m := range matches {
		o := m.option
		names = append(names, o.flag())
		same = same && !o.static && !o.keep && o.value == matches[0].option.value
	}
	if same {
		return matches[0], known, nil
	}
	return match{}, unknown, exit.Errorf(exit.Usage, "%s option %s is ambiguous: it could be %s",
		p.name(), w, strings.Join(names, ", ")).Do("write the option in full")
}

// take records the options of words[i] and returns their number of arguments: one
// argument may hold several short options, as -mr3 does.
func (p *argparser) take(m match, i int) (int, error) {
	for m.attached && !m.option.value {
		if strings.HasPrefix(m.spelling, "--") || m.explicit == "" {
			return 0, p.noValue(m)
		}
		p.out = append(p.out, Option{Name: m.option.dest, At: p.base + i, Words: 1})
		next, ok := p.exact("-" + m.explicit[:1])
		if !ok {
			return 0, p.noValue(m)
		}
		next.explicit, next.attached = m.explicit[1:], len(m.explicit) > 1
		m = next
	}
	o := Option{Name: m.option.dest, At: p.base + i, Words: 1, Value: m.explicit}
	if m.option.value && !m.attached {
		value, err := p.nextValue(m, i+1)
		if err != nil {
			return 0, err
		}
		o.Value, o.Words = value, 2
	}
	p.out = append(p.out, o)
	return o.Words, nil
}

func (p *argparser) nextValue(m match, i int) (string, error) {
	if i < len(p.words) && p.words[i] != "--" {
		_, kind, err := p.classify(p.words[i])
		if err == nil && kind == positional {
			return p.words[i], nil
		}
	}
	if m.option.static && m.option.dest != "nnodes" {
		return "", exit.Errorf(exit.Usage, "%s option %s needs a value: a variable after it may be empty in this shell",
			p.name(), m.spelling).Do("leave out %s, since launch sets it", m.spelling)
	}
	return "", exit.Errorf(exit.Usage, "%s option %s needs a value", p.name(), m.spelling).Do("%s=VALUE", m.spelling)
}

func (p *argparser) noValue(m match) error {
	e := exit.Errorf(exit.Usage, "%s option %s takes no value, got %q", p.name(), m.spelling, m.explicit)
	if m.option.dest == "standalone" {
		return e.Do("drop %[1]s=%[2]s where the job has several nodes; %[1]s for this node alone", m.spelling, m.explicit)
	}
	return e.Do("%s", m.spelling)
}
