package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

const (
	dnsPort = 53
	// fewAnswers is how often the main thread of a process may go on during a look, and count as one that a name server
	// lets wait: glibc asks again after 5 s, and sends two questions at once.
	fewAnswers = 4
)

// blocked returns what the kernel makes a process wait for, where its system call says so, and what to do; "": unknown.
func (v *view) blocked(n *node, p *scene.Proc) (what, do string) {
	if p.Syscall == nil {
		return "", ""
	}
	switch name, fd := p.Syscall.Name, p.Syscall.FD; {
	case p.Syscall.Asks.Port() == dnsPort && p.Moved.Switches <= fewAnswers:
		server := p.Syscall.Asks.Addr()
		return fmt.Sprintf("it waits for an answer of the name server %s", server),
			fmt.Sprintf("does it run, and is it reached? dig @%s localhost   # /etc/resolv.conf names the servers", server)
	case name == "read" && fd == 0:
		return "it waits for input", "start the command with </dev/null, or give its script an answer beforehand"
	case name == "write" && (fd == 1 || fd == 2):
		return "no program reads its output", "look at the program that reads its output: is it stopped, or its disk full?"
	case name == "flock" || name == "fcntl":
		return v.lockedFile(n, p)
	}
	return "", ""
}

// lockedFile says which file's lock a process waits for, and who has it. A process in another container, one of another
// node and one that has got the open file from another process are not seen.
func (v *view) lockedFile(n *node, p *scene.Proc) (what, do string) {
	file, network := "", false
	for _, f := range p.Files {
		if f.FD == p.Syscall.FD {
			file, network = f.Path, remote(f.Type)
		}
	}
	what, do = "it waits for a lock on "+cmp.Or(file, "a file"), "see who has it: lslocks"
	if o := p.Syscall.Owner; o != nil {
		by := fmt.Sprintf("process %d (%s)", o.PID, o.Comm)
		if i := slices.IndexFunc(v.seats, func(s *seat) bool { return s.node == n && s.proc.PID == o.PID }); i >= 0 {
			by = v.seats[i].who()
		}
		return what + ", which " + by + " has", fmt.Sprintf("look at why that process has the lock for so long: ps -fp %d"+
			"   # on %s", o.PID, n.name)
	}
	if file != "" {
		do += "; fuser -v " + file
	}
	if network {
		return what + ", which a process of another node may have", do + "   # on each node that mounts that file system"
	}
	return what, do
}

// unattended reports whether ranks certainly wait for what only a person or a program outside the job does: to type, or
// to read their output. A lock of a file may be released.
func (c claim) unattended() bool {
	return c.Blocked && c.Sure == verdict.Certain && len(c.seats) > 0 &&
		!slices.ContainsFunc(c.seats, func(s *seat) bool {
			call := s.proc.Syscall
			return call == nil || call.Name != "read" && call.Name != "write" || call.FD > 2
		})
}

// outer is what a process waits for outside of torch.
type outer struct {
	what, do string
	lasts    bool          // only help from outside ends that
	idle     time.Duration // for how long the process waits for it without a pause; 0: not known
}

// waitsFor returns what a rank waits for outside of torch, as far as it is seen.
func (v *view) waitsFor(s *seat) (o outer) {
	m := mainStack(s.proc)
	switch {
	case m != nil && inDebugger(m):
		return outer{what: "it waits for a command in Python's debugger (pdb)", do: "type c there to go on, or remove the " +
			"call of breakpoint() from the script", lasts: true, idle: v.looping(s)}
	case m != nil && slices.ContainsFunc(m.Frames, inBaton):
		return v.baton(s, m)
	}
	if o.what, o.do = v.blocked(s.node, s.proc); o.what != "" {
		o.lasts, o.idle = true, idle(s)
		if s.proc.Syscall.Asks.IsValid() { // glibc asks a name server again every 5 s
			o.idle = v.looping(s)
		}
		return o
	}
	t := v.follow(s)
	if o.what, o.do, o.lasts = t.outside(); o.what != "" && t.still() {
		o.idle = idle(s)
	}
	if w, _ := mainWait(s.proc); o.what == "" && w.In != "" {
		o.what, o.do = "it "+waitWords(w), fmt.Sprintf("look at what the call of %s at that "+
			"line waits for: py-spy dump --native --pid %d", w.In, s.proc.PID)
	}
	return o
}

// baton says that a rank waits for the lock file of torch.utils.cpp_extension. It looks at that again and again, so
// that it waits for as long as the others do.
func (v *view) baton(s *seat, m *scene.Stack) outer {
	o := outer{what: "it waits for another process that builds an extension of torch, or was killed while it did",
		do: fmt.Sprintf("find ${TORCH_EXTENSIONS_DIR:-~/.cache/torch_extensions} -name lock   # on %s: remove an old one",
			s.node.name)}
	if dir := m.Values["build_directory"]; dir != "" {
		file := path.Join(dir, "lock")
		o.what += ": its lock file " + file + " is there"
		o.do = fmt.Sprintf("does a process build there? fuser -v %s; else: rm %s   # on %s", dir, file, s.node.name)
	}
	o.idle = v.looping(s)
	return o
}

// looping returns for how long the others wait for a rank that goes on while it waits for one thing; 0: not known.
func (v *view) looping(s *seat) time.Duration {
	past := pastOf(s)
	if past == nil {
		return 0
	}
	return min(v.waited(), past.Over)
}

// idle returns for how long the main thread of a rank has waited without a pause, as its companion saw; 0: not known.
func idle(s *seat) time.Duration {
	past := pastOf(s)
	if past == nil || s.proc.Moved.Switches > 0 {
		return 0
	}
	out := past.Over
	for _, a := range past.Acts {
		if a.Wakes > 0 {
			out = min(out, a.Ago)
		}
	}
	return out
}

// seeing adds where a rank is and what it does.
func (v *view) seeing(c claim, s *seat) claim {
	o, m := v.waitsFor(s), mainStack(s.proc)
	c.Blocked = o.lasts
	switch slow := v.slowly(s); {
	case slow != "" && c.Cause == "rank.working":
		c.what += ": " + slow
		c.Sure = verdict.Likely
		c = c.see(procPath(s.proc, "wchan"), s.proc.Wchan)
	case c.Cause == "rank.working":
	default:
		c = v.waitingFor(c, s, o)
	}
	if m != nil {
		c = c.see("py-spy", seatName(s)+" at "+line(m))
	} else if s.proc.Wchan != "" {
		c = c.see(procPath(s.proc, "wchan"), s.proc.Wchan)
	}
	if doing := v.doing(s); doing != "" {
		c = c.see(procPath(s.proc, ""), seatName(s)+doing)
	}
	return c
}

// waitingFor adds what a rank that does not work waits for, or in which loop it is.
func (v *view) waitingFor(c claim, s *seat, o outer) claim {
	m, loop := mainStack(s.proc), ""
	switch {
	case s.proc.Retries() && o.what == "":
		loop = "sleeps and wakes"
	case o.idle < settled && v.goesOn(s):
		loop = "waits, goes on and waits again"
	}
	// That a rank has not called init_process_group is certain, whatever it does before that.
	c.loops = loop != "" && (c.Cause != "rank.before-init" || o.what != "")
	if loop != "" {
		if m != nil {
			in, _, _ := strings.Cut(line(m), " (")
			loop += " in " + in
			c.Do = "look at the loop at its line of the stack: what it waits for, another rank or program has to do"
		}
		c.what = strings.Replace(c.what, "does not move", loop+", as a loop that tries or asks something again", 1)
	}
	if o.what != "" {
		c.what += ": " + o.what
		c.Do, c.Idle = o.do, o.idle
	}
	return c
}

// goesOn reports whether the main thread of a rank has gone on and waited again, several times since the others wait,
// as where it asks a server that answers.
func (v *view) goesOn(s *seat) bool {
	past, n := pastOf(s), 0
	if past == nil {
		return false
	}
	for _, a := range past.Acts {
		if a.Wakes > 0 && a.Ago < v.waited()-settled {
			n++
		}
	}
	return n > 2
}

// inDebugger reports whether a stack is in the loop of pdb that asks for a command: the command itself, which may run
// for long, is a call of onecmd.
func inDebugger(s *scene.Stack) bool {
	return hasFrameOf(s, "interaction", "pdb.py") && hasFrameOf(s, "cmdloop", "cmd.py") &&
		!hasFrameOf(s, "onecmd", "cmd.py")
}

// hasFrameOf reports whether a stack has a call of a function, or method, of a file of Python's library.
func hasFrameOf(s *scene.Stack, name, file string) bool {
	return slices.ContainsFunc(s.Frames, func(f string) bool {
		return last(f) == name && strings.HasPrefix(where(f), file+":")
	})
}

// inBaton reports whether a frame is the wait for a lock file of torch.utils.cpp_extension.
func inBaton(frame string) bool { return strings.Contains(frame, "torch/utils/file_baton.py") }

func seatName(s *seat) string {
	if s.rank < 0 {
		return fmt.Sprintf("pid %d", s.proc.PID)
	}
	return fmt.Sprintf("rank %d", s.rank)
}

// doing says what a process does that makes progress.
func (v *view) doing(s *seat) string {
	m, span := s.proc.Moved, s.node.scene.Span
	var parts []string
	if m.CPU > span/25 && span > 0 {
		parts = append(parts, fmt.Sprintf("%d %% of a core", m.CPU*100/span))
	}
	if m.Read > 256<<10 {
		parts = append(parts, finding.Size(uint64(m.Read))+" read")
	}
	if m.Children {
		parts = append(parts, "child processes start and end")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf(" (in %s: %s)", ago(span), strings.Join(parts, ", "))
}
