package peers

import (
	"slices"
	"strings"
	"testing"

	"launch/internal/finding"
)

func TestNodesOfOtherRolesAreNotCompared(t *testing.T) {
	role := func(i int, p *Post) {
		p.Role, p.Command, p.NProc = "prefill", "vllm serve", "8"
		if i > 1 {
			p.Role, p.Command, p.NProc, p.After = "decode", "python decode.py", "1", []string{"prefill"}
		}
	}
	if d := Decide(posts(4, role), nil); !d.Go || len(d.Findings) > 0 {
		t.Errorf("%+v", d)
	}
	d := Decide(posts(5, func(i int, p *Post) {
		if role(i, p); i == 4 {
			p.Command, p.Nameless = "python other.py", true
		}
	}), nil)
	if d.Go || !slices.Equal(d.Unfit, []int{4}) || d.Findings[0].ID != "same.command" {
		t.Errorf("another command in a role: %+v", d)
	}
}

func TestRolesThatDoNotGoTogether(t *testing.T) {
	for _, tt := range []struct {
		name  string
		roles []string // each "role" or "role after another"
		want  string
		unfit []int
	}{
		{"none", []string{"", ""}, "", nil},
		{"a chain", []string{"c after b", "b after a", "a"}, "", nil},
		{"one without", []string{"a", "", "a"}, `host1: no --role, but host0 has the role "a"`, []int{1}},
		{"unknown", []string{"a", "b after x"},
			`host1 waits for the role "x" (--after), which no node has; the roles are a, b`, []int{1}},
		{"a pair that waits", []string{"a after b", "b after a"}, "host0 waits for itself: a after b after a", []int{0, 1}},
		{"a circle of three, and one outside", []string{"a after b", "b after c", "c after a", "d after a"},
			"host0 waits for itself: a after b after c after a", []int{0, 1, 2}},
	} {
		d := Decide(posts(len(tt.roles), func(i int, p *Post) {
			words := strings.Fields(tt.roles[i])
			if len(words) > 0 {
				p.Role = words[0]
			}
			if len(words) > 2 {
				p.After = words[2:]
			}
		}), nil)
		said := strings.Join(finding.Map(d.Findings, func(f finding.Finding) string { return f.What }), "\n")
		if !strings.HasPrefix(said, tt.want) || tt.want == "" && said != "" || !slices.Equal(d.Unfit, tt.unfit) {
			t.Errorf("%s: unfit %v, said %q", tt.name, d.Unfit, said)
		}
	}
}
