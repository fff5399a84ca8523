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

// twin is a recorded scene with one thing changed, and the first cause that is then found, with how sure.
type twin struct {
	name   string
	change func(all []scene.Scene, first, second *scene.Proc) // the ranks 0 and 1
	cause  string
	sure   verdict.Sure
}

func judgeTwins(t *testing.T, file string, twins []twin) {
	t.Helper()
	for _, tt := range twins {
		all := readGolden(t, "testdata/scenes/"+file+".json.gz")
		ranks := map[string]*scene.Proc{}
		for i := range all {
			for j, p := range all[i].Procs {
				if p.Role == scene.Rank {
					ranks[p.Env["RANK"]] = &all[i].Procs[j]
				}
			}
		}
		tt.change(all, ranks["0"], ranks["1"])
		got := verdict.Verdict{}
		if a := Judge(all)[0]; len(a.Why) > 0 {
			got = a.Why[0]
		}
		if got.Cause != tt.cause || got.Sure != tt.sure {
			t.Errorf("%s, %s: %s (%s) %s; want %s (%s)", file, tt.name, got.Cause, got.Sure, got.Says, tt.cause, tt.sure)
		}
	}
}

// addThread gives a process a thread more.
func addThread(p *scene.Proc, t scene.Thread) {
	t.State, t.Count = "S", 1
	p.Threads = append(p.Threads, t)
}

// A rank whose threads all wait for locks does not go on, unless one of them may.
func TestALockAfterInit(t *testing.T) {
	const lock, left = "rank.lock", "rank.left"
	judgeTwins(t, "two-locks-later", []twin{
		{"two threads that take two locks", func([]scene.Scene, *scene.Proc, *scene.Proc) {}, lock, verdict.Certain},
		{"a thread reads", func(_ []scene.Scene, _, p *scene.Proc) {
			addThread(p, scene.Thread{Name: "python", Wchan: "wait_woken"})
		}, left, verdict.Certain},
		{"a thread takes the next item within a time", func(_ []scene.Scene, _, p *scene.Proc) {
			addThread(p, scene.Thread{Name: "python", Wchan: "futex_do_wait", Timed: true})
		}, left, verdict.Certain},
		{"another process may let it go", func(_ []scene.Scene, _, p *scene.Proc) {
			addThread(p, scene.Thread{Name: "python", Wchan: "futex_do_wait", Shared: true})
		}, left, verdict.Certain},
		{"it waits for a collective that it has begun", func(_ []scene.Scene, _, p *scene.Proc) {
			addThread(p, scene.Thread{Name: "pt_gloo_runloop", Wchan: "futex_do_wait", Timed: true})
		}, "collective.mismatch", verdict.Likely},
		{"it waits for threads of torch", func(_ []scene.Scene, _, p *scene.Proc) {
			p.Stacks[0].Frames = append([]string{"_engine_run_backward (torch/autograd/graph.py:829)"}, p.Stacks[0].Frames...)
		}, left, verdict.Certain},
		{"it computes", func(_ []scene.Scene, _, p *scene.Proc) { p.Moved.CPU = time.Second }, "rank.working",
			verdict.Certain},
	})
}

// A rank that waits for an item of a queue waits for what fills it, and takes no locks in another order.
func TestAQueueThatNoThreadFills(t *testing.T) {
	const locks, queue = "take the same locks", "fills or empties that queue"
	for frame, want := range map[string]string{"": locks, "get (queue.py:171)": queue, "get (my_queue.py:7)": locks,
		"get (multiprocessing/queues.py:103)": queue} {
		all := readGolden(t, "testdata/scenes/two-locks-later.json.gz")
		for i := range all {
			for _, p := range all[i].Procs {
				if p.Env["RANK"] == "1" && frame != "" {
					p.Stacks[0].Frames = append([]string{"Condition.wait (threading.py:327)", frame}, p.Stacks[0].Frames...)
				}
			}
		}
		if v := Judge(all)[0].Why[0]; v.Cause != "rank.lock" || !strings.Contains(v.Do, want) {
			t.Errorf("%q: %+v", frame, v)
		}
	}
}

// polls makes a rank sleep and wake, whose last packet on its connections was sent before some time.
func polls(all []scene.Scene, p *scene.Proc, before time.Duration) {
	p.Syscall, p.Moved.Switches = &scene.Syscall{Name: "clock_nanosleep", FD: -1}, 50
	for i, k := range all[1].Sockets {
		if k.PID == p.PID && k.Info != nil && k.Info.Sent > 0 {
			all[1].Sockets[i].Info.LastSent = max(before, k.Info.LastSent)
			if k.Remote.Port() == 29500 {
				all[1].Sockets[i].Info.LastSent = before
			}
		}
	}
}

// To make a group is a collective: a rank that does so waits for the others.
func TestARankThatMakesAGroupIsInACollective(t *testing.T) {
	const mismatch = "collective.mismatch"
	maker := func(p *scene.Proc, name string) {
		p.Stacks[0].Frames = []string{"_new_group_with_tag (torch/distributed/distributed_c10d.py:7270)",
			"new_group (torch/distributed/distributed_c10d.py:7137)", name + " (torch/distributed/device_mesh.py:1)",
			"<module> (train.py:9)"}
	}
	judgeTwins(t, "group-mismatch", []twin{
		{"one rank makes a group", func([]scene.Scene, *scene.Proc, *scene.Proc) {}, mismatch, verdict.Certain},
		{"one rank makes a mesh", func(_ []scene.Scene, p, _ *scene.Proc) { maker(p, "init_device_mesh") }, mismatch,
			verdict.Certain},
		{"two ranks do, perhaps one group", func(_ []scene.Scene, p, q *scene.Proc) { q.Stacks = p.Stacks }, mismatch,
			verdict.Likely},
		{"all do", func(all []scene.Scene, p, q *scene.Proc) {
			for i := range all {
				for j := range all[i].Procs {
					if all[i].Procs[j].Role == scene.Rank {
						all[i].Procs[j].Stacks = p.Stacks
					}
				}
			}
		}, "", ""},
		{"it gets no answer from another rank", func(all []scene.Scene, p, _ *scene.Proc) {
			all[0].Sockets = append(all[0].Sockets, scene.Socket{PID: p.PID, State: "syn-sent", Local: netip.MustParseAddrPort(
				"10.66.0.1:40000"), Remote: netip.MustParseAddrPort("10.66.0.2:41000"), Info: &scene.Info{Retrans: 4}})
		}, "mesh.dropped", verdict.Likely},
	})
	all := readGolden(t, "testdata/scenes/group-mismatch.json.gz")
	if do := Judge(all)[0].Why[0].Do; do == Causes()[0].Do || do != "all ranks of the job must make the same groups in "+
		"the same order, each with the same list of ranks" {
		t.Errorf("fix: %s", do)
	}
	if do := Judge(all[1:2])[0].Why[0].Do; do == "" || do[:7] == "install" {
		t.Errorf("py-spy is there, and the fix is %q", do)
	}
}

// What a companion has found of a path counts, also where launch doctor itself sees less.
func TestWhatACompanionHasFoundOfAPathCounts(t *testing.T) {
	all := readGolden(t, "testdata/scenes/mtu-later.json.gz")
	a := Judge(all)[0]
	if len(a.Why) != 1 || a.Why[0].Cause != "path.mtu" || a.Why[0].Sure != verdict.Certain {
		t.Errorf("with its calls: %+v", a.Why)
	}
	for i := range all {
		all[i].Paths = nil
	}
	if a = Judge(all)[0]; len(a.Why) < 2 || a.Why[0].Cause != "path.lost" || a.Why[0].Sure != verdict.Likely {
		t.Errorf("without: %+v", a.Why)
	}
}

// A file system that answers is slow, also where two looks see nothing. One that does not is certain after a while.
func TestASlowFileSystemIsNoDeadOne(t *testing.T) {
	stuck := func(all []scene.Scene, p *scene.Proc, past ...scene.Act) {
		p.Moved = scene.Moved{}
		for i := range p.Files {
			p.Files[i].Moved = false
		}
		for i := range all {
			if len(all[i].Past) > 0 {
				all[i].Past = nil
			}
			if slices.ContainsFunc(all[i].Procs, func(q scene.Proc) bool { return q.PID == p.PID && q.Env["RANK"] == "1" }) {
				all[i].Past = []scene.Past{{PID: p.PID, Over: time.Minute, Acts: past}}
			}
		}
	}
	ago := func(seconds, read int64) scene.Act {
		return scene.Act{Ago: time.Duration(seconds) * time.Second, Read: read, Wakes: 9}
	}
	const storage, working = "rank.storage", "rank.working"
	judgeTwins(t, "slow-read-later", []twin{
		{"it reads during the look", func([]scene.Scene, *scene.Proc, *scene.Proc) {}, working, verdict.Likely},
		{"it goes on during the look, and no read has ended", func(all []scene.Scene, _, p *scene.Proc) {
			stuck(all, p)
			p.Moved.Switches = 4
		}, working, verdict.Likely},
		{"it has read 12 s before, as 12 s before that", func(all []scene.Scene, _, p *scene.Proc) {
			stuck(all, p, ago(24, 1<<20), ago(12, 1<<20))
		}, working, verdict.Likely},
		{"it has read nothing since the others wait", func(all []scene.Scene, _, p *scene.Proc) {
			stuck(all, p, ago(58, 1<<30))
		}, storage, verdict.Certain},
		{"it may wait for one answer only", func(all []scene.Scene, _, p *scene.Proc) {
			stuck(all, p, ago(4, 1<<20))
			for i := range all {
				for j, k := range all[i].Sockets {
					if k.Info != nil {
						all[i].Sockets[j].Info.LastSent, all[i].Sockets[j].Info.LastRecv = 9*time.Second, 9*time.Second
					}
				}
			}
		}, storage, verdict.Likely},
		{"it is not known what it did before", func(all []scene.Scene, _, p *scene.Proc) {
			stuck(all, p)
			for i := range all {
				all[i].Past = nil
			}
		}, storage, verdict.Likely},
	})
}

// A rank that tries again and again does move, and what it names may say why.
func TestARankThatTriesAgain(t *testing.T) {
	judgeTwins(t, "stale-later", []twin{
		{"a path gives an error", func([]scene.Scene, *scene.Proc, *scene.Proc) {}, "rank.storage", verdict.Likely},
		{"it sleeps for long", func(_ []scene.Scene, _, p *scene.Proc) { p.Moved.Switches = 0 }, "rank.left",
			verdict.Likely}, // its companion has seen it go on
		{"it computes", func(_ []scene.Scene, _, p *scene.Proc) { p.Moved.CPU = time.Second }, "rank.working",
			verdict.Certain},
		{"a file system is full", func(_ []scene.Scene, _, p *scene.Proc) {
			p.Broken = []scene.Broken{{Path: "/ckpt", Mount: "/ckpt", Type: "tmpfs", Err: "ENOSPC"}}
		}, "rank.storage", verdict.Likely},
		{"all paths are sound", func(_ []scene.Scene, _, p *scene.Proc) { p.Broken = nil }, "rank.left", verdict.Likely},
	})
	all := readGolden(t, "testdata/scenes/stale-later.json.gz")
	for i := range all {
		for j := range all[i].Procs {
			all[i].Procs[j].Broken = nil
		}
	}
	says := Judge(all)[0].Why[0].Says
	if strings.Contains(says, "does not move") || !strings.Contains(says, "sleeps and wakes in batch") {
		t.Error(says)
	}
}

// A frozen process looks as if it waited for a disk: all its threads are in state D.
func TestAFrozenRankWaitsForNoFileSystem(t *testing.T) {
	threads := func(p *scene.Proc, state string) {
		p.State = state
		for i := range p.Threads {
			p.Threads[i].State = state
		}
	}
	hidden := func(p *scene.Proc) { p.Frozen = false }
	const frozen, storage = "rank.frozen", "rank.storage"
	judgeTwins(t, "frozen-later", []twin{
		{"version 1", func([]scene.Scene, *scene.Proc, *scene.Proc) {}, frozen, verdict.Certain},
		{"its group is not visible", func(_ []scene.Scene, _, p *scene.Proc) { hidden(p) }, frozen, verdict.Certain},
		{"version 2", func(_ []scene.Scene, _, p *scene.Proc) {
			threads(p, "S")
			p.Frozen, p.Wchan, p.Freezer = true, "do_freezer_trap", "fs/cgroup/job/cgroup.freeze"
		}, frozen, verdict.Certain},
		{"it waits for a disk", func(_ []scene.Scene, _, p *scene.Proc) {
			hidden(p)
			p.Wchan = "io_schedule"
		}, storage, verdict.Certain},
		{"it is thawed", func(_ []scene.Scene, _, p *scene.Proc) {
			threads(p, "S")
			hidden(p)
		}, "rank.left", verdict.Certain},
	})
	all := readGolden(t, "testdata/scenes/frozen-later.json.gz")
	if v := Judge(all)[0].Why[0]; !strings.HasPrefix(v.Do, "echo THAWED > /sys/fs/cgroup/freezer/job-n1/freezer.state ") {
		t.Errorf("fix: %s", v.Do)
	}
	for i := range all {
		for j, p := range all[i].Procs {
			switch {
			case p.Role == scene.Rank:
				all[i].Procs[j].Frozen, all[i].Procs[j].State = false, "S"
			case p.Role == scene.Agent && all[i].Host == "node-0":
				all[i].Procs[j].Frozen, all[i].Procs[j].Freezer = true, "fs/cgroup/job/cgroup.freeze"
			}
		}
	}
	if v := Judge(all)[0].Why[0]; v.Cause != "store.stopped" || !strings.HasPrefix(v.Do, "echo 0 > /sys/fs/cgroup/job/") {
		t.Errorf("torchrun: %+v", v)
	}
}

// A rank that waits for a name server waits for what is outside of the job. One that gets answers goes on.
func TestARankThatAsksANameServer(t *testing.T) {
	const ask, answers = "it waits for an answer of the name server 10.66.0.53", ""
	for _, tt := range []struct {
		name     string
		asks     string
		switches int64
		want     string
	}{
		{"no answer", "10.66.0.53:53", 0, ask}, {"it asks again", "10.66.0.53:53", 2, ask},
		{"answers", "10.66.0.53:53", 90, answers}, {"another service", "10.66.0.53:123", 0, answers},
	} {
		all := readGolden(t, "testdata/scenes/prompt-later.json.gz")
		for i := range all {
			for j := range all[i].Procs {
				if p := &all[i].Procs[j]; p.Env["RANK"] == "1" {
					p.Moved.Switches, p.Wchan = tt.switches, "poll_schedule_timeout"
					p.Syscall = &scene.Syscall{Name: "poll", Limit: 5 * time.Second, FD: 9, Socket: 77,
						Asks: netip.MustParseAddrPort(tt.asks)}
				}
			}
		}
		a := Judge(all)[0]
		if len(a.Why) == 0 || a.State != verdict.Open || a.Why[0].Cause != "rank.left" || a.Certain() ||
			a.Why[0].Blocked != (tt.want != "") || !strings.HasSuffix(a.Why[0].Says, tt.want) {
			t.Errorf("%s: %s, %+v", tt.name, a.State, a.Why)
		}
	}
}

// A file system that a backup has frozen answers no write. A disk that completes what others have asked for is slow.
func TestARankThatWaitsToWrite(t *testing.T) {
	of := func(wchan string, c scene.Syscall) func([]scene.Scene, *scene.Proc, *scene.Proc) {
		return func(_ []scene.Scene, _, p *scene.Proc) { p.Frozen, p.Wchan, p.Syscall = false, wchan, &c }
	}
	at := func(name string, served bool) scene.Syscall {
		return scene.Syscall{Name: name, Path: "/mnt/ckpt/step 5", Mount: "/mnt/ckpt", Type: "ext4", Served: served}
	}
	const storage = "rank.storage"
	judgeTwins(t, "frozen-later", []twin{
		{"its file system is frozen", of("percpu_rwsem_wait", at("openat", false)), storage, verdict.Certain},
		{"and another one on that disk is not", of("percpu_rwsem_wait", at("write", true)), storage, verdict.Certain},
		{"it starts a process", of("percpu_rwsem_wait", scene.Syscall{Name: "clone"}), storage, verdict.Likely},
		{"another place in the kernel", of("rwsem_down_write_slowpath", at("rename", false)), storage, verdict.Certain},
		{"fsync, and the disk does nothing", of("jbd2_log_wait_commit", at("fsync", false)), storage, verdict.Certain},
		{"fsync, and the disk works", of("jbd2_log_wait_commit", at("fsync", true)), "rank.working", verdict.Likely},
	})
	all := readGolden(t, "testdata/scenes/frozen-later.json.gz")
	for i := range all {
		for j := range all[i].Procs {
			if p := &all[i].Procs[j]; p.Env["RANK"] == "1" {
				of("percpu_rwsem_wait", at("openat", false))(nil, nil, p)
			}
		}
	}
	v := Judge(all)[0].Why[0]
	if !strings.Contains(v.Says, "to write to the file system of /mnt/ckpt/step 5 (ext4), which is frozen") ||
		!strings.HasPrefix(v.Do, "fsfreeze -u /mnt/ckpt   # on node-1") {
		t.Errorf("%+v", v)
	}
}

// The doctor calls hung what is reported after two looks: only a person or a program outside the job can end it.
func TestARankThatAsksSomebodyHangs(t *testing.T) {
	for _, tt := range []struct {
		name string
		fd   int
		want verdict.State
	}{
		{"read", 0, verdict.Hung}, {"write", 2, verdict.Hung}, {"flock", 5, verdict.Open}, {"read", 7, verdict.Open},
	} {
		all := readGolden(t, "testdata/scenes/prompt-later.json.gz")
		for i := range all {
			for j, p := range all[i].Procs {
				if p.Env["RANK"] == "1" {
					all[i].Procs[j].Syscall = &scene.Syscall{Name: tt.name, FD: tt.fd}
				}
			}
		}
		if a := Judge(all)[0]; a.State != tt.want {
			t.Errorf("%s(%d): %s, %+v", tt.name, tt.fd, a.State, a.Why)
		}
	}
}

// Of several file systems that are full, which one a rank writes to is not seen: all are shown.
func TestAllFileSystemsThatAreFull(t *testing.T) {
	s := envScene()
	p := trainingRank(12, "2", "sleep (train.py:5)", "<module> (train.py:7)")
	p.State, p.Syscall, p.Moved.Switches = "S", &scene.Syscall{Name: "nanosleep", FD: -1}, 20
	p.Broken = []scene.Broken{{Path: "/boot", Type: "ext4", Err: "ENOSPC"}, {Path: "/ckpt", Type: "tmpfs", Err: "ENOSPC"}}
	c, ok := new(view).broken(&seat{rank: 2, proc: &p, node: &node{scene: &s}})
	var seen []string
	for _, w := range c.Seen {
		seen = append(seen, w.Where)
	}
	if !ok || c.Sure != verdict.Likely || !slices.Contains(seen, "statfs /boot") ||
		!slices.Contains(seen, "statfs /ckpt") {
		t.Errorf("%v: %+v", ok, c.Seen)
	}
}
