package logs

import (
	"strings"
	"testing"
)

// TestErrorsThatTrainersSurvive: none of these lines is a cause where the same program goes on for many steps.
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
