package companion

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/rendezvous"
)

func TestWhatWaitsHasNotMoved(t *testing.T) {
	a := effort{at: time.Unix(100, 0), cpu: 50, read: 1 << 30, pids: 300}
	for _, tt := range []struct {
		name  string
		after time.Duration
		cpu   float64
		read  uint64
		pids  int
		want  bool
	}{
		{"nothing", 5 * time.Second, 0, 0, 0, false},
		{"torchrun that waits", 5 * time.Second, 0.015, 4 << 10, 0, false},
		{"rank 0 that polls", 5 * time.Second, 0.2, 18 << 10, 0, false},
		{"a computation", 5 * time.Second, 4.9, 0, 0, true},
		{"a slow computation", 5 * time.Second, 0.4, 0, 0, true},
		{"a file is read", 5 * time.Second, 0.01, 1 << 20, 0, true},
		{"a process more", 5 * time.Second, 0, 0, 4711, true},
		{"a process less", 5 * time.Second, 0, 0, -200, true},
		{"the same over a long time", 100 * time.Second, 4.9, 1 << 20, 0, false},
		{"no time", 0, 0, 0, 0, false},
	} {
		b := effort{at: a.at.Add(tt.after), cpu: a.cpu + tt.cpu, read: a.read + tt.read, pids: a.pids + tt.pids}
		if got := moved(a, b); got != tt.want {
			t.Errorf("%s: moved is %v", tt.name, got)
		}
	}
	ended := effort{at: a.at.Add(5 * time.Second), cpu: 1, read: 10, pids: 300} // counters of other processes
	imports := effort{at: a.at.Add(5 * time.Second), cpu: a.cpu, read: a.read, faults: 900, pids: a.pids}
	if !moved(a, imports) {
		t.Error("an import from a slow disk counts as standing still")
	}
	if moved(a, ended) {
		t.Error("fewer bytes count as many")
	}
}

// Threads that poll are no reason to doubt an early look, and are one to doubt a look at a job in which nothing moves.
func TestALookDoubtsWhatMoves(t *testing.T) {
	a := effort{at: time.Unix(100, 0), cpu: 50}
	still, polls, works, reads := a, a, a, a
	polls.cpu, polls.polls = 55, 5
	works.cpu, reads.read = 55, 1<<30
	for _, tt := range []struct {
		name string
		due  look
		now  effort
		want bool
	}{
		{"nothing", lookEarly, still, false}, {"nothing", lookStill, still, false}, {"nothing", lookSpins, still, false},
		{"polls", lookEarly, polls, false}, {"polls", lookStill, polls, true}, {"polls", lookSpins, polls, false},
		{"works", lookEarly, works, true}, {"works", lookStill, works, true}, {"works", lookSpins, works, false},
		{"reads", lookEarly, reads, true}, {"reads", lookStill, reads, true}, {"reads", lookSpins, reads, true},
	} {
		tt.now.at = a.at.Add(5 * time.Second)
		if got := stirs(tt.due, a, tt.now); got != tt.want {
			t.Errorf("%s, look %d: %t", tt.name, tt.due, got)
		}
	}
}

func TestAHangIsOneFinding(t *testing.T) {
	v := verdict.Verdict{Cause: "rank.absent", Sure: verdict.Certain, Says: "rank 1 (node host1) sleeps",
		Seen: []finding.Seen{{Where: "host1", What: "clock_nanosleep"}}, Do: "py-spy dump --pid 7"}
	a := verdict.Answer{State: verdict.Hung, Why: []verdict.Verdict{v}}
	f := hangFinding(a, "", 6400*time.Millisecond)
	if f.ID != "job.hangs" || f.What != "no progress for 6s: rank 1 (node host1) sleeps (rank.absent, certain)" ||
		f.Fix != v.Do || len(f.Seen) != 1 || f.Seen[0] != v.Seen[0] {
		t.Errorf("%+v", f)
	}
	v.Do = ""
	a = verdict.Answer{State: verdict.Open, Why: make([]verdict.Verdict, 9), Need: make([]string, 9)}
	a.Why[0] = v
	f = hangFinding(a, "", time.Minute)
	if len(f.Seen) != 1+3+4 || !strings.Contains(f.Fix, "launch doctor") {
		t.Errorf("%+v", f)
	}
}

// Behind a cable that is out, all that this node sees of another one is its own fault.
func TestANodeWithoutALinkBlamesNoOther(t *testing.T) {
	a := verdict.Answer{State: verdict.Hung, Why: []verdict.Verdict{{Cause: "path.lost", Says: "no answer from host1"}}}
	f := hangFinding(a, "eth0 has no link", time.Minute)
	if !strings.Contains(f.What, "eth0 has no link") || strings.Contains(f.What, "host1") {
		t.Errorf("%+v", f)
	}
	a.Why[0].Cause = "rank.stopped"
	if f = hangFinding(a, "eth0 has no link", time.Minute); !strings.Contains(f.What, "no answer from host1") {
		t.Errorf("another cause: %+v", f)
	}
}

// looked reports whether a companion has looked at its node.
func (d *doctor) looked() bool {
	d.looking.Lock()
	defer d.looking.Unlock()
	return !d.taken.IsZero()
}

// With --hang-after 0 nothing is looked at; else the node of the lowest rank that is there looks.
func TestHangAfter0LooksAtNothing(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	ctx, cancel := context.WithCancel(t.Context())
	first, err := net.Listen("tcp", lo.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	here := rendezvous.Partner{Rank: 0, Addr: lo, Peer: first.Addr().(*net.TCPAddr).Port}
	left := rendezvous.Partner{Rank: 0}
	var all []*doctor
	cases := []struct {
		after  time.Duration
		rank   int
		others []rendezvous.Partner
		looks  bool
	}{
		{after: 20 * time.Millisecond, looks: true},
		{},
		{after: 20 * time.Millisecond, rank: 1, others: []rendezvous.Partner{here}},
		{after: 20 * time.Millisecond, rank: 1, others: []rendezvous.Partner{left, {Rank: 2}}, looks: true},
	}
	for _, tt := range cases {
		d, _ := nodeOf(t, "", lo)
		d.taken, d.p.launch = time.Time{}, cmd.Process.Pid
		d.begin(ctx, &rendezvous.World{Rank: tt.rank, Self: rendezvous.Member{Addr: lo}})
		d.mu.Lock()
		d.known = append([]rendezvous.Partner{}, tt.others...) // no store is asked
		d.mu.Unlock()
		if tt.after > 0 {
			d.p.wg.Go(func() { d.watchStart(ctx, tt.after) }) // as begin would, before the others are known
		}
		all = append(all, d)
	}
	for end := time.Now().Add(30 * time.Second); !all[0].looked() || !all[3].looked(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a command that does not move is not looked at")
		}
	}
	cancel()
	for i, d := range all {
		d.p.wg.Wait()
		if d.looked() != cases[i].looks {
			t.Errorf("case %d: looked is %v", i, d.looked())
		}
	}
}
