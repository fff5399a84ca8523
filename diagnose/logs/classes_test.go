package logs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// class is a failed start in the words of the programs, with what may be said of it: "!" the cause, certain; "~" the
// cause, or a failure of that ID which is open; "?" no verdict, since the log does not decide; "ok"
// with the ID none: no failure.
type class struct{ name, want, may, log string }

// readClasses reads "== NAME = ID MAY", each followed by the lines of a log. Lines are written for these tests in the
// forms of the programs, with other names, addresses and times than those of real logs.
func readClasses(t *testing.T, file string) (out []class) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(text), "\n== ") {
		head, log, _ := strings.Cut(part, "\n")
		f := strings.Fields(head)
		if len(f) == 0 {
			continue
		}
		if len(f) != 4 || f[1] != "=" || !strings.Contains("!~?ok", f[3]) {
			t.Fatalf("%s: %q", file, head)
		}
		out = append(out, class{f[0], f[2], f[3], log + "\n"})
	}
	return out
}

// judge says how a reading compares: right, open (a failure without a cause, or as another family), nothing, wrong.
func (c class) judge(r Reading) (how, why string) {
	var ids []string
	for _, v := range r.Verdicts {
		ids = append(ids, v.Cause)
	}
	lead := ""
	if len(r.Open) > 0 {
		lead = r.Open[0].Family
	}
	why = fmt.Sprintf("verdicts %v, open %s", ids, lead)
	switch {
	case c.may == "ok" && len(ids) == 0 && lead == "":
		return "right", ""
	case len(ids) == 0 && c.may != "!" && lead == c.want, c.may != "?" && len(ids) > 0 && ids[0] == c.want:
		return "right", ""
	case len(ids) > 0 && ids[0] != "rank.failed": // which quotes the error, and names no cause
		return "wrong", why
	case len(ids) > 0, lead != "":
		return "open", why
	}
	return "nothing", why
}

// TestClassesOfFailedStarts: none is given a wrong cause, and each the one that its log decides.
func TestClassesOfFailedStarts(t *testing.T) {
	files, _ := filepath.Glob(cmp.Or(os.Getenv("LAUNCH_TEST_CLASSES"), "testdata/classes*.txt"))
	if len(files) == 0 {
		t.Fatal("no classes")
	}
	for _, file := range files {
		counts := map[string]int{}
		all := readClasses(t, file)
		for _, c := range all {
			r := readText(t, c.log)
			for _, v := range r.Verdicts {
				if placeholder.MatchString(v.Says + v.Do) {
					t.Errorf("%s: a hole in %q, %q", c.name, v.Says, v.Do)
				}
			}
			how, why := c.judge(r)
			if counts[how]++; how != "right" {
				t.Errorf("%s: %s: %s; want %s %s", how, c.name, why, c.want, c.may)
			}
		}
		t.Logf("%s: %d of %d right, %d open, %d nothing, %d wrong", filepath.Base(file), counts["right"], len(all),
			counts["open"], counts["nothing"], counts["wrong"])
	}
}
