package diagnose

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// What a rank waits for outside of torch is named, with for how long it has not gone on.
func TestWhatARankWaitsForIsNamed(t *testing.T) {
	wait := func(name string, o scene.Owner, kind string) func(*scene.Scene, *scene.Proc) {
		return func(_ *scene.Scene, p *scene.Proc) {
			p.Syscall = &scene.Syscall{Name: name, FD: 9, Owner: &o}
			if o.PID == 0 {
				p.Syscall.Owner = nil
			}
			p.Files = []scene.File{{FD: 9, Path: "/data/index.lock", Type: kind}}
		}
	}
	asks := func(to string, more ...scene.Socket) func(*scene.Scene, *scene.Proc) {
		return func(s *scene.Scene, p *scene.Proc) {
			p.Syscall = &scene.Syscall{Name: "recvfrom", FD: 9, Socket: 70}
			s.Sockets = append(append(s.Sockets, scene.Socket{PID: p.PID, Inode: 70, State: "established",
				Local: netip.MustParseAddrPort("10.0.0.1:5"), Remote: netip.MustParseAddrPort(to), Info: &scene.Info{}}), more...)
		}
	}
	own := scene.Socket{PID: 10, State: "established", Local: netip.MustParseAddrPort("10.0.0.1:6379"),
		Remote: netip.MustParseAddrPort("10.0.0.1:5"), Info: &scene.Info{}}
	for _, tt := range []struct {
		name string
		with func(s *scene.Scene, p *scene.Proc)
		want string
		idle bool
	}{
		{"a lock", wait("flock", scene.Owner{PID: 77, Comm: "rsync"}, "ext4"),
			"it waits for a lock on /data/index.lock, which process 77 (rsync) has", true},
		{"of another rank", wait("fcntl", scene.Owner{PID: 10, Comm: "python"}, "ext4"),
			"it waits for a lock on /data/index.lock, which rank 0 (h0, pid 10) has", true},
		{"of another node", wait("fcntl", scene.Owner{}, "nfs4"),
			"it waits for a lock on /data/index.lock, which a process of another node may have", true},
		{"not seen", wait("flock", scene.Owner{}, "ext4"), "it waits for a lock on /data/index.lock", true},
		{"a server", asks("10.66.0.9:443"), "it waits for an answer from 10.66.0.9:443", true},
		{"on this node", asks("127.0.0.1:6379"), "it waits for an answer from 127.0.0.1:6379 (h0)", true},
		{"on a node of the job", asks("10.0.0.1:6379"), "it waits for an answer from 10.0.0.1:6379 (h0)", true},
		{"another rank", asks("10.0.0.1:6379", own), "and does not move", false},
		{"a daemon", func(_ *scene.Scene, p *scene.Proc) { p.Waits = []scene.Wait{mainOn(scene.OnData, false, 77)} },
			"it waits for process 77, which is not of the job", true},
		{"what a daemon has inherited", func(_ *scene.Scene, p *scene.Proc) {
			p.Waits = []scene.Wait{mainOn(scene.OnData, false, 77)}
			p.Waits[0].Own = true
		}, "and does not move", false},
		{"a child", func(s *scene.Scene, p *scene.Proc) {
			p.Waits = []scene.Wait{mainOn(scene.OnChild, false, 41)}
			c := childOf(41, mainOn("", false))
			c.Still = true
			s.Procs = append(s.Procs, c)
		}, "it waits for its child process 41 (python)", true},
		{"a child that goes on", func(s *scene.Scene, p *scene.Proc) {
			p.Waits = []scene.Wait{mainOn(scene.OnChild, false, 41)}
			s.Procs = append(s.Procs, childOf(41, mainOn("", false)))
		}, "it waits for its child process 41 (python)", false},
		{"a build", func(_ *scene.Scene, p *scene.Proc) {
			p.Stacks[0].Frames = append([]string{"FileBaton.wait (torch/utils/file_baton.py:42)"}, p.Stacks[0].Frames...)
			p.Stacks[0].Values = map[string]string{"build_directory": "/cache/ops"}
		}, "or was killed while it did: its lock file /cache/ops/lock is there", true},
	} {
		s := spinning()[0]
		p := &s.Procs[1]
		p.State, p.Moved, p.Syscall = "S", scene.Moved{}, &scene.Syscall{Name: "clock_nanosleep", FD: -1}
		past := scene.Past{PID: p.PID, Over: 2 * time.Minute, Acts: []scene.Act{{Ago: 50 * time.Second, Wakes: 3}}}
		tt.with(&s, p)
		s.Past = []scene.Past{past}
		v := Judge([]scene.Scene{s})[0].Why[0]
		if v.Cause != "rank.left" || !strings.HasSuffix(v.Says, tt.want) || (v.Idle >= 50*time.Second) != tt.idle {
			t.Errorf("%s: %+v", tt.name, v)
		}
		s.Past[0].Acts = append(past.Acts, scene.Act{Ago: time.Second, Wakes: 1})
		if v := Judge([]scene.Scene{s})[0].Why[0]; v.Idle > time.Second && tt.name != "a build" {
			t.Errorf("%s, and it has gone on: %+v", tt.name, v)
		}
	}
}

// A rank that goes on and waits again asks for something, and an answer may be there each time.
func TestARankThatGoesOnAndWaitsAgainIsNotCertain(t *testing.T) {
	for _, tt := range []struct {
		name string
		acts []time.Duration
		want string
		sure verdict.Sure
	}{
		{"it does not move", nil, "and does not move", verdict.Certain},
		{"it went on before the others waited", []time.Duration{58e9, 62e9, 70e9}, "and does not move", verdict.Certain},
		{"it goes on", []time.Duration{2e9, 12e9, 22e9, 32e9},
			"and waits, goes on and waits again in ready, as a loop that tries or asks something again", verdict.Likely},
	} {
		s := spinning()[0]
		p := &s.Procs[1]
		p.State, p.Moved, p.Stacks[0].Frames[0] = "S", scene.Moved{}, "ready (train.py:4)"
		past := scene.Past{PID: p.PID, Over: 2 * time.Minute}
		for _, ago := range tt.acts {
			past.Acts = append(past.Acts, scene.Act{Ago: ago, Wakes: 4})
		}
		s.Past = []scene.Past{past}
		a := Judge([]scene.Scene{s})[0]
		if v := a.Why[0]; v.Sure != tt.sure || !strings.HasSuffix(v.Says, tt.want) || a.State != verdict.Open {
			t.Errorf("%s: %s, %+v", tt.name, a.State, v)
		}
	}
}

// A rank in a debugger, and one that asks a name server, go on and wait for the same.
func TestWhatGoesOnAndWaitsForTheSameIsCertain(t *testing.T) {
	for want, with := range map[string]func(p *scene.Proc){
		"waits for a command in Python's debugger (pdb)": func(p *scene.Proc) {
			p.Stacks[0].Frames = []string{"cmdloop (cmd.py:126)", "interaction (pdb.py:359)", "<module> (train.py:8)"}
		},
		"waits for an answer of the name server 10.0.0.53": func(p *scene.Proc) {
			p.Syscall = &scene.Syscall{Name: "poll", FD: 9, Asks: netip.MustParseAddrPort("10.0.0.53:53")}
		},
	} {
		s := spinning()[0]
		p := &s.Procs[1]
		p.State, p.Moved = "S", scene.Moved{}
		with(p)
		past := scene.Past{PID: p.PID, Over: 2 * time.Minute}
		for i := range 10 {
			past.Acts = append(past.Acts, scene.Act{Ago: time.Duration(2+5*i) * time.Second, Wakes: 1})
		}
		s.Past = []scene.Past{past}
		if v := Judge([]scene.Scene{s})[0].Why[0]; v.Sure != verdict.Certain ||
			!strings.HasSuffix(v.Says, "and does not move: it "+want) {
			t.Errorf("%s: %+v", want, v)
		}
	}
}

// Workers of a DataLoader that wait for a lock of their own are named as long as the others wait.
func TestWorkersThatWaitForALockAreNamed(t *testing.T) {
	s := spinning()[0]
	p := &s.Procs[1]
	p.State, p.Moved = "S", scene.Moved{Switches: 1}
	p.Syscall = &scene.Syscall{Name: "poll", Limit: 5 * time.Second, FD: 4}
	worker := childOf(41, mainOn(scene.OnLock, true),
		scene.Wait{Thread: "python", On: scene.OnLock, Own: true, Count: 1})
	worker.Comm, worker.Wchan = scene.Worker, "futex_do_wait"
	s.Procs = append(s.Procs, worker)
	s.Past = []scene.Past{{PID: p.PID, Over: 2 * time.Minute, Acts: []scene.Act{{Ago: 5 * time.Second, Wakes: 1}}}}
	v := Judge([]scene.Scene{s})[0].Why[0]
	if v.Cause != "rank.lock" || v.Sure != verdict.Likely || v.Idle != time.Minute {
		t.Errorf("%+v", v)
	}
}
