package hostlist

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestExpandListsNamesInOrder(t *testing.T) {
	for in, want := range map[string]string{
		"host0":                 "host0",
		"node[01-03,12]":        "node01 node02 node03 node12",
		"a[1-2]b[3-4]":          "a1b3 a1b4 a2b3 a2b4",
		"n[8-11]":               "n8 n9 n10 n11",
		"n[098-101]-ib":         "n098-ib n099-ib n100-ib n101-ib",
		"login,n[1,3],gpu2":     "login n1 n3 gpu2",
		"[1-2]":                 "1 2",
		"a[1]":                  "a1",
		"r[1-2]n[01-02].x.test": "r1n01.x.test r1n02.x.test r2n01.x.test r2n02.x.test",
		"n2,n1,n1":              "n2 n1 n1",
	} {
		got, err := Expand(in)
		if err != nil {
			t.Errorf("Expand(%q): %v", in, err)
			continue
		}
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("Expand(%q) (-want +got):\n%s", in, diff)
		}
	}
}

func TestExpandNamesTheColumnOfAMistake(t *testing.T) {
	for in, want := range map[string]struct {
		column int
		what   string
	}{
		"":                          {1, "missing"},
		"a,":                        {3, "missing"},
		"a,,b":                      {3, "missing"},
		"n[1-3":                     {2, "never closed"},
		"n[":                        {2, "never closed"},
		"n[]":                       {3, "number"},
		"n[1-]":                     {5, "number"},
		"n[a]":                      {3, "number"},
		"n[1;2]":                    {4, "expected"},
		"n1]":                       {3, "without"},
		"n[3-1]":                    {3, "backwards"},
		"n 1":                       {2, "cannot stand"},
		"n[1[2]]":                   {4, "expected"},
		"n[1-99999999]":             {3, "more than"},
		"a,n[1-9999999999999999]":   {5, "more than"},
		"n[1-1000]m[1-1000]":        {1, "more than"},
		"n[1-99999999999999999999]": {5, "digits"},
	} {
		_, err := Expand(in)
		bad, ok := errors.AsType[*SyntaxError](err)
		if !ok {
			t.Errorf("Expand(%q) = %v, want a SyntaxError", in, err)
			continue
		}
		if bad.Column != want.column || !strings.Contains(bad.What, want.what) {
			t.Errorf("Expand(%q): column %d, %q; want column %d, %q", in, bad.Column, bad.What, want.column, want.what)
		}
	}
}

func TestExpandStopsAtTheCap(t *testing.T) {
	if names, err := Expand(fmt.Sprintf("n[1-%d]", MaxNames)); err != nil || len(names) != MaxNames {
		t.Errorf("at the cap: %d names, %v", len(names), err)
	}
	if _, err := Expand(fmt.Sprintf("x,n[1-%d]", MaxNames)); err == nil {
		t.Error("one above the cap was accepted")
	}
}

func TestCompressSharesBrackets(t *testing.T) {
	for want, in := range map[string]string{
		"node[01-03,12]":       "node01 node02 node03 node12",
		"n[8-11]":              "n8 n9 n10 n11",
		"n[9,09-10]":           "n9 n09 n10",
		"a,b1":                 "a b1",
		"":                     "",
		"n[1-2]-ib,n[1-2]":     "n1-ib n2-ib n1 n2",
		"n[3,1]":               "n3 n1",
		"x9999999999999999999": "x9999999999999999999",
	} {
		if got := Compress(strings.Fields(in)); got != want {
			t.Errorf("Compress(%s) = %q, want %q", in, got, want)
		}
	}
}

func TestCompressThenExpandGivesTheSameNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-c]{0,2}[0-9]{1,3}(-ib|x)?[a]?`), 1, 30).Draw(t, "names")
		got, err := Expand(Compress(names))
		if err != nil {
			t.Fatalf("%q: %v", Compress(names), err)
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", Compress(names), diff)
		}
	})
}

func TestCountsExpandsRepeats(t *testing.T) {
	got, err := Counts("4(x2),8")
	if diff := cmp.Diff([]int{4, 4, 8}, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
	for _, in := range []string{"", "x", "4(x", "4(x0)", "4(y2)", "-1", "4,,8", "4(x2)8", "1(x100001)"} {
		if got, err := Counts(in); err == nil {
			t.Errorf("Counts(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"node[01-10,12]", "a[1-2]b[3-4],c", "n[", "n[9-1]", "[]", "a,,b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := Expand(s)
		if err != nil {
			return
		}
		if len(names) == 0 || len(names) > MaxNames {
			t.Fatalf("%q expands to %d names", s, len(names))
		}
		again, err := Expand(Compress(names))
		if diff := cmp.Diff(names, again); diff != "" || err != nil {
			t.Fatalf("%q does not survive Compress: %v\n%s", s, err, diff)
		}
	})
}

func FuzzCounts(f *testing.F) {
	f.Add("4(x2),8")
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := Counts(s); err == nil && (len(got) == 0 || len(got) > MaxNames) {
			t.Fatalf("Counts(%q) has %d entries", s, len(got))
		}
	})
}
