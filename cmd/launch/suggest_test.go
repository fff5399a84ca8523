package main

import (
	"bytes"
	"strings"
	"testing"

	"launch/internal/exit"
)

// What was meant is proposed where what follows fits it, and the line has no typo any more.
func TestAMisspeltSubcommandGetsTheLineThatWasMeant(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for line, want := range map[string]string{
		"chekc --store host0 --nnodes 2": "launch check --store host0 --nnodes 2",
		"chekc torchrun t.py":            "launch check torchrun t.py",
		"stor clean":                     "launch store clean",
		"doctr":                          "launch doctor",
		"docker run img torchrun t.py":   "",
		"doctr img":                      "",
		"fabric run t.py":                "",
		"train --store host0":            "",
	} {
		a := newApp(&bytes.Buffer{}, &bytes.Buffer{})
		got := ""
		if err, ok := a.unknownCommand(strings.Fields(line)).(*exit.Error); ok {
			_, got, _ = strings.Cut(err.Fix, "\n")
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestHelpOfAnUnknownTopicNamesTheNearestSubcommand(t *testing.T) {
	for topic, want := range map[string]string{"doctr": "did you mean launch help doctor?", "foo": "lists the"} {
		var out, err bytes.Buffer
		code := newApp(&out, &err).run([]string{"help", topic})
		if code != exit.Usage || !strings.Contains(err.String(), want) || strings.Contains(err.String(), "not found") {
			t.Errorf("%s: %d, %s", topic, code, &err)
		}
	}
}
