package diagnose

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/tcpstore"
)

// inGroups returns two ranks in one collective: each of two groups has a connection between them, and a rank has sent
// last on its group's.
func inGroups(values [2]map[string]string, last [2]int) scene.Scene {
	s := envScene()
	s.Procs, s.Sockets = nil, nil
	b := &tcpstore.Board{Ended: -1, Clients: 2}
	for g := range 3 {
		for i := range 2 {
			b.Blobs = append(b.Blobs, tcpstore.Blob{Key: "k", Group: g, Index: i, World: 2,
				Addr: netip.AddrPortFrom(s.Addrs[0], uint16(45000+10*g+i))})
		}
	}
	s.Stores[0].Board = b
	for i := range 2 {
		p := trainingRank(10+i, strconv.Itoa(i), wrapped, "broadcast (torch/distributed/distributed_c10d.py:4055)",
			"<module> (train.py:10)")
		p.Stacks[0].Values, p.Env["WORLD_SIZE"] = values[i], "2"
		s.Procs = append(s.Procs, p)
		for g := range 3 {
			ends := [2]netip.AddrPort{netip.AddrPortFrom(s.Addrs[0], uint16(45000+10*g)),
				netip.AddrPortFrom(s.Addrs[0], uint16(50000+g))}
			k := scene.Socket{PID: 10 + i, State: "established", Local: ends[i], Remote: ends[1-i],
				Info: &scene.Info{Sent: 4096, LastSent: time.Minute, LastRecv: time.Minute}}
			if last[i] == g {
				k.Info.LastSent = 50 * time.Second
			}
			s.Sockets = append(s.Sockets, k)
		}
	}
	return s
}

// Two ranks in the same collective that name another source, or wait in other groups that have both, wait for ever.
// With the same arguments, or while bytes move, or where a rank is late, nothing is said of that.
func TestCollectivesWithOtherArguments(t *testing.T) {
	src := func(a, b string) [2]map[string]string {
		return [2]map[string]string{{"src": a, "group_src": a}, {"src": b, "group_src": b}}
	}
	moves := inGroups(src("0", "1"), [2]int{0, 0})
	moves.Sockets[0].Info.LastRecv = time.Second
	works := inGroups(src("0", "1"), [2]int{0, 0})
	works.Procs[0].Moved.CPU = works.Span
	other := inGroups(src("0", "1"), [2]int{0, 0})
	other.Procs[0].Stacks[0].Frames[1] = "reduce (torch/distributed/distributed_c10d.py:4055)"
	apart := inGroups(src("0", "0"), [2]int{1, 2})
	apart.Sockets = slices.DeleteFunc(apart.Sockets, func(k scene.Socket) bool { // each is alone in its own group
		return k.PID == 10 && k.Local.Port() == 45020 || k.PID == 11 && k.Remote.Port() == 45010
	})
	third := func(groups bool, frame string, cpu time.Duration) scene.Scene {
		s := inGroups(src("0", "1"), [2]int{0, 0})
		if groups {
			s = inGroups(src("0", "0"), [2]int{1, 2})
		}
		p := trainingRank(12, "2", frame, "<module> (train.py:7)")
		p.Moved.CPU = cpu
		s.Procs = append(s.Procs, p)
		for i := range s.Procs {
			s.Procs[i].Env["WORLD_SIZE"] = "3"
		}
		return s
	}
	late := third(false, "sleep (train.py:5)", 0)
	late.Procs = late.Procs[:2]                   // it is not seen
	three := func(values ...string) scene.Scene { // all in one loop, which a rank may be ahead in
		s := inGroups(src("0", "0"), [2]int{0, 0})
		s.Procs = append(s.Procs, s.Procs[1])
		for i := range s.Procs {
			p := trainingRank(10+i, strconv.Itoa(i), wrapped, "broadcast (torch/distributed/distributed_c10d.py:4055)",
				"<module> (train.py:10)")
			p.Stacks[0].Values, p.Env["WORLD_SIZE"] = map[string]string{"src": values[i], "group_src": values[i]}, "3"
			if i < 2 {
				p.Env["PYTHONHASHSEED"] = "0"
			}
			s.Procs[i] = p
		}
		for i := range 2 {
			s.Stores[0].Board.Blobs[i].World = 3
		}
		return s
	}
	others := inGroups(src("0", "0"), [2]int{1, 2}) // of three members each
	others.Procs = three("0", "0", "0").Procs
	for g := range 3 {
		others.Stores[0].Board.Blobs = append(others.Stores[0].Board.Blobs, tcpstore.Blob{Key: "k", Group: g, Index: 2,
			World: 3, Addr: netip.AddrPortFrom(others.Addrs[0], uint16(45002+10*g))})
	}
	pair := three("0", "1", "2") // ranks 2 and 3 have a group of their own, in which no rank can be ahead
	pair.Procs = append(pair.Procs, trainingRank(13, "3", wrapped,
		"broadcast (torch/distributed/distributed_c10d.py:4055)", "<module> (train.py:10)"))
	pair.Procs[3].Stacks[0].Values = map[string]string{"src": "3", "group_src": "3"}
	for i := range pair.Procs {
		pair.Procs[i].Env["WORLD_SIZE"] = "4"
	}
	for i, k := range pair.Sockets {
		if k.Local.Port() == 45010 || k.Remote.Port() == 45010 {
			pair.Sockets[i].PID += 2
		}
	}
	two := inGroups(src("0", "0"), [2]int{1, 2})
	two.Procs[0].Threads = append(two.Procs[0].Threads, scene.Thread{Name: "pt_gloo_runloop", State: "S", Timed: true,
		Count: 2})
	for name, tt := range map[string]struct {
		scene scene.Scene
		says  string // "": nothing of this
	}{
		"a third rank works":              {third(false, "step (train.py:5)", time.Second), ""},
		"a third rank sleeps":             {third(false, "sleep (train.py:5)", 0), ""},
		"groups, and a third rank works":  {third(true, "step (train.py:5)", time.Second), ""},
		"groups, and a third rank sleeps": {third(true, "sleep (train.py:5)", 0), ""},
		"a third rank is not seen":        {late, ""},
		"two collectives run at a time":   {two, ""},
		"sources": {inGroups(src("0", "1"), [2]int{0, 0}),
			"the ranks call broadcast with other arguments: rank 0 with src=0, rank 1 with src=1"},
		"groups": {inGroups(src("0", "0"), [2]int{1, 2}),
			"ranks 0 and 1 wait in broadcast of different groups, each of which has both: rank 0 in the one that it has " +
				"made as number 1, rank 1 in the one that it has made as number 2"},
		"sources of calls of a loop": {three("0", "1", "1"), "the ranks wait for each other in calls of broadcast, in " +
			"another order or with other arguments: rank 0 with src=0, ranks 1-2 with src=1"},
		"groups of which a rank may be ahead": {others, "the ranks wait for each other in calls of broadcast, in another " +
			"order or with other arguments: rank 2 with src=0, rank 0 with src=0 in the group " +
			"that it has made as number 1, rank 1 with src=0 in the group that it has made as number 2"},
		"sources of a pair, and of a loop": {pair,
			"the ranks call broadcast with other arguments: rank 2 with src=2, rank 3 with src=3"},
		"three with one source":      {three("1", "1", "1"), ""},
		"the same source":            {inGroups(src("0", "0"), [2]int{0, 0}), ""},
		"other groups":               {apart, ""},
		"sources of a group unknown": {inGroups(src("0", "1"), [2]int{-1, -1}), ""},
		"bytes move":                 {moves, ""},
		"one computes":               {works, ""},
		"another collective":         {other, ""},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		i := slices.IndexFunc(a.Why, func(v verdict.Verdict) bool { return v.Cause == "collective.arguments" })
		switch {
		case (i >= 0) != (tt.says != ""):
			t.Errorf("%s: %+v", name, a.Why)
		case i >= 0 && (i > 0 || (a.Why[i].Sure == verdict.Certain) == strings.HasPrefix(tt.says, "the ranks wait") ||
			!strings.HasPrefix(a.Why[i].Says, tt.says)):
			t.Errorf("%s: %+v", name, a.Why)
		}
	}
}

// Ranks of torch.distributed.rpc wait for each other where each thread that answers a call is in one. While such a
// thread works, or the main thread of one rank computes, they do not. A function that answers later has no thread.
func TestCallsThatWaitForEachOther(t *testing.T) {
	const sync = "rpc_sync (torch/distributed/rpc/api.py:842)"
	const answers = "_run_function (torch/distributed/rpc/internal.py:209)"
	job := func(main, thread string) scene.Scene {
		s := envScene()
		s.Procs, s.Sockets = nil, nil
		s.Stores[0].Board = &tcpstore.Board{Keys: 8, Clients: 2, Ended: -1}
		for i := range 2 {
			p := trainingRank(10+i, strconv.Itoa(i), sync, "<module> (train.py:12)")
			p.Threads = []scene.Thread{{Name: "TP_UV_loop", State: "S", Count: 3}}
			p.Env["WORLD_SIZE"] = "2"
			p.Stacks[0].Values = map[string]string{"to": "w" + strconv.Itoa(1-i)}
			p.Stacks = append(p.Stacks, scene.Stack{Thread: "12", Frames: []string{thread, "work (train.py:7)", answers}})
			if thread == "" {
				p.Stacks = p.Stacks[:1]
			}
			s.Procs = append(s.Procs, p)
		}
		if s.Procs[0].Stacks[0].Frames[0] = main; main != sync {
			s.Procs[0].Syscall, s.Procs[0].Wchan, s.Procs[0].State = nil, "", "R"
		}
		return s
	}
	moves := job(sync, sync)
	moves.Procs[1].Moved.Switches = 3
	computes := job(sync, sync)
	computes.Procs[0].Moved.CPU = computes.Span / 4 // what it was called for, in C++
	leaves := job(sync, sync)
	leaves.Procs[1].Stacks[0].Frames = []string{"wait (threading.py:327)", "shutdown (torch/distributed/rpc/api.py:352)",
		"<module> (train.py:14)"}
	half := job(sync, sync)
	half.Procs[0].Stacks = half.Procs[0].Stacks[:1]
	for name, tt := range map[string]struct {
		scene scene.Scene
		cause string
	}{
		"C++ answers":       {computes, "collective.idle"},
		"crossed":           {job(sync, sync), "rpc.crossed"},
		"calls go on":       {moves, "collective.idle"},
		"an answer works":   {job(sync, "sleep (train.py:5)"), "collective.idle"},
		"no answer":         {job(sync, ""), "collective.idle"},
		"a rank has a step": {job("step (train.py:9)", ""), "rank.working"},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		if len(a.Why) == 0 || a.Why[0].Cause != tt.cause {
			t.Errorf("%s: %+v, want %s", name, a.Why, tt.cause)
		}
		if c := a.Why[0]; c.Cause == "rpc.crossed" && c.Sure != verdict.Likely {
			t.Errorf("%s: %+v", name, c)
		}
		for _, w := range a.Why {
			if strings.Contains(w.Says, "init_process_group") {
				t.Errorf("%s: %s", name, w.Says)
			}
		}
	}
	for name, s := range map[string]scene.Scene{"one only answers": leaves, "no thread of one answers": half} {
		if c := Judge([]scene.Scene{s})[0].Why[0]; c.Cause != "rpc.crossed" || c.Sure != verdict.Likely {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A DataLoader's worker in a collective has no threads of Gloo; one that waits for a lock is said to do that.
func TestWorkersInCollectives(t *testing.T) {
	const reduce = "all_reduce (torch/distributed/distributed_c10d.py:4181)"
	for _, tt := range []struct{ frame, thread, cause string }{
		{reduce, scene.Worker, "collective.worker"}, {reduce, "gloo_tcp_loop", "rank.lock"},
		{"Lock.acquire (data.py:9)", scene.Worker, "rank.lock"},
	} {
		s := envScene()
		s.Procs, s.Sockets = nil, nil
		for i := range 2 {
			p := trainingRank(10+i, strconv.Itoa(i), "select (selectors.py:415)", "<module> (train.py:12)")
			p.Wchan = "poll_schedule_timeout"
			s.Procs = append(s.Procs, p, scene.Proc{PID: 20 + i, Parent: 10 + i, Role: scene.Child, Comm: scene.Worker,
				State: "S", Wchan: "futex_do_wait", Env: map[string]string{},
				Threads: []scene.Thread{{Name: tt.thread, State: "S", Wchan: "futex_do_wait", Count: 1}},
				Stacks:  []scene.Stack{{Thread: "MainThread", Frames: []string{tt.frame, "D.__getitem__ (train.py:7)"}}}})
		}
		a := Judge([]scene.Scene{s})[0]
		if len(a.Why) == 0 || a.Why[0].Cause != tt.cause {
			t.Errorf("%s, %s: %+v, want %s", tt.frame, tt.thread, a.Why, tt.cause)
		}
	}
}
