package envgen

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Shell writes the plan as POSIX shell, for eval "$(launch env)": one export
// for each variable that is set, none for those whose user's value was kept.
// Each ends in a semicolon, so that an eval without the quotes works too. A
// value that POSIX shell cannot quote (a control character) is an error.
func Shell(p Plan) (string, error) {
	var b strings.Builder
	for _, v := range p {
		if v.Kept {
			continue
		}
		value, err := syntax.Quote(v.Value, syntax.LangPOSIX)
		if err != nil {
			return "", fmt.Errorf("quote %s for the shell: %w", v.Name, err)
		}
		fmt.Fprintf(&b, "export %s=%s;\n", v.Name, value)
	}
	return b.String(), nil
}
