package envgen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"launch/internal/setting"
)

// Formats returns the formats of Render; the first is for eval in a shell.
func Formats() []string { return []string{"shell", "dotenv", "json", "kubernetes", "mpirun", "hydra"} }

// Render returns the variables that a plan sets in one of the Formats, without those that the
// user's value replaces. It fails for a value that the format cannot hold (a control character).
func Render(format string, p Plan) (string, error) {
	p = slices.DeleteFunc(slices.Clone(p), func(v setting.Var) bool { return v.Kept })
	switch format {
	case "shell":
		return each(p, shell)
	case "dotenv":
		return each(p, dotenv)
	case "json":
		return object(p)
	case "kubernetes":
		return kubernetes(p)
	case "mpirun":
		return options(p, "-x", "=")
	case "hydra":
		return options(p, "-genv", " ")
	}
	return "", fmt.Errorf("write the plan as %q: the formats are %s", format, strings.Join(Formats(), ", "))
}

func each(p Plan, line func(setting.Var) (string, error)) (string, error) {
	var b strings.Builder
	for _, v := range p {
		s, err := line(v)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// shell returns POSIX shell for eval "$(launch env)"; with the semicolon also for eval without quotes.
func shell(v setting.Var) (string, error) {
	value, err := quoted(v)
	return "export " + v.Name + "=" + value + ";\n", err
}

// quoted returns the value for POSIX shell, which cannot quote a control character.
func quoted(v setting.Var) (string, error) {
	value, err := syntax.Quote(v.Value, syntax.LangPOSIX)
	if err != nil {
		return "", fmt.Errorf("quote %s for the shell: %w", v.Name, err)
	}
	return value, nil
}

// dotenv returns NAME=VALUE. Only a value that needs quotes has them: Docker's --env-file reads them as
// part of the value. They are single ones, in which the other readers do not expand $, # and blanks.
func dotenv(v setting.Var) (string, error) {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:,=@%+^*"
	switch {
	case strings.Trim(v.Value, plain) == "":
		return v.Name + "=" + v.Value + "\n", nil
	case strings.ContainsFunc(v.Value, func(r rune) bool { return r == '\'' || r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("write %s for dotenv: %q has a character that its readers take differently",
			v.Name, v.Value)
	}
	return v.Name + "='" + v.Value + "'\n", nil
}

// object returns one JSON object, NAME to VALUE.
func object(p Plan) (string, error) {
	values := map[string]string{}
	for _, v := range p {
		values[v.Name] = v.Value
	}
	b, err := json.MarshalIndent(values, "", "  ")
	return string(b) + "\n", err
}

// kubernetes returns a container's env. Go's ASCII strings are valid double-quoted YAML; in them
// the kubelet replaces $(NAME) and reads $$ as $ (core/v1 EnvVar.value).
func kubernetes(p Plan) (string, error) {
	if len(p) == 0 {
		return "env: []\n", nil
	}
	s, err := each(p, func(v setting.Var) (string, error) {
		value := strconv.QuoteToASCII(strings.ReplaceAll(v.Value, "$", "$$"))
		own := ""
		if v.Scope == setting.Node {
			own = "   # a fact of this node: not for pods on other nodes"
		}
		return fmt.Sprintf("- name: %s\n  value: %s%s\n", v.Name, value, own), nil
	})
	return "env:\n" + s, err
}

// options returns options for mpirun's command line, only for constants of the job: a
// fact of this node would be wrong on the others.
func options(p Plan, option, separator string) (string, error) {
	p = slices.DeleteFunc(p, func(v setting.Var) bool { return v.Scope != setting.Job })
	s, err := each(p, func(v setting.Var) (string, error) {
		value, err := quoted(v)
		return option + " " + v.Name + separator + value + " ", err
	})
	if s == "" {
		return "", err
	}
	return strings.TrimSuffix(s, " ") + "\n", err
}
