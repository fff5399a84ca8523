package launcher

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellCall is a command in a shell's text.
type shellCall struct {
	argv []string // its words: as they are written, or without the quotes around all of one
	at   int      // the place of the first word in the text
	some bool     // a condition says which nodes run it
}

// asksNode matches a condition that asks which node this is.
var asksNode = regexp.MustCompile(`(?i)rank|procid|node_?id|completion_index|hostname|\$\{?host\b|pod_name|worker|` +
	`master|head|leader`)

// test matches a condition before && or ||, and no program with arguments.
var test = regexp.MustCompile(`^(?:!\s*)?(?:\[|\(\(|test\s)`)

// shellCalls returns the commands of a shell's text; nil: it is no such text.
func shellCalls(text string) (calls []shellCall) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil
	}
	var chosen []span
	syntax.Walk(file, func(n syntax.Node) bool {
		if s, ok := chosenIn(text, n); ok {
			chosen = append(chosen, s)
		}
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			args := c.Args
			if args[0].Lit() == "exec" && len(args) > 1 {
				args = args[1:]
			}
			call := shellCall{at: int(args[0].Pos().Offset())}
			for _, w := range args {
				call.argv = append(call.argv, written(text, w))
			}
			calls = append(calls, call)
		}
		return true
	})
	for i, c := range calls {
		calls[i].some = slices.ContainsFunc(chosen, func(s span) bool { return s.from <= c.at && c.at < s.to })
	}
	return calls
}

// span is a part of a text.
type span struct{ from, to int }

// chosenIn returns the part of a text that only some nodes run, by the condition of a node of its syntax. Where both
// branches start torchrun, all nodes run one.
func chosenIn(text string, n syntax.Node) (s span, ok bool) {
	part := func(from, to syntax.Pos) string { return text[from.Offset():to.Offset()] }
	var asks, begin, end syntax.Pos
	switch n := n.(type) {
	case *syntax.BinaryCmd:
		if (n.Op == syntax.AndStmt || n.Op == syntax.OrStmt) && test.MatchString(part(n.X.Pos(), n.X.End())) {
			asks, begin, end = n.X.Pos(), n.Y.Pos(), n.End()
		}
	case *syntax.CaseClause:
		asks, begin, end = n.Word.Pos(), n.In, n.End()
	case *syntax.IfClause:
		e, starts := n.Else, torchrunText.MatchString
		both := e != nil && starts(part(n.Pos(), e.Pos())) && starts(part(e.Pos(), n.End()))
		if n.ThenPos.IsValid() && !both { // no else
			asks, begin, end = n.Pos(), n.ThenPos, n.End()
		}
	}
	return span{int(begin.Offset()), int(end.Offset())}, asksNode.MatchString(part(asks, begin))
}

// written returns a word of a text, without quotes around the whole word.
func written(text string, w *syntax.Word) string {
	if len(w.Parts) == 1 {
		switch p := w.Parts[0].(type) {
		case *syntax.SglQuoted:
			return p.Value
		case *syntax.DblQuoted:
			if len(p.Parts) == 1 {
				if lit, ok := p.Parts[0].(*syntax.Lit); ok {
					return lit.Value
				}
			}
		}
	}
	return text[w.Pos().Offset():w.End().Offset()]
}
