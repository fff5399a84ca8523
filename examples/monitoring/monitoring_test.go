package monitoring_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// tool returns promtool.
func tool(t *testing.T) string {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool in PATH (package prometheus)")
	}
	return promtool
}

// promtool parses the rules and runs their tests.
func TestPromtoolAcceptsTheRules(t *testing.T) {
	promtool := tool(t)
	for _, args := range [][]string{{"check", "rules", "launch.rules.yaml"}, {"test", "rules", "launch.rules.test.yaml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// dashboard is what the tests read of the dashboard.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		GridPos struct{ H, W, X, Y int }
	} `json:"panels"`
}

func read(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("launch.dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Panels have a place and a number of their own, within Grafana's 24 columns.
func TestPanelsDoNotOverlap(t *testing.T) {
	panels := read(t).Panels
	for i, p := range panels {
		if a := p.GridPos; a.X+a.W > 24 || a.W < 1 || a.H < 1 {
			t.Errorf("%s: %+v", p.Title, a)
		}
		for _, q := range panels[:i] {
			a, b := p.GridPos, q.GridPos
			if p.ID == q.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s have one place or number", p.Title, q.Title)
			}
		}
	}
}
