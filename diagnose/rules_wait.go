package diagnose

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"launch/diagnose/scene"
)

// ownProcess recognises a rank that waits for processes of its own that cannot do anything any more, or for
// events that nothing can send.
func (v *view) ownProcess(s *seat) (claim, bool) {
	if s.phase != before && s.phase != inside || v.outOfInit(s) {
		return claim{}, false
	}
	main, known := mainWait(s.proc)
	if !known || main.On == scene.OnLock && !ownWait(s.proc) { // torch's own code waits for other ranks, too
		return claim{}, false
	}
	t := v.follow(s)
	if !t.closed() {
		return claim{}, false
	}
	id, what, do := t.why()
	if id == "" {
		return claim{}, false
	}
	c := about(id, t.sure(), s, what)
	if do != "" {
		c = c.do(do)
	}
	c = c.at(s)
	for _, p := range t.all {
		if w, ok := mainWait(p); ok && p != s.proc && w.On != "" {
			c = c.see(procPath(p, "syscall"), waitWords(w))
		}
	}
	return c, true
}

// onWords are what a thread waits for.
var onWords = map[scene.On]string{scene.OnLock: "a lock", scene.OnSemaphore: "a lock that processes share",
	scene.OnData: "data", scene.OnRoom: "a reader of its output", scene.OnChild: "the end of a child",
	scene.OnEvents: "events", scene.OnSignal: "a signal"}

// waitWords says what the main thread of a process does: "waits in libgomp.so.1 for a lock".
func waitWords(w scene.Wait) string {
	if w.In != "" {
		return "waits in " + w.In + " for " + onWords[w.On]
	}
	return "waits for " + onWords[w.On]
}

// why returns the cause of a trail that is closed, its sentence, and what to do; "": launch knows no cause.
func (t *trail) why() (id, what, do string) {
	main, _ := mainWait(t.rank.proc)
	dead := t.dead()
	if p, in := t.forked(); p != nil && (dead == nil || in != "") {
		return "rank.child", t.way(p) + fmt.Sprintf("waits%s for a thread that it does not have: only the thread that "+
				"forked it was copied", in), "start that process with \"spawn\" or \"forkserver\" " +
				"(multiprocessing.get_context, multiprocessing_context of a DataLoader), or before any other thread"
	}
	if dead != nil {
		return "rank.child", t.wayToDead(dead), deadFix(dead, t.rank.node)
	}
	if p := t.full(); p != nil {
		return "rank.child", t.way(p) + "waits until the rank reads what it writes", "read the output of that program " +
			"while it runs, as subprocess.run and communicate() do, or send it to a file: wait() reads nothing, and a pipe " +
			"has 64 KiB"
	}
	switch {
	case main.On == scene.OnEvents && len(t.all) == 1:
		return "rank.events", "waits in an event loop for what nothing can send: its set of files has only its own ends", ""
	case main.On == scene.OnData && len(t.all) == 1:
		return "rank.child", "waits for data of a pipe or socket of which no other process has an end open", "the process " +
			"that had it open has ended: look for its error in what the rank has printed; close the rank's own copy of that " +
			"end, so that reading fails then"
	case main.On == scene.OnSemaphore && len(t.all) == 1:
		return "rank.child", "waits for a lock or queue that processes share, and no other process has it any more", ""
	case len(t.all) > 1 && t.back:
		p := t.all[1]
		return "rank.child", "waits for " + nameOf(p, t.rank.proc) + ", which waits for the rank" + plural(t.all[1:]),
			"what one of them has sent was lost, or could not be sent: look for an error in what the rank has printed"
	}
	return "", "", ""
}

func plural(others []*scene.Proc) string {
	if len(others) > 1 {
		return fmt.Sprintf(", as do %d more of its processes", len(others)-1)
	}
	return ""
}

// forked returns a process other than the rank that waits for a lock of its own, and has one thread alone; and in
// which library, as " in libgomp.so.1".
func (t *trail) forked() (p *scene.Proc, in string) {
	p = find(t.all, func(p *scene.Proc) bool {
		w, ok := mainWait(p)
		return ok && p != t.rank.proc && w.On == scene.OnLock && !w.Timed && len(p.Waits) == 1 && w.Count == 1 && t.byData(p)
	})
	if p != nil && p.Waits[0].In != "" {
		in = " in " + p.Waits[0].In
	}
	return p, in
}

// dead returns a child of one of them that has ended, by a signal if there is such a one, where one of them waits for
// what another process does.
func (t *trail) dead() (out *scene.Proc) {
	if !slices.ContainsFunc(t.all, func(p *scene.Proc) bool {
		return slices.ContainsFunc(p.Waits, func(w scene.Wait) bool {
			return w.On == scene.OnSemaphore || w.On == scene.OnData || w.On == scene.OnRoom || w.On == scene.OnEvents
		})
	}) {
		return nil
	}
	for _, p := range t.rank.node.scene.Procs {
		parent := t.procs[p.Parent]
		is := p.State == "Z" && (p.Signal != "" || p.Status != 0) && slices.Contains(t.all, parent) &&
			(p.Comm == parent.Comm || strings.HasPrefix(p.Comm, "pt_")) // no program that it has started
		if is && (out == nil || out.Signal == "" && p.Signal != "") {
			out = t.procs[p.PID]
		}
	}
	return out
}

// full returns a process whose end another one waits for, and that waits until that one reads.
func (t *trail) full() *scene.Proc {
	return find(t.all, func(p *scene.Proc) bool {
		w, _ := mainWait(p)
		parent, _ := mainWait(t.rank.proc)
		return w.On == scene.OnRoom && slices.Contains(w.Ends, t.rank.proc.PID) && parent.On == scene.OnChild
	})
}

// way begins a sentence about a rank with the processes from it to one: "waits for its process 45 (python), which ".
func (t *trail) way(to *scene.Proc) string {
	var names []string
	for p := to; p != nil && p != t.rank.proc; p = t.from[p.PID] {
		names = append(names, nameOf(p, t.from[p.PID]))
	}
	slices.Reverse(names)
	if len(names) == 0 {
		return ""
	}
	return "waits for " + strings.Join(names, ", which waits for ") + ", which "
}

// wayToDead says how a rank waits for a process that has ended.
func (t *trail) wayToDead(p *scene.Proc) string {
	end := fmt.Sprintf("has ended with status %d", p.Status)
	if p.Signal != "" {
		end = "was killed by " + p.Signal
	}
	by := find(t.all, func(o *scene.Proc) bool {
		w, _ := mainWait(o)
		return o != t.rank.proc && w.On == scene.OnSemaphore
	})
	if main, _ := mainWait(t.rank.proc); main.On != scene.OnSemaphore && by != nil {
		return t.way(by) + fmt.Sprintf("waits for a lock or queue that it shared with process %d (%s), and that one %s",
			p.PID, p.Comm, end)
	}
	return "waits for " + nameOf(p, t.rank.proc) + ", which " + end
}

// deadFix says how to find out why a process has ended.
func deadFix(p *scene.Proc, n *node) string {
	if p.Signal == "SIGKILL" {
		return fmt.Sprintf("dmesg -T | grep -i kill   # on %s: was it out of memory? Then start the job again; a get() or "+
			"acquire() with a timeout lets a rank notice such an end", n.name)
	}
	return "look at the end of that process in what the rank has printed, and start the job again; a get() or acquire() " +
		"with a timeout lets a rank notice such an end"
}

// nameOf names a process that another one waits for.
func nameOf(p, by *scene.Proc) string {
	name := p.Comm
	script := len(p.Argv) > 1 && p.Argv[1] != "-c"
	if script && (by == nil || !slices.Equal(p.Argv, by.Argv)) { // not its fork
		if i := slices.IndexFunc(p.Argv[1:], func(a string) bool { return !strings.HasPrefix(a, "-") }); i >= 0 {
			name += " " + path.Base(p.Argv[1+i])
		}
	}
	if by != nil && p.Parent == by.PID {
		return fmt.Sprintf("its child process %d (%s)", p.PID, name)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, name)
}

// outside says what outside the job a rank waits for, or one of its processes that it waits for; "": not seen. lasts:
// that gives no answer.
func (t *trail) outside() (what, do string, lasts bool) {
	for _, p := range t.all {
		if !t.byData(p) || works(p.Moved, t.rank.node.scene.Span) {
			continue
		}
		it := "it "
		if p != t.rank.proc {
			it = "it " + t.way(p)
		}
		if k, certain := t.unanswered(p); k != nil {
			return fmt.Sprintf("%sgets no answer from %s", it, k.Remote), fmt.Sprintf("is %s right, and does a firewall or "+
				"proxy let this node reach it? nc -vz %s %d   # on %s", k.Remote, k.Remote.Addr(), k.Remote.Port(),
				t.rank.node.name), certain
		}
		if is, fix := t.v.blocked(t.rank.node, p); is != "" && p != t.rank.proc {
			return it + strings.TrimPrefix(is, "it "), fix, true
		}
		if k := t.asked(p); k != nil {
			at := t.v.place(t.rank.node, *k)
			return fmt.Sprintf("%swaits for an answer from %s", it, at), fmt.Sprintf("look at what runs at %s, or set "+
				"a time limit for that request", at), false
		}
	}
	if by, pid := t.stranger(); pid != 0 {
		it := "it "
		if by != t.rank.proc {
			it += t.way(by)
		}
		return fmt.Sprintf("%swaits for process %d, which is not of the job", it, pid), fmt.Sprintf("look at what that "+
			"process does: ps -fp %d   # on %s", pid, t.rank.node.name), false
	}
	if p := find(t.all, func(p *scene.Proc) bool { return p != t.rank.proc && t.byData(p) }); p != nil {
		what = "it waits for " + nameOf(p, t.rank.proc)
		if c := p.Syscall; c != nil && p.Moved.Switches > 0 && (c.Name == "nanosleep" || c.Name == "clock_nanosleep") {
			what += ", which does no more than sleep and wake, as a loop that tries something again"
		}
		return what, fmt.Sprintf("look at what that process does: py-spy dump --nonblocking --pid %d   # on %s", p.PID,
			t.rank.node.name), false
	}
	return "", "", false
}

// byData reports whether a process is the rank, or on a way of pipes, sockets and ends of children from it. A shared
// lock doesn't say which process has it.
func (t *trail) byData(p *scene.Proc) bool {
	for ; p != t.rank.proc; p = t.from[p.PID] {
		by := t.from[p.PID]
		if by == nil || !slices.ContainsFunc(by.Waits, func(w scene.Wait) bool { return slices.Contains(w.Ends, p.PID) }) {
			return false
		}
	}
	return true
}

// unanswered returns a connection of a process, not to a store or node of the job, that gets no answer; certain: its
// main thread waits for that one. Another thread may need it for something else, so it must then be the only one.
func (t *trail) unanswered(p *scene.Proc) (k *scene.Socket, certain bool) {
	k = t.socket(func(k scene.Socket) bool {
		return k.PID == p.PID && k.Unanswered() && p.Syscall != nil && p.Syscall.Socket == k.Inode && k.Inode != 0
	})
	if k != nil || t.socket(func(k scene.Socket) bool { return k.PID == p.PID && k.State == "established" }) != nil {
		return k, k != nil
	}
	return t.socket(func(k scene.Socket) bool { return k.PID == p.PID && k.Unanswered() }), false
}

// still reports whether no thread of a process that the rank waits for has gone on during the look.
func (t *trail) still() bool {
	return find(t.all, func(p *scene.Proc) bool { return p != t.rank.proc && !p.Still }) == nil
}

// stranger returns a process of the job whose main thread waits for the other end of a pipe or unix socket that only
// processes outside the job have, and the first of these; 0: there is no such process. Where it has that end itself,
// they may have inherited it, as a daemon does.
func (t *trail) stranger() (by *scene.Proc, pid int) {
	for _, p := range t.all {
		w, _ := mainWait(p)
		ofJob := slices.ContainsFunc(w.Ends, func(e int) bool { return t.procs[e] != nil })
		if (w.On == scene.OnData || w.On == scene.OnRoom) && !w.Own && len(w.Ends) > 0 && !ofJob && t.byData(p) {
			return p, w.Ends[0]
		}
	}
	return nil, 0
}

// asked returns the connection from which the main thread of a process waits for data.
func (t *trail) asked(p *scene.Proc) *scene.Socket {
	c := p.Syscall
	if c == nil || c.Socket == 0 || !slices.Contains([]string{"poll", "ppoll", "read", "recvfrom", "recvmsg"}, c.Name) {
		return nil
	}
	all := t.rank.node.scene.Sockets
	i := slices.IndexFunc(all, func(k scene.Socket) bool {
		return k.PID == p.PID && k.Inode == c.Socket && k.State == "established" && t.v.ofOthers(t.rank.node, k)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (t *trail) socket(f func(scene.Socket) bool) *scene.Socket {
	n := t.rank.node
	for i, k := range n.scene.Sockets {
		ofJob := slices.ContainsFunc(t.v.nodes, func(o *node) bool { return o.isAt(k.Remote.Addr().Unmap()) })
		if !ofJob && !t.v.isStore(n, k) && !k.Remote.Addr().IsLoopback() && f(k) {
			return &n.scene.Sockets[i]
		}
	}
	return nil
}
