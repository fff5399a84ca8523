package peers

import (
	"strings"
	"testing"
)

func TestScriptsAreComparedWhereTheCommandIsTheSame(t *testing.T) {
	with := func(scripts ...string) []Post {
		return posts(len(scripts), func(i int, p *Post) { p.Script = scripts[i] })
	}
	for _, tc := range []struct {
		name  string
		posts []Post
		want  string
	}{
		{"alike", with("a", "a", "a"), ""},
		{"one cannot be read", with("a", "", "a"), ""},
		{"one differs", with("a", "b", "a"), `2 of 3 nodes have "a", host1 has "b"`},
		{"two scripts by name", posts(2, func(i int, p *Post) {
			p.Script, p.Command = string(rune('a'+i)),
				string(rune('a'+i))
		}), ""},
	} {
		got := compareScripts(tc.posts)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0].What, tc.want)) {
			t.Errorf("%s: got %+v", tc.name, got)
		}
	}
}
