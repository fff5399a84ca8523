package launcher

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellCall is a command in a shell's text.
type shellCall struct {
	argv []string // its words: as they are written, or without the quotes around all of one
	at   int      // the place of the first word in the text
}

// shellCalls returns the commands of a shell's text; nil: it is no such text.
func shellCalls(text string) (calls []shellCall) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil
	}
	syntax.Walk(file, func(n syntax.Node) bool {
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
	return calls
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
