package companion

import (
	"strings"
	"testing"
	"time"

	"launch/internal/finding"
	"launch/rendezvous"
)

// The end that came before is named, but not where a scheduler ended all alike.
func TestTheEndBeforeIsNamed(t *testing.T) {
	own, other := "own", "other"
	for _, tt := range []struct {
		name         string
		failed, left *rankEnd
		late         bool // left was heard after failed
		status       int
		want         string
	}{
		{"nothing is known", nil, nil, false, 1, ""},
		{"a rank elsewhere was killed", &rankEnd{ID: other, Status: 137}, nil, false, 1, "failed"},
		{"this node's failed first", &rankEnd{ID: own, Status: 1}, nil, false, 1, ""},
		{"this node's failed first, after one ended with 0", &rankEnd{ID: own, Status: 1}, &rankEnd{ID: other}, false, 1,
			"left"},
		{"a rank of this node ended with 0", &rankEnd{ID: own, Status: 1}, &rankEnd{ID: own}, false, 1, ""},
		{"one elsewhere failed after one that ended with 0", &rankEnd{ID: other, Status: 1}, &rankEnd{ID: other}, false, 1,
			"failed left"},
		{"one elsewhere failed, and one ended with 0 later", &rankEnd{ID: other, Status: 1}, &rankEnd{ID: other}, true, 1,
			"failed"},
		{"a scheduler ends all", &rankEnd{ID: other, Status: 143}, nil, false, 143, ""},
		{"a scheduler ends this node after some have ended", nil, &rankEnd{ID: other}, false, 143, ""},
		{"a person interrupts another node", &rankEnd{ID: other, Status: 130}, nil, false, 1, "failed"},
	} {
		e := &ends{p: &companion{world: &rendezvous.World{Self: rendezvous.Member{ID: own}}}}
		for f, end := range map[*firstEnd]*rankEnd{&e.failed: tt.failed, &e.left: tt.left} {
			if f.heard = make(chan none); end != nil {
				f.end, f.at = *end, time.Now()
				close(f.heard)
			}
		}
		e.left.at = e.failed.at
		if tt.late {
			e.left.at = e.failed.at.Add(time.Second)
		}
		var got []string
		e.failed.own.Store(int64(tt.status))
		failed, left := e.before()
		if failed != nil {
			got = append(got, "failed")
		}
		if left != nil {
			got = append(got, "left")
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		e.failed.at, e.left.at = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		if failed, left := e.before(); failed != nil || left != nil {
			t.Errorf("%s, an hour ago: it is named", tt.name)
		}
	}
}

// A node whose processes a signal or a restart ended is named, and not the first of the other nodes that fails for it.
func TestANodeThatEndsIsNamedBeforeThoseThatFailForIt(t *testing.T) {
	killed := &rendezvous.Partner{Rank: 2, Name: "host2"}
	ended := rankEnd{Rank: -1, Node: "host2", ID: "other", Status: 143, Launch: true}
	for _, tt := range []struct {
		name     string
		first    rankEnd
		vanished *rendezvous.Partner
		own      int
		want     string
	}{
		{"SIGTERM", ended, nil, 1, "launch on host2 was ended by SIGTERM"},
		{"SIGTERM on all nodes", ended, nil, 143, ""},
		{"without a report", rankEnd{Node: "host0", ID: "other", Status: 1}, killed, 1, "node rank 2, host2: its machine"},
		{"a rank that failed", rankEnd{Node: "host0", ID: "other", Status: 1}, nil, 1, "rank 0 on host0 ended with 1"},
	} {
		said := ""
		p := &companion{spec: &Spec{}, world: &rendezvous.World{Self: rendezvous.Member{ID: "own"}},
			print: func(_ finding.From, f finding.Finding, _ string) { said = f.What }}
		e := &ends{p: p, vanished: tt.vanished}
		e.failed.heard, e.crashed.heard, e.left.heard = make(chan none), make(chan none), make(chan none)
		e.failed.end, e.failed.at = tt.first, time.Now()
		e.failed.own.Store(int64(tt.own))
		close(e.failed.heard)
		if e.blame("a rank of this node"); !strings.HasPrefix(said, tt.want) || tt.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", tt.name, said, tt.want)
		}
	}
}

// The kernel reports a crash late: next to another failure the order of the posts says nothing.
func TestACrashNextToAnotherFailureIsNamed(t *testing.T) {
	const abort = 134
	for _, tt := range []struct {
		name            string
		own             int
		failed, crashed *rankEnd
		apart           time.Duration
		want            string
	}{
		{"another node's rank crashed, and was seen later", 1, &rankEnd{ID: "own", Status: 1},
			&rankEnd{ID: "other", Rank: 1, Node: "host1", Status: abort}, 0,
			"rank 1 on host1 ended with 134 (aborted) at 00:00:00, and one of this node ended with 1 at "},
		{"this node's rank crashed, and was seen later", abort, &rankEnd{ID: "other", Node: "host1", Status: 1},
			&rankEnd{ID: "own", Status: abort}, 0,
			"rank 0 on host1 ended with 1 at 00:00:00, and one of this node ended with 134"},
		{"long before", abort, &rankEnd{ID: "other", Node: "host1", Status: 1}, &rankEnd{ID: "own", Status: abort},
			time.Minute, "rank 0 on host1 ended with 1 at 00:00:00, before this node's command failed"},
		{"both crashed", abort, &rankEnd{ID: "other", Node: "host1", Status: abort}, &rankEnd{ID: "other", Status: abort},
			0, "before this node's command failed"},
		{"no crash", 1, &rankEnd{ID: "own", Status: 1}, nil, 0, ""},
	} {
		said := ""
		p := &companion{spec: &Spec{}, world: &rendezvous.World{Self: rendezvous.Member{ID: "own"}},
			print: func(_ finding.From, f finding.Finding, _ string) { said = f.What }}
		p.ended.Store(true)
		e := &ends{p: p}
		for f, end := range map[*firstEnd]*rankEnd{&e.failed: tt.failed, &e.crashed: tt.crashed, &e.left: nil} {
			if f.heard = make(chan none); end != nil {
				f.end, f.at = *end, time.Now()
				close(f.heard)
			}
		}
		e.failed.own.Store(int64(tt.own))
		e.failed.when.Store(time.Now().Add(tt.apart).UnixNano())
		e.blame("this node's command")
		if !strings.Contains(said, tt.want) || tt.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", tt.name, said, tt.want)
		}
	}
}

// A node whose machine was restarted resets connections, and has reported nothing.
func TestANodeThatHasVanishedIsNamed(t *testing.T) {
	nodes := []rendezvous.Partner{{Rank: 1, Name: "host1"}, {Rank: 2, Name: "host2"}}
	for _, tt := range []struct {
		name     string
		calls    map[int]presence
		reported int
		want     int // -1: no node
	}{
		{"all run", map[int]presence{1: isBack, 2: isBack}, -1, -1},
		{"the machine of one is up", map[int]presence{1: isBack, 2: hasEnded}, -1, 2},
		{"its command has ended after ours", map[int]presence{1: isBack, 2: hasEnded}, 2, -1},
		{"another one has reported its end", map[int]presence{1: hasEnded, 2: hasEnded}, 1, 2},
		{"nothing answers", map[int]presence{1: isAbsent, 2: isStopped}, -1, -1},
	} {
		got := vanished(nodes, func(n rendezvous.Partner) presence { return tt.calls[n.Rank] },
			func(n rendezvous.Partner) bool { return n.Rank != tt.reported })
		if (got != nil) != (tt.want >= 0) || got != nil && got.Rank != tt.want {
			t.Errorf("%s: %+v, want %d", tt.name, got, tt.want)
		}
	}
}

// What a node that failed first of all knows of that is said there.
func TestTheFirstFailureOfAllIsExplained(t *testing.T) {
	for _, tt := range []struct {
		name     string
		status   int
		vanished *rendezvous.Partner
		want     string
	}{
		{"a failure that its own lines explain", 1, nil, ""},
		{"a bus error", 135, nil, "rank 0 on host0 ended with 135 (bus error) at 00:00:00, first of all ranks"},
		{"another node has vanished", 1, &rendezvous.Partner{Rank: 1, Name: "host1"}, "node rank 1, host1: its machine " +
			"answers, and launch has ended there without a report"},
	} {
		said := ""
		p := &companion{spec: &Spec{}, world: &rendezvous.World{Self: rendezvous.Member{ID: "own"}},
			print: func(_ finding.From, f finding.Finding, _ string) { said = f.What }}
		e := &ends{p: p, vanished: tt.vanished}
		e.failed.heard, e.crashed.heard, e.left.heard = make(chan none), make(chan none), make(chan none)
		e.failed.end, e.failed.at = rankEnd{Node: "host0", ID: "own", Status: tt.status}, time.Now()
		e.failed.own.Store(int64(tt.status))
		close(e.failed.heard)
		e.blame("a rank of this node")
		if !strings.Contains(said, tt.want) || tt.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", tt.name, said, tt.want)
		}
	}
}

// torchrun ends with 1 after a signal: which one it was, its first rank shows.
func TestTheSignalThatEndedANodeIsNamed(t *testing.T) {
	const failed = "node rank 1, host1 (10.0.0.2), failed: its command ended with 1"
	for name, tt := range map[string]struct {
		first *rankEnd
		want  string
	}{
		"nothing is known":         {nil, failed},
		"a rank of it was ended":   {&rankEnd{Rank: 2, ID: "1", Status: 143}, "node rank 1, host1 (10.0.0.2), was "},
		"Ctrl-C":                   {&rankEnd{Rank: 2, ID: "1", Status: 130}, "was ended by SIGINT (Ctrl-C, or kill -INT)"},
		"a rank of it failed":      {&rankEnd{Rank: 2, ID: "1", Status: 1}, failed},
		"a rank elsewhere was":     {&rankEnd{Rank: 0, ID: "0", Status: 143}, failed},
		"its command, and no rank": {&rankEnd{Rank: -1, ID: "1", Status: 143}, failed},
		"a rank that its script has started": {&rankEnd{Rank: -1, PID: 7, ID: "1", Status: 137},
			"node rank 1, host1 (10.0.0.2), failed: a rank there (pid 7) ended with 137 (killed)"},
		"killed for lack of memory": {&rankEnd{Rank: 2, ID: "1", Status: 137}, "its rank 2 ended with 137 (killed)"},
		"a bus error":               {&rankEnd{Rank: 2, ID: "1", Status: 135}, "its rank 2 ended with 135 (bus error)"},
	} {
		p := &companion{ctx: t.Context(), spec: &Spec{}, world: &rendezvous.World{}, ends: &ends{}}
		p.doctor = &doctor{p: p, known: []rendezvous.Partner{{Name: "host1 (10.0.0.2)", Rank: 1, ID: "1"}}}
		p.doctor.world.Store(p.world)
		if p.ends.failed.heard = make(chan none); tt.first != nil {
			p.ends.failed.end = *tt.first
			close(p.ends.failed.heard)
		}
		if got := p.endOf(failed); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := (rankEnd{Rank: 3, Node: "host1", Status: 143}).String(); !strings.HasPrefix(got,
		"rank 3 on host1 was ended by SIGTERM (kill, kubectl delete, a scheduler, or launch --fail-fast there) at ") {
		t.Error(got)
	}
}

// Where a rank had ended with 0 shortly before the first failure, the remedy begins with that rank.
func TestTheRemedyBeginsWithARankThatLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		unread bool
		after  time.Duration
		want   string
	}{
		{"soon", 1, false, 4 * time.Second, "first look at rank 2, which ended with 0"},
		{"long after", 1, false, 5 * time.Minute, "first look at what host1 printed"},
		{"before it", 1, false, -time.Second, "first look at what host1 printed"},
		{"a signal", 139, false, time.Second, "first look at what host1 printed"},
		{"no reader", 120, true, time.Second, "first look at what read the output of host1"},
	} {
		do := ""
		e := &ends{p: &companion{spec: &Spec{}, world: &rendezvous.World{Self: rendezvous.Member{ID: "own"}},
			print: func(_ finding.From, f finding.Finding, _ string) { do = f.Fix }}}
		e.p.ended.Store(true)
		e.failed.end = rankEnd{ID: "other", Rank: 3, Node: "host1", Status: tt.status, Unread: tt.unread}
		e.left.end, e.left.at = rankEnd{ID: "other", Rank: 2, Node: "host1"}, time.Now().Add(-6*time.Minute)
		e.failed.at = e.left.at.Add(tt.after)
		e.crashed.heard, e.failed.heard, e.left.heard = make(chan none), make(chan none), make(chan none)
		close(e.failed.heard)
		close(e.left.heard)
		e.failed.own.Store(1)
		e.blame("this node's command")
		if !strings.HasPrefix(do, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, do, tt.want)
		}
	}
}
