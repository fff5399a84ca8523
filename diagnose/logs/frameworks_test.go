package logs

import (
	"strings"
	"testing"
)

// TestErrorsThatTrainersSurvive: no such line is a cause where the same program goes on for many steps.
func TestErrorsThatTrainersSurvive(t *testing.T) {
	const steps = 60
	for _, file := range []string{"testdata/classes-programs.txt", "testdata/classes-frameworks.txt"} {
		for _, c := range readClasses(t, file) {
			if r := readText(t, c.log+strings.Repeat("step 7 loss 2.1\n", steps)); len(r.Verdicts) > 0 && !labelled(c.log) {
				t.Errorf("%s: %+v", c.name, r.Verdicts)
			}
		}
	}
}

// labelled says whether lines of a log name who writes, as the steps after them do not.
func labelled(log string) bool {
	return strings.Contains(log, "[rank") || strings.Contains(log, "pid=")
}

// TestPartsOfABar: how much of a bar is done, also where its two numbers have different units.
func TestPartsOfABar(t *testing.T) {
	for _, c := range [][3]string{{"92", "100", "92"}, {"9.16k", "10.0k", "92"}, {"500", "2.00k", "25"},
		{"1.2M", "1.2M", "100"}, {"7", "0", "700"}} {
		if got := percent(c[0], c[1]); got != c[2] {
			t.Errorf("%s of %s: %s %%, want %s", c[0], c[1], got, c[2])
		}
	}
}
