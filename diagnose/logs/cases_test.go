package logs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"launch/diagnose/verdict"
)

// recorded is a failed start whose cause is known.
type recorded struct {
	ID      string `json:"id"`
	Log     string `json:"log"`
	Cause   string `json:"cause"`
	Decides string `json:"log_decides"`
	Family  string `json:"family"`
}

func TestKnownFailuresGetTheirCause(t *testing.T) {
	dir := os.Getenv("LAUNCH_TEST_CASES")
	if dir == "" {
		t.Skip("LAUNCH_TEST_CASES is not set: it names a directory of recorded failures")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no cases: %v", dir, err)
	}
	right := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var c recorded
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		if wrong := c.judge(readText(t, c.Log)); wrong != "" {
			t.Errorf("%s (%s): %s", c.ID, c.Cause, wrong)
			continue
		}
		right++
	}
	t.Logf("%d of %d", right, len(files))
}

// judge returns what is wrong with the reading of a case.
func (c recorded) judge(r Reading) string {
	var ids []string
	certain := false
	for _, v := range r.Verdicts {
		ids = append(ids, strings.TrimPrefix(v.Cause, "log."))
		certain = certain || v.Sure == verdict.Certain
	}
	got := "verdicts " + strings.Join(ids, ", ")
	switch c.Decides {
	case "cause":
		if len(ids) == 0 || ids[0] != c.Cause {
			return got
		}
	case "family":
		if len(ids) == 0 || ids[0] != c.Family && ids[0] != c.Cause {
			return got
		}
	default:
		if certain {
			return got + ", certain"
		}
		if r.First != nil && len(r.Need()) == 0 {
			return "nothing to gather"
		}
		if r.First == nil {
			return "the failure is not seen"
		}
	}
	if slices.ContainsFunc(r.Verdicts, func(v verdict.Verdict) bool { return strings.ContainsAny(v.Says, "{}[?") }) {
		return "holes in " + r.Verdicts[0].Says
	}
	return ""
}

func readText(t *testing.T, text string) Reading {
	t.Helper()
	r, err := Read(strings.NewReader(text), "-")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordedHangs(t *testing.T) {
	dir := os.Getenv("LAUNCH_TEST_HANGS")
	if dir == "" {
		t.Skip("LAUNCH_TEST_HANGS is not set: it names a directory of recorded hangs")
	}
	runs, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, run := range runs {
		files, _ := filepath.Glob(filepath.Join(run, "log-*.txt"))
		if len(files) == 0 {
			continue
		}
		r, err := Read(nil, files...)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(run))
		if healthy := name == "healthy" || strings.HasPrefix(name, "slow_"); healthy &&
			(len(r.Verdicts) > 0 || len(r.Open) > 0) {
			t.Errorf("%s: %+v %+v", run, r.Verdicts, r.Open)
		}
		for _, v := range r.Verdicts {
			t.Logf("%s: %s %s ranks %v nodes %v: %s", strings.TrimPrefix(run, dir), v.Cause, v.Sure, v.Ranks, v.Nodes, v.Says)
		}
		if len(r.Verdicts) == 0 {
			for _, o := range r.Open {
				t.Logf("%s: open %s %v: %s", strings.TrimPrefix(run, dir), o.Family, o.Ranks, o.Says)
			}
		}
	}
}
