package monitoring_test

import (
	"os/exec"
	"testing"
)

// promtool parses the rules and runs their tests.
func TestPromtoolAcceptsTheRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool in PATH (package prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "launch.rules.yaml"}, {"test", "rules", "launch.rules.test.yaml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
