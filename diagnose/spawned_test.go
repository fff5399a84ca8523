package diagnose

import (
	"strings"
	"testing"

	"launch/diagnose/scene"
)

func TestScriptsThatStartOtherNumbersOfRanks(t *testing.T) {
	at := func(n *node, how phase, spawned bool) *seat {
		return &seat{rank: -1, node: n, phase: how, proc: &scene.Proc{Spawned: spawned}}
	}
	a, b := &node{name: "a"}, &node{name: "b"}
	for _, tc := range []struct {
		name  string
		seats []*seat
		want  string
	}{
		{"uneven", []*seat{at(a, counting, true), at(a, keys, true), at(b, keys, true)}, "a 2, b 1"},
		{"even", []*seat{at(a, counting, true), at(b, keys, true)}, ""},
		{"uneven, and they work", []*seat{at(a, inside, true), at(a, collective, true), at(b, collective, true)}, ""},
		{"one is not there yet", []*seat{at(a, counting, true), at(a, before, true), at(b, keys, true)}, ""},
		{"of torchrun", []*seat{at(a, counting, false), at(a, keys, false), at(b, keys, false)}, ""},
		{"none is seen", nil, ""},
	} {
		v := &view{seats: tc.seats}
		got := ""
		for _, c := range v.unlike() {
			got += c.Cause + " " + c.Says
		}
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}
