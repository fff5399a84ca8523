package companion

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/rendezvous"
)

// resumes returns what is printed of a job in which something moves in some of the 5 s after it hung, one letter each:
// "x" moves, "." does not.
func resumes(t *testing.T, due look, effortOf func(*effort), state verdict.State, moves string) (after []int,
	text string) {
	t.Helper()
	a := effort{at: time.Unix(1000, 0)}
	var s standing
	s.reports(a.at.Add(-30*time.Second), due)
	for i, m := range moves {
		b := a
		if b.at = a.at.Add(5 * time.Second); m == 'x' {
			effortOf(&b)
		}
		if s.saw(a, b) {
			if f, ok := s.judge(verdict.Answer{State: state}, true); ok {
				after, text = append(after, (i+1)*5), f.What
			}
		}
		a = b
	}
	return after, text
}

func TestAJobThatGoesOnAgainIsReportedOnce(t *testing.T) {
	works := func(e *effort) { e.cpu++ }
	polls := func(e *effort) { e.cpu, e.polls = e.cpu+1, e.polls+1 }
	for _, tt := range []struct {
		name  string
		due   look
		of    func(*effort)
		state verdict.State
		moves string
		want  int // seconds; 0: nothing is reported
	}{
		{"it goes on", lookStill, works, verdict.Running, "..xxxxxxxxx..xxxx", 25},
		{"a rank computes, and the others wait for it", lookStill, works, verdict.Slow, "xxxx", 15},
		{"it pauses for a moment", lookStill, works, verdict.Running, "xx.xx", 20},
		{"it moves for a moment, again and again", lookStill, works, verdict.Running, "x...x...xx...xx....x", 0},
		{"it hangs still", lookStill, works, verdict.Hung, "xxxxxxxx", 0},
		{"it may still hang", lookStill, works, verdict.Open, "xxxxxxxx", 0},
		{"threads poll", lookEarly, polls, verdict.Running, "xxxxxxxx", 0},
		{"ranks use CPU time while they wait", lookSpins, works, verdict.Running, "xxxxxxxx", 0},
	} {
		got, text := resumes(t, tt.due, tt.of, tt.state, tt.moves)
		if tt.want == 0 && len(got) > 0 || tt.want != 0 && (len(got) != 1 || got[0] != tt.want) {
			t.Errorf("%s: after %v s; want %d", tt.name, got, tt.want)
		}
		if tt.name == "it goes on" && !strings.HasSuffix(text, "), after no progress for 40s") {
			t.Errorf("it says %q", text)
		}
	}
	var s standing // of which nothing is reported
	if a, b := (effort{at: time.Unix(1000, 0)}), (effort{at: time.Unix(1030, 0), cpu: 30}); s.saw(a, b) {
		t.Error("a job that never hung goes on again")
	}
}

// A look that finds that the job hangs still is dear: the next one is later, also where a rank moves for a time again
// and again. So is one that had no time.
func TestAJobThatMovesAndHangsIsLookedAtMoreRarely(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known bool
		rests func(i int) bool
		want  string
	}{
		{"it moves", true, func(int) bool { return false }, "[15 30 60 120 240]"},
		{"no answer in time", false, func(int) bool { return false }, "[15 30 60 120 240]"},
		{"it rests at times", true, func(i int) bool { return i%30 == 0 || i%30 > 15 }, "[15 45 75 135 255]"},
	} {
		a := effort{at: time.Unix(1000, 0)}
		var s standing
		s.reports(a.at, lookStill)
		var at []int
		for i := 5; i <= 300; i += 5 {
			b := a
			if b.at = a.at.Add(5 * time.Second); !tt.rests(i) {
				b.cpu += 5
			}
			if s.saw(a, b) {
				at = append(at, i)
				if f, ok := s.judge(verdict.Answer{State: verdict.Hung}, tt.known); ok {
					t.Errorf("%s: %s", tt.name, f.What)
				}
			}
			a = b
		}
		if fmt.Sprint(at) != tt.want {
			t.Errorf("%s: looks after %v s, want %s", tt.name, at, tt.want)
		}
	}
}

func TestAConnectionThatCarriesDataAgainIsReportedOnce(t *testing.T) {
	l, other := link01, scene.Link{Local: link01.Local, Remote: netip.MustParseAddrPort("10.0.0.3:7000")}
	k := scene.Socket{State: "established", Inode: 7, Local: l.Local, Remote: l.Remote,
		Info: &scene.Info{Acked: 100, Backoff: 5, Unacked: 3}}
	sound := k
	sound.Inode, sound.Info = 8, &scene.Info{Acked: 100}
	at := time.Unix(1000, 0)
	with := func(inode, acked uint64) scene.Traffic {
		return scene.Traffic{l: {State: "established", Inode: inode, Info: &scene.Info{Acked: acked}},
			other: {State: "established", Inode: 8, Info: &scene.Info{Acked: 900}}}
	}
	for _, tt := range []struct {
		name string
		now  scene.Traffic
		says string
	}{
		{"more is acknowledged", with(7, 200), "the command's connection to 10.0.0.2 carries data again"},
		{"nothing is", with(7, 100), ""},
		{"it is another connection", with(9, 200), ""},
		{"it has ended", scene.Traffic{}, ""},
	} {
		var s stuckPaths
		s.reports(scene.Traffic{l: k, other: sound}, at)
		var says []string
		for range 2 * soundPolls {
			if f, ok := s.look(tt.now, at.Add(40*time.Second)); ok {
				says = append(says, f.What)
			}
		}
		if len(says) != min(len(tt.says), 1) || len(says) > 0 && !strings.HasPrefix(says[0], tt.says) {
			t.Errorf("%s: %q", tt.name, says)
		}
		if waits := tt.name == "nothing is"; waits != (len(s.of) > 0) {
			t.Errorf("%s: it waits for %v", tt.name, s.of)
		}
	}
}

// A connection where packets are lost is not stuck for a moment.
func TestAConnectionIsSoundAfterSomeLooks(t *testing.T) {
	s := stuckPaths{of: scene.Traffic{link01: {Inode: 7, Info: &scene.Info{Acked: 100}}}}
	now := scene.Traffic{link01: {Inode: 7, Info: &scene.Info{Acked: 200}}}
	for i := 1; i <= soundPolls; i++ {
		if _, ok := s.look(now, time.Unix(1000, 0)); ok != (i == soundPolls) {
			t.Errorf("look %d: %t", i, ok)
		}
	}
}

func TestANodeThatHasStartedAfterAllIsReported(t *testing.T) {
	_, n := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo})
	running, end := context.WithCancel(t.Context())
	defer end()
	for _, tt := range []struct{ id, says string }{{n.ID, "node rank 1, host0, has started (seen at "}, {"another", ""}} {
		said := ""
		p := &companion{ctx: t.Context(), running: running, spec: &Spec{Job: "j"},
			print: func(_ finding.From, f finding.Finding, _ string) { said = f.What }}
		late := n
		late.ID = tt.id
		p.doctor = &doctor{p: p, known: []rendezvous.Partner{late}}
		p.doctor.world.Store(&rendezvous.World{})
		if tt.says == "" {
			end() // the run ends, and the node has not started
		}
		p.hasStarted("node rank 1, host0, has not started")
		if (said == "") != (tt.says == "") || !strings.HasPrefix(said, tt.says) {
			t.Errorf("%q, want %q", said, tt.says)
		}
	}
}

func TestAPathIsSoundSinceTheFirstCallThatPassesAgain(t *testing.T) {
	var s sound
	to := netip.MustParseAddr("10.0.0.2")
	for i, tt := range []struct {
		at     int // seconds
		passes bool
		want   time.Duration
	}{{0, true, 0}, {5, true, 5 * time.Second}, {10, false, 0}, {20, true, 0}, {30, true, 10 * time.Second}} {
		if got := s.saw(to, tt.passes, time.Unix(1000+int64(tt.at), 0)); got != tt.want {
			t.Errorf("call %d: for %s, want %s", i, got, tt.want)
		}
	}
	s.forget()
	if got := s.saw(to, true, time.Unix(2000, 0)); got != 0 {
		t.Errorf("after a time without calls: for %s", got)
	}
}
