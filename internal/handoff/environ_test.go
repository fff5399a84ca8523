package handoff

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergeChangesWhatThePlanNamesAndNothingElse(t *testing.T) {
	env := []string{"A=1", "B=2", "odd", "=C:=x", "A=3", "", "D=4"}
	for _, tc := range []struct {
		name       string
		set, unset []string
		want       []string
	}{
		{"no plan", nil, nil, env},
		{"replaced in place, once", []string{"A=9"}, nil, []string{"A=9", "B=2", "odd", "=C:=x", "", "D=4"}},
		{"appended in order", []string{"Y=1", "X=2"}, nil, append(slices.Clone(env), "Y=1", "X=2")},
		{"the last of a name counts", []string{"D=5", "D=6"}, nil, []string{"A=1", "B=2", "odd", "=C:=x", "A=3", "", "D=6"}},
		{"unset, all of a name", nil, []string{"A", "nothere"}, []string{"B=2", "odd", "=C:=x", "", "D=4"}},
		{"set wins over unset", []string{"B=7"}, []string{"B"}, []string{"A=1", "B=7", "odd", "=C:=x", "A=3", "", "D=4"}},
		{"an entry without = is no variable", []string{"odd=1"}, []string{"odd"}, append(slices.Clone(env), "odd=1")},
		{"empty value and = in a value", []string{"D=", "E=a=b"}, nil,
			[]string{"A=1", "B=2", "odd", "=C:=x", "A=3", "", "D=", "E=a=b"}},
	} {
		if d := cmp.Diff(tc.want, Merge(env, tc.set, tc.unset)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.name, d)
		}
	}
}

func FuzzSplitEnviron(f *testing.F) {
	f.Add("A=1\x00A=2\x00\x00odd\x00")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		env := splitEnviron(s)
		want := s
		if s != "" && !strings.HasSuffix(s, "\x00") {
			want += "\x00"
		}
		got := ""
		for _, kv := range env {
			got += kv + "\x00"
		}
		if got != want {
			t.Errorf("%q became %q", s, env)
		}
		joined := cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\x00") })
		if d := cmp.Diff(env, Merge(env, nil, nil), joined); d != "" {
			t.Errorf("an empty plan changes it:\n%s", d)
		}
	})
}
