package diagnose

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// spinning is a job of two ranks, of which rank 0 waits in a collective and rank 1 uses one core in its script.
func spinning() []scene.Scene {
	stack := func(frames ...string) []scene.Stack {
		return []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: frames}}
	}
	s := envScene()
	for i := range s.Procs {
		s.Procs[i].Env["WORLD_SIZE"], s.Procs[i].Wchan, s.Procs[i].Syscall = "2", "futex_do_wait", nil
		s.Procs[i].Threads = append(s.Procs[i].Threads, scene.Thread{Name: "pt_gloo_runloop", State: "S", Count: 2})
		s.Sockets = append(s.Sockets, scene.Socket{PID: s.Procs[i].PID, State: "established",
			Info: &scene.Info{Sent: 96, Received: 8, LastSent: time.Minute, LastRecv: time.Minute}})
	}
	s.Procs[0].Stacks = stack("all_reduce (torch/distributed/distributed_c10d.py:3)", "<module> (train.py:9)")
	s.Procs[1].Stacks = stack("poll (train.py:4)", "<module> (train.py:8)")
	s.Procs[1].State, s.Procs[1].Wchan, s.Procs[1].Moved.CPU = "R", "", s.Span
	return []scene.Scene{s}
}

func TestARankThatSpinsIsOpenAfterTwoLooks(t *testing.T) {
	last := StanceOf(spinning())
	last.Forget()
	if a := Judge(spinning())[0]; a.State != verdict.Slow {
		t.Errorf("one look: %s, %+v", a.State, a.Why)
	}
	a, ok := StanceOf(spinning()).Spins(last)
	if !ok || a.State != verdict.Open || len(a.Why) != 1 || a.Why[0].Cause != "rank.spins" ||
		!slices.Equal(a.Why[0].Ranks, []int{1}) || a.Why[0].Sure == verdict.Certain {
		t.Errorf("two looks: %v, %+v", ok, a)
	}
	same := spinning()
	same[0].Taken = time.Unix(1e9, 0)
	if a, ok := StanceOf(same).Spins(StanceOf(same)); ok {
		t.Errorf("one look twice: %+v", a.Why)
	}
	for name, change := range map[string]func(s *scene.Scene, rank *scene.Proc){
		"another line":          func(_ *scene.Scene, p *scene.Proc) { p.Stacks[0].Frames[0] = "poll (train.py:5)" },
		"no stack":              func(_ *scene.Scene, p *scene.Proc) { p.Stacks = nil },
		"it grows":              func(_ *scene.Scene, p *scene.Proc) { p.Moved.Memory = 8 << 20 },
		"it reads":              func(_ *scene.Scene, p *scene.Proc) { p.Moved.Read = 1 << 20 },
		"it has page faults":    func(_ *scene.Scene, p *scene.Proc) { p.Moved.Faults = 900 },
		"it starts compilers":   func(_ *scene.Scene, p *scene.Proc) { p.Moved.Children = true },
		"a file moves on":       func(_ *scene.Scene, p *scene.Proc) { p.Moved.Files = true },
		"it uses several cores": func(s *scene.Scene, p *scene.Proc) { p.Moved.CPU = 3 * s.Span },
		"it uses half a core":   func(s *scene.Scene, p *scene.Proc) { p.Moved.CPU = s.Span / 2 },
		"bytes have moved":      func(s *scene.Scene, _ *scene.Proc) { s.Sockets[0].Info.Received++ },
		"the others have got on": func(s *scene.Scene, _ *scene.Proc) {
			s.Procs[0].Stacks[0].Frames[1] = "<module> (train.py:10)"
		},
		"nobody waits for it": func(s *scene.Scene, _ *scene.Proc) { s.Procs[0].Stacks[0].Frames[0] = "save (train.py:3)" },
		"another process":     func(_ *scene.Scene, p *scene.Proc) { p.PID = 99 },
	} {
		now := spinning()
		change(&now[0], &now[0].Procs[1])
		if a, ok := StanceOf(now).Spins(last); ok {
			t.Errorf("%s: %+v", name, a.Why)
		}
	}
	if _, ok := StanceOf(spinning()).Spins(nil); ok {
		t.Error("one look is enough")
	}
	if s := StanceOf(nil); s != nil {
		t.Errorf("no job: %+v", s)
	}
}

// A rank that polls what is outside of the job uses less than a core, and is at other lines of its loop each time.
func TestARankThatAsksOneAddressGoesRound(t *testing.T) {
	asking := func(at int, line, to string) []scene.Scene {
		all := spinning()
		s := &all[0]
		s.Taken = time.Unix(int64(at), 0)
		s.Procs[1].Moved.CPU = s.Span * 3 / 10
		s.Procs[1].Stacks[0].Frames = []string{"recv (socket.py:" + line + ")", "ready (train.py:" + line + ")",
			"<module> (train.py:8)"}
		s.Procs[1].Syscall = &scene.Syscall{Name: "recvfrom", FD: 9, Socket: 70}
		s.Sockets = append(s.Sockets, scene.Socket{PID: s.Procs[1].PID, Inode: 70, State: "established",
			Remote: netip.MustParseAddrPort(to), Info: &scene.Info{Sent: uint64(at) * 100, Received: uint64(at) * 90}})
		return all
	}
	a, ok := StanceOf(asking(240, "5", "10.66.0.9:6379")).Spins(StanceOf(asking(120, "4", "10.66.0.9:6379")))
	if !ok || a.Why[0].Cause != "rank.spins" || a.Why[0].Sure != verdict.Possible ||
		!strings.Contains(a.Why[0].Says, "goes round in ready (train.py) and asks 10.66.0.9:6379 again and again") {
		t.Errorf("%v, %+v", ok, a)
	}
	for name, last := range map[string]func(all []scene.Scene){
		"another address": func(all []scene.Scene) {
			k := all[0].Sockets
			k[len(k)-1].Remote = netip.MustParseAddrPort("10.66.0.8:6379")
		},
		"another place": func(all []scene.Scene) { all[0].Procs[1].Stacks[0].Frames[2] = "<module> (other.py:8)" },
		"it gets data":  func(all []scene.Scene) { all[0].Sockets[len(all[0].Sockets)-1].Info.Received += 1 << 30 },
		"it is still":   func(all []scene.Scene) { all[0].Procs[1].Stacks = nil },
	} {
		before := asking(120, "4", "10.66.0.9:6379")
		last(before)
		if a, ok := StanceOf(asking(240, "5", "10.66.0.9:6379")).Spins(StanceOf(before)); ok {
			t.Errorf("%s: %+v", name, a.Why)
		}
	}
	computes := func(at int, cpu time.Duration, line string) *Stance { // while another thread sends metrics
		all := asking(at, line, "10.66.0.9:6379")
		all[0].Procs[1].Syscall, all[0].Procs[1].Moved.CPU = nil, cpu
		return StanceOf(all)
	}
	span := spinning()[0].Span
	if a, ok := computes(240, span*3/10, "5").Spins(computes(120, span*3/10, "4")); ok {
		t.Errorf("it computes: %+v", a.Why)
	}
	a, ok = computes(240, span, "5").Spins(computes(120, span, "5"))
	if !ok || !strings.Contains(a.Why[0].Says, "uses one core at the same line") {
		t.Errorf("it computes at one line: %v, %+v", ok, a.Why)
	}
}
