package diagnose

import (
	"fmt"
	"slices"
	"strings"

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
func blocked(p *scene.Proc) (what, do string) {
	if p.Syscall == nil {
		return "", ""
	}
	file := ""
	for _, f := range p.Files {
		if f.FD == p.Syscall.FD {
			file = f.Path
		}
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
		if file == "" {
			return "it waits for a lock on a file", "see who has it: lslocks"
		}
		return "it waits for a lock on " + file, fmt.Sprintf("see who has it: lslocks; fuser -v %s", file)
	}
	return "", ""
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

// seeing adds where a rank is and what it does.
func (v *view) seeing(c claim, s *seat) claim {
	what, do := blocked(s.proc)
	c.Blocked = what != ""
	if what == "" {
		what, do, c.Blocked = v.follow(s).outside()
	}
	m := mainStack(s.proc)
	switch {
	case m != nil && inDebugger(m):
		what, do = "it waits for a command in Python's debugger (pdb)", "type c there to go on, or remove the call of "+
			"breakpoint() from the script"
		c.Blocked = true
	case what == "" && m != nil && slices.ContainsFunc(m.Frames, inBaton):
		what = "it waits for another process that builds an extension of torch, or was killed while it did"
		do = fmt.Sprintf("find ${TORCH_EXTENSIONS_DIR:-~/.cache/torch_extensions} -name lock   # on %s: remove an old one",
			s.node.name)
	}
	switch slow := v.slowly(s); {
	case slow != "" && c.Cause == "rank.working":
		c.what += ": " + slow
		c.Sure = verdict.Likely
		c = c.see(procPath(s.proc, "wchan"), s.proc.Wchan)
	case c.Cause == "rank.working":
	case what != "":
		c.what += ": " + what
		c.Do = do
	case s.proc.Retries():
		loop := "sleeps and wakes"
		if m != nil {
			in, _, _ := strings.Cut(line(m), " (")
			loop += " in " + in
		}
		c.what = strings.Replace(c.what, "does not move", loop+", as a loop that tries or asks something again", 1)
		if m != nil {
			c.Do = "look at the loop at its line of the stack: what it waits for, another rank or program has to do"
		}
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
