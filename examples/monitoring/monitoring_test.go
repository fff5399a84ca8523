package monitoring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
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
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ H, W, X, Y int }
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
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

// promtool parses each query, as a rule, after Grafana's variables have their values.
func TestPromtoolAcceptsTheQueriesOfTheDashboard(t *testing.T) {
	promtool := tool(t)
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	values := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	for _, p := range read(t).Panels {
		for _, q := range p.Targets {
			if expr := values.Replace(q.Expr); strings.Contains(expr, "$") {
				t.Errorf("%s: a variable that the dashboard does not have: %s", p.Title, expr)
			} else {
				rules = append(rules, rule{fmt.Sprintf("panel:%d:%s", p.ID, q.RefID), expr})
			}
		}
	}
	if len(rules) < 15 {
		t.Fatalf("%d queries", len(rules))
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
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
