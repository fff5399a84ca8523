// Package hostlist parses Slurm's host lists, as in SLURM_JOB_NODELIST and
// SLURM_STEP_NODELIST (node[01-03,12],login1), and the hostfiles of MPI.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxNames bounds the names of one expression: a typing error such as
// n[1-99999999] must not use up the memory of a login node.
const MaxNames = 100_000

// maxDigits bounds a number to an int64.
const maxDigits = 18

// SyntaxError is the error for a malformed text, at a column from 1.
type SyntaxError struct {
	Text   string
	Column int
	What   string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("host list %q, column %d: %s", e.Text, e.Column, e.What)
}

// parser walks over text; pos is a byte offset.
type parser struct {
	text string
	pos  int
}

func (p *parser) errorf(at int, format string, a ...any) error {
	return &SyntaxError{Text: p.text, Column: at + 1, What: fmt.Sprintf(format, a...)}
}

// Expand returns the names of a host list in order, duplicates included. Several brackets in one name
// multiply, the last one fastest. A range has the width of its lower bound: a[08-10] is a08, a09, a10.
func Expand(s string) ([]string, error) {
	p := &parser{text: s}
	var all []string
	for {
		names, err := p.item(MaxNames - len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
		if p.pos == len(s) {
			return all, nil
		}
		p.pos++ // the comma
	}
}

// item parses one name with its brackets, up to a comma or the end.
func (p *parser) item(room int) ([]string, error) {
	start := p.pos
	names := []string{""}
	for p.pos < len(p.text) && p.text[p.pos] != ',' {
		parse := p.literal
		if p.text[p.pos] == '[' {
			parse = p.bracket
		}
		parts, err := parse(room)
		if err != nil {
			return nil, err
		}
		if len(names)*len(parts) > room {
			return nil, p.errorf(start, "more than %d names", MaxNames)
		}
		names = product(names, parts)
	}
	if p.pos == start {
		return nil, p.errorf(start, "a name is missing")
	}
	return names, nil
}

func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}

// literal parses one text up to a bracket, a comma or the end.
func (p *parser) literal(int) ([]string, error) {
	start := p.pos
	for ; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '[' || c == ',':
			return []string{p.text[start:p.pos]}, nil
		case c == ']':
			return nil, p.errorf(p.pos, "']' without '['")
		case c <= ' ' || c == 0x7f:
			return nil, p.errorf(p.pos, "%q is not allowed in a host name", c)
		}
	}
	return []string{p.text[start:]}, nil
}

// bracket parses [N,N-M,…]; p.pos is at '['.
func (p *parser) bracket(room int) ([]string, error) {
	open := p.pos
	var out []string
	for {
		p.pos++ // '[' or ','
		at := p.pos
		low, err := p.number(open)
		if err != nil {
			return nil, err
		}
		high := low
		if p.pos < len(p.text) && p.text[p.pos] == '-' {
			p.pos++
			if high, err = p.number(open); err != nil {
				return nil, err
			}
		}
		if p.pos == len(p.text) {
			return nil, p.errorf(open, "'[' is never closed")
		}
		if out, err = p.appendRange(out, at, low, high, room); err != nil {
			return nil, err
		}
		switch c := p.text[p.pos]; c {
		case ',':
		case ']':
			p.pos++
			return out, nil
		default:
			return nil, p.errorf(p.pos, "%q where ',', '-' or ']' was expected", c)
		}
	}
}

func (p *parser) appendRange(out []string, at int, low, high string, room int) ([]string, error) {
	from, _ := strconv.ParseInt(low, 10, 64) // at most maxDigits digits
	to, _ := strconv.ParseInt(high, 10, 64)
	if to < from {
		return nil, p.errorf(at, "range %s-%s runs backwards", low, high)
	}
	if to-from >= int64(room-len(out)) {
		return nil, p.errorf(at, "more than %d names", MaxNames)
	}
	for n := from; n <= to; n++ {
		out = append(out, fmt.Sprintf("%0*d", len(low), n))
	}
	return out, nil
}

// number parses digits; open is the start of the bracket.
func (p *parser) number(open int) (string, error) {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
	switch digits := p.text[start:p.pos]; {
	case digits == "" && p.pos == len(p.text):
		return "", p.errorf(open, "'[' is never closed")
	case digits == "":
		return "", p.errorf(start, "%q where a number was expected", p.text[start])
	case len(digits) > maxDigits:
		return "", p.errorf(start, "number of more than %d digits", maxDigits)
	default:
		return digits, nil
	}
}

// Counts returns Slurm's numbers per node, as in SLURM_TASKS_PER_NODE: 4(x2),8 is 4, 4, 8.
func Counts(s string) ([]int, error) {
	p := &parser{text: s}
	var out []int
	at := 0
	for item := range strings.SplitSeq(s, ",") {
		value, times, repeated := strings.Cut(item, "(x")
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return nil, p.errorf(at, "%q is not a number", value)
		}
		repeat := 1
		if repeated {
			text, closed := strings.CutSuffix(times, ")")
			if repeat, err = strconv.Atoi(text); err != nil || repeat < 1 || !closed {
				return nil, p.errorf(at+len(value), "%q where (xN) was expected", "(x"+times)
			}
		}
		if repeat > MaxNames-len(out) {
			return nil, p.errorf(at, "more than %d nodes", MaxNames)
		}
		for range repeat {
			out = append(out, n)
		}
		at += len(item) + 1
	}
	return out, nil
}
