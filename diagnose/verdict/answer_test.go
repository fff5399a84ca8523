package verdict

import (
	"testing"
	"time"
)

func TestTheSameReasonHasTheSameKey(t *testing.T) {
	absent := Verdict{Cause: "rank.absent", Ranks: []int{2}, Nodes: []string{"host1"}, Says: "since 6 s"}
	stopped := Verdict{Cause: "rank.stopped", Ranks: []int{2}, Nodes: []string{"host1"}}
	key := func(all ...Verdict) string { return Answer{Why: all}.Key() }
	later := absent
	later.Says, later.Since, later.Sure = "since 12 s", time.Now(), Likely
	if key(absent) != key(later) || key(absent, stopped) != key(stopped, later) {
		t.Error("the same reason is another one after a while")
	}
	other := absent
	other.Ranks = []int{3}
	third := absent
	third.Nodes = []string{"host2"}
	for _, all := range [][]Verdict{{stopped}, {other}, {third}, {absent, stopped}, nil} {
		if key(absent) == key(all...) {
			t.Errorf("%v has the key %q", all, key(all...))
		}
	}
}

func TestOnlyACertainHangEndsAJob(t *testing.T) {
	for _, tt := range []struct {
		state State
		cause string
		sure  Sure
		want  bool
	}{
		{Hung, "rank.stopped", Certain, true},
		{Hung, "rank.failed", Likely, false},
		{Hung, "rank.lock", Possible, false},
		{Hung, "rank.traced", Certain, false}, // somebody looks at it
		{Hung, "path.loss", Certain, false},   // it is slow
		{Hung, "rank.left", Certain, false},   // a person may type
		{Open, "rank.before-init", Certain, false},
		{Slow, "rank.working", Certain, false},
		{Running, "rank.stopped", Certain, false},
	} {
		a := Answer{State: tt.state, Why: []Verdict{{Cause: tt.cause, Sure: tt.sure, Blocked: tt.cause == "rank.left"}}}
		if got := a.Certain(); got != tt.want {
			t.Errorf("%s, %s, %s: %v", tt.state, tt.cause, tt.sure, got)
		}
	}
}
