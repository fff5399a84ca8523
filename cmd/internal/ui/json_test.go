package ui

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"launch/diagnose/logs"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/envgen"
	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight/bandwidth"
	"launch/rendezvous"
)

// docs/json.md documents every field of the JSON output.
func TestEveryFieldIsInThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{reflect.TypeFor[launcher.Line](): true} // documented as a whole
	var walk func(reflect.Type)
	walk = func(v reflect.Type) {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			v = v.Elem()
		}
		if seen[v] || v.Kind() != reflect.Struct || !strings.HasPrefix(v.PkgPath(), "launch/") {
			return
		}
		seen[v] = true
		for _, f := range reflect.VisibleFields(v) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if name != "" && !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), `"`+name+`"`) {
				t.Errorf("docs/json.md does not name %q of %s", name, v)
			}
			walk(f.Type)
		}
	}
	for _, v := range []any{job.Job{}, fabric.Node{}, rendezvous.World{}, envgen.Plan{}, launcher.Exec{},
		rendezvous.Event{}, Job{}, exit.Error{}, rail.Fabric{}, envgen.Explanation{}, finding.Survey{}, summary{},
		bandwidth.Verdict{}, bandwidth.PastRate{}, benchSummary{}, verdict.Answer{}, scene.Scene{}, logs.Reading{}} {
		walk(reflect.TypeOf(v))
	}
	if len(seen) < 20 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
