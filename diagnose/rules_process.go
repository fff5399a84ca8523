package diagnose

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// processes judges each process of the job by what can be seen of it alone.
func (v *view) processes() (out []claim) {
	for _, a := range v.agents {
		is, do := halted(a.proc, a.node)
		if is == "" {
			continue
		}
		says := fmt.Sprintf("torchrun of %s (pid %d) %s", a.node.name, a.proc.PID, is)
		c := claimed("agent.stopped", verdict.Certain, says)
		if v.hostsStore(a) {
			c = claimed("store.stopped", verdict.Certain, says+"; it hosts the job's store, so all ranks wait")
		}
		c = c.of(v.ranksOf(a.node), a.node).to(a.node, a.proc)
		if c = c.see(procPath(a.proc, "status"), "State "+a.proc.State); do != "" {
			c = c.do(do)
		}
		out = append(out, c)
	}
	for _, s := range v.seats {
		if c, ok := v.process(s); ok {
			out = append(out, c)
		}
	}
	return out
}

// known returns the rank of a process, if it has a number.
func (v *view) known(s *seat) []int {
	if s.rank < 0 {
		return nil
	}
	return []int{s.rank}
}

// who names a rank with its node and process.
func (s *seat) who() string {
	if s.rank < 0 {
		return fmt.Sprintf("a rank of %s (pid %d)", s.node.name, s.proc.PID)
	}
	return fmt.Sprintf("rank %d (%s, pid %d)", s.rank, s.node.name, s.proc.PID)
}

func procPath(p *scene.Proc, file string) string { return fmt.Sprintf("/proc/%d/%s", p.PID, file) }

// stopped says what a process in state T is.
const stopped = "is stopped (state T: SIGSTOP, SIGTSTP, or a terminal's job control)"

// traced reports whether a debugger holds a process.
func traced(p *scene.Proc) bool {
	return p.State == "t" || p.Tracer != 0 && strings.HasPrefix(p.Wchan, "ptrace_stop")
}

// halted says that a process does not run until another one lets it, and what to do, if that is not to continue it;
// "": it may run.
func halted(p *scene.Proc, n *node) (is, do string) {
	if frozen(p) {
		return thaw(p, n)
	}
	if p.State == "T" || traced(p) {
		return stopped, ""
	}
	return "", ""
}

// frozen reports whether the freezer of a control group holds a process: its files say so, or all its threads are in
// state D and have not run, the main one where a thread that runs sleeps in another state.
func frozen(p *scene.Proc) bool {
	if p.Frozen {
		return true
	}
	freezer := func(w string) bool { return w == "do_freezer_trap" || w == "__refrigerator" }
	sleeps := func(w string) bool {
		return slices.ContainsFunc([]string{"hrtimer_nanosleep", "futex", "do_epoll_wait", "ep_poll", "do_poll",
			"poll_schedule", "do_select", "do_wait"}, func(b string) bool { return strings.HasPrefix(w, b) })
	}
	return freezer(p.Wchan) || p.State == "D" && sleeps(p.Wchan) && p.Moved.Switches == 0 &&
		!slices.ContainsFunc(p.Threads, func(t scene.Thread) bool { return t.State != "D" })
}

// thaw says that a process is frozen, and what thaws it.
func thaw(p *scene.Proc, n *node) (is, do string) {
	dir, file := path.Split(p.Freezer)
	if file == "" || !p.Frozen && (file == "freezer.state") == (p.Wchan == "do_freezer_trap") {
		return "is frozen by the freezer of its control group", fmt.Sprintf("cat /proc/%d/cgroup   # on %s: which of these "+
			"groups, or of those above, is frozen? cgroup.freeze 1, or freezer.state FROZEN", p.PID, n.name)
	}
	value := "0"
	if file == "freezer.state" {
		value = "THAWED"
	}
	is = "is frozen by its control group /sys/" + path.Clean(dir)
	return is, fmt.Sprintf("echo %s > /sys/%s   # on the host of %s; docker unpause of a container", value, p.Freezer,
		n.name)
}

// process judges one rank.
func (v *view) process(s *seat) (claim, bool) {
	p := s.proc
	switch {
	case p.Dumping:
		return s.dumps(), true
	case frozen(p):
		is, do := thaw(p, s.node)
		return about("rank.frozen", verdict.Certain, s, is).do(do).
			see(procPath(p, "wchan"), strings.TrimSpace(p.State+" "+p.Wchan)), true
	case traced(p):
		by := "is held by a debugger"
		if p.Tracer > 0 { // else it is in another PID namespace
			by = fmt.Sprintf("is held by a debugger (pid %d)", p.Tracer)
		}
		return about("rank.traced", verdict.Certain, s, by).
			see(procPath(p, "status"), "State "+p.State), true
	case p.State == "T" && p.Background && p.Syscall != nil && p.Syscall.Terminal:
		return about("rank.stopped", verdict.Certain, s, "is stopped: its command is in the background of a terminal, and "+
			"it uses that terminal (SIGTTIN, SIGTTOU)").do("in that terminal: fg   # kill -CONT stops it again; or start the "+
			"command with </dev/null, and without a prompt").see(procPath(p, "stat"),
			"its terminal has another group of processes in the foreground").at(s), true
	case p.State == "T":
		return about("rank.stopped", verdict.Certain, s, stopped).see(procPath(p, "status"), "State "+p.State), true
	}
	if p.State == "D" && strings.HasPrefix(p.Wchan, "kernel_clone") && !works(p.Moved, s.node.scene.Span) {
		return about("rank.vfork", verdict.Certain, s, "waits for a child that it made with vfork").
			see(procPath(p, "wchan"), p.Wchan), true
	}
	if strings.HasPrefix(p.Wchan, "mem_cgroup_oom") && !works(p.Moved, s.node.scene.Span) {
		return about("rank.memory", verdict.Certain, s, "waits for memory: its control group is full, and nothing there is "+
			"killed").see(procPath(p, "wchan"), p.Wchan), true
	}
	if c, ok := v.storage(s); ok {
		return c, true
	}
	if c, ok := v.withoutGIL(s); ok {
		return c, true
	}
	if c, ok := v.failed(s); ok {
		return c, true
	}
	if v.stalls(s) {
		if c, ok := v.inWorker(s); ok {
			return c, true
		}
	}
	if c, ok := v.ownProcess(s); ok {
		return c, true
	}
	return v.locked(s)
}

// dumps says that a rank has crashed, and does not end before its core is written: its connections are open till then.
func (s *seat) dumps() claim {
	p := s.proc
	is := "has crashed, and the kernel writes its core"
	if waits, _ := atStorage(p); waits && p.Moved.Switches == 0 {
		is += ", and waits for the file system of that"
	}
	return about("rank.failed", verdict.Certain, s, is).do(fmt.Sprintf("cat /proc/sys/kernel/core_pattern; readlink "+
		"/proc/%d/cwd   # on %s: where the core goes; look at that file system\nstart the job again, with ulimit -c 0 if no "+
		"core is needed", p.PID, s.node.name)).see(procPath(p, "status"), "CoreDumping 1")
}

// failed recognises a rank whose script is over while a thread keeps the process.
func (v *view) failed(s *seat) (claim, bool) {
	p := s.proc
	main := mainStack(p)
	if leftScript(s) {
		return v.remains(s), true
	}
	if main != nil || v.outOfInit(s) || s.phase != before && s.phase != inside || works(p.Moved, s.node.scene.Span) {
		return claim{}, false
	}
	if e := lastError(p); e != "" {
		return about("rank.failed", verdict.Likely, s, "has failed with "+e+", and does not end"), true
	}
	return claim{}, false
}

// remains says that a rank has left its script while a thread prevents the end of the process. A thread that does its
// work, as an upload, may still end, and so may all that have left their scripts. One that waits for another thread
// does not.
func (v *view) remains(s *seat) claim {
	p := s.proc
	sure := verdict.Certain
	if !asleep(p) && !slices.ContainsFunc(v.seats, func(o *seat) bool { return !leftScript(o) }) ||
		slices.ContainsFunc(p.Stacks, doesWork) {
		sure = verdict.Likely
	}
	var threads []finding.Seen
	thread := ""
	for _, t := range p.Stacks {
		if t.Thread != "MainThread" && len(t.Frames) > 0 {
			thread = "its thread " + t.Thread + ownLine(&t) + ", which remains"
			threads = append(threads, finding.Seen{Where: "py-spy", What: "thread " + t.Thread + " in " + line(&t)})
		}
	}
	if len(threads) != 1 {
		thread = "a thread that remains"
	}
	c := about("rank.thread", sure, s, "has left its script, and waits for "+thread)
	if e := lastError(p); e != "" {
		c = about("rank.failed", sure, s, "has failed with "+e+", and does not end: a thread remains")
	}
	c.Seen = threads
	return c
}

// asleep reports whether all threads of a rank that has left its script wait for others of these, without a time limit.
func asleep(p *scene.Proc) bool {
	return len(p.Waits) > 1 && !slices.ContainsFunc(p.Waits, func(w scene.Wait) bool {
		return !w.Main && !ofLibrary(scene.Thread{Name: w.Thread}) && (w.On != scene.OnLock || w.Timed)
	})
}

// ownLine returns the innermost frame of a thread outside of Python's own library, as " at work (train.py:7)".
func ownLine(t *scene.Stack) string {
	if i := slices.IndexFunc(t.Frames, func(f string) bool { return !startsWith(where(f), local) }); i >= 0 {
		return " at " + t.Frames[i]
	}
	return ""
}

// leftScript reports whether a rank's main thread waits for other threads at the end of the process.
func leftScript(s *seat) bool {
	main := mainStack(s.proc)
	return main != nil && slices.ContainsFunc(main.Frames, func(f string) bool {
		return strings.HasPrefix(f, "_shutdown (threading.py")
	})
}

// doesWork reports whether a thread other than the main one is elsewhere than in a wait of Python's own.
func doesWork(t scene.Stack) bool {
	if t.Thread == "MainThread" || len(t.Frames) == 0 {
		return false
	}
	_, where, _ := strings.Cut(t.Frames[0], " (")
	return !strings.HasPrefix(where, "threading.py:") && !strings.HasPrefix(where, "queue.py:")
}

// failedInits recognises ranks whose init_process_group has failed, and whose process remains.
func (v *view) failedInits() (out []claim) {
	for _, s := range v.seats {
		if !v.outOfInit(s) {
			continue
		}
		what := "has published its address, and has failed in init_process_group; its process remains"
		if e := lastError(s.proc); e != "" {
			what = "has failed in init_process_group with " + e + "; its process remains"
		} else if v.board != nil && v.board.Ended > 0 {
			continue // ranks of another node have ended well: this one has left the group after its work
		}
		out = append(out, about("rank.failed", verdict.Certain, s, what).
			see("store", fmt.Sprintf("/default_pg/0//cpu//0/%d is there, and no thread of Gloo", s.rank)))
	}
	return out
}

// lastError returns the exception at the end of what a process has printed; "": it ended otherwise.
func lastError(p *scene.Proc) string {
	trace := slices.IndexFunc(p.Last, func(l string) bool {
		return strings.HasPrefix(l, "Traceback (most recent call last)") ||
			strings.Contains(l, "Traceback (most recent call last):")
	})
	if trace < 0 {
		return ""
	}
	for i := len(p.Last) - 1; i > trace; i-- {
		l := p.Last[i]
		name, _, _ := strings.Cut(l, ":")
		if !strings.HasPrefix(l, " ") && (strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception")) {
			return l
		}
	}
	return ""
}

// stalls reports whether a rank may be at fault for a wait: it has yet to join, or is in it, and does nothing.
func (v *view) stalls(s *seat) bool {
	return (s.phase == before || s.phase == inside) && !v.outOfInit(s) && !works(s.proc.Moved, s.node.scene.Span)
}

// locked recognises a rank all of whose threads wait for each other outside of torch.
func (v *view) locked(s *seat) (claim, bool) {
	p := s.proc
	if !v.stalls(s) {
		return claim{}, false
	}
	main := mainStack(p)
	if workers := v.lockedWorkers(s); workers > 0 {
		c := about("rank.lock", verdict.Likely, s, fmt.Sprintf(
			"waits for its DataLoader, whose %s on a lock", finding.Count(workers, "worker")+" wait"))
		c.Idle = v.looping(s)
		if main != nil {
			c = c.see("py-spy", line(main))
		}
		return c.do("a lock was held when the worker was forked: start workers with multiprocessing_context=\"spawn\" " +
			"or \"forkserver\""), true
	}
	if !waitsOnFutex(p) || s.phase == inside && !ownWait(p) {
		return claim{}, false
	}
	wait, _ := mainWait(p)
	if wait.Timed && s.phase == inside {
		return claim{}, false
	}
	timed, shared := wait.Timed, false
	for _, t := range p.Threads {
		switch {
		case s.phase == inside && ofLibrary(t) && (t.Name != "pt_gloo_runloop" || !t.Timed):
		case !strings.HasPrefix(t.Wchan, "futex") && t.Wchan != "", (t.Timed || t.Shared) && s.phase == inside:
			return claim{}, false // it runs, or may; a runloop of Gloo with a time limit is in a collective
		default:
			timed, shared = timed || t.Timed, shared || t.Shared
		}
	}
	return v.lockClaim(s, timed, shared), true
}

// lockClaim says that a rank waits for a lock; timed and shared: threads wait with a time limit, or for what other
// processes share.
func (v *view) lockClaim(s *seat, timed, shared bool) claim {
	p := s.proc
	main := mainStack(p)
	c := about("rank.lock", verdict.Possible, s, "waits for a lock before init_process_group")
	if s.phase == inside {
		c = about("rank.lock", verdict.Certain, s, "waits for a lock in its script, and no thread runs that could "+
			"release it").do("look at the lines of the stacks: two threads that take the same locks in another order, or " +
			"one that takes a lock twice")
	} else if main != nil {
		c.Sure = verdict.Certain
	}
	for i := range p.Stacks {
		if t := &p.Stacks[i]; t == main {
			c = c.see("py-spy", seatName(s)+" at "+line(t))
		} else {
			c = c.see("py-spy", "its thread "+t.Thread+" at "+line(t))
		}
	}
	if main != nil && slices.ContainsFunc(main.Frames, inQueue) {
		c.Do = "a thread or process that fills or empties that queue has ended, or was not started: look for its error in " +
			"what the rank has printed, and let an error there reach the main thread"
	}
	if timed {
		c.Sure = verdict.Possible
		c = c.see(procPath(p, "task/*/syscall"), "a thread waits with a time limit or handles a signal, and "+
			"may let the lock go")
	}
	if shared {
		c.Sure = verdict.Possible
		c = c.see(procPath(p, "task/*/syscall"), "a thread waits for what another process may let go")
	}
	return c
}

// inQueue reports whether a frame is in the wait of a queue, of threads or of processes.
func inQueue(frame string) bool {
	_, where, _ := strings.Cut(frame, " (")
	return strings.HasPrefix(where, "queue.py:") || strings.HasPrefix(where, "multiprocessing/queues.py:")
}

// ownWait reports whether the main thread waits in code that is not torch's: that waits for its own threads, of which
// no stack is seen, or for other ranks.
func ownWait(p *scene.Proc) bool {
	main := mainStack(p)
	return main != nil && len(main.Frames) > 0 && !strings.Contains(main.Frames[0], "torch/") && p.Syscall != nil
}

// ofLibrary reports whether a thread serves torch, NCCL or CUDA: it releases no lock of a script.
func ofLibrary(t scene.Thread) bool {
	return slices.ContainsFunc([]string{"gloo_tcp_loop", "pt_gloo_", "pt_nccl_", "pt_tcpstore", "pt_autograd", "NCCL ",
		"cuda"}, func(b string) bool { return strings.HasPrefix(t.Name, b) })
}

// lockedWorkers counts the DataLoader's workers below a rank, if all of them wait on a futex, without a time
// limit.
func (v *view) lockedWorkers(s *seat) (n int) {
	for _, p := range s.node.scene.Procs {
		if p.Role != scene.Child || p.Parent != s.proc.PID || p.Comm != scene.Worker {
			continue
		}
		if wait, _ := mainWait(&p); wait.Timed || !waitsOnFutex(&p) || works(p.Moved, s.node.scene.Span) {
			return 0
		}
		n++
	}
	return n
}
