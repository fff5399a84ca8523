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
		"n 1":                       {2, "not allowed"},
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

func TestExpandListsWhatAListWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list, want []string
		for range rapid.IntRange(1, 8).Draw(t, "items") {
			head := rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "head")
			tail := rapid.StringMatching(`(-ib|x)?[a]?`).Draw(t, "tail")
			low, width := rapid.IntRange(0, 1200).Draw(t, "low"), rapid.IntRange(1, 4).Draw(t, "width")
			high := low + rapid.IntRange(0, 20).Draw(t, "more")
			list = append(list, fmt.Sprintf("%s[%0*d-%d]%s", head, width, low, high, tail))
			width = len(fmt.Sprintf("%0*d", width, low))
			for n := low; n <= high; n++ {
				want = append(want, fmt.Sprintf("%s%0*d%s", head, width, n, tail))
			}
		}
		got, err := Expand(strings.Join(list, ","))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%q: %v (-want +got):\n%s", list, err, diff)
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
		again, err := Expand(strings.Join(names, ","))
		if diff := cmp.Diff(names, again); diff != "" || err != nil {
			t.Fatalf("the names of %q are no host list: %v\n%s", s, err, diff)
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
