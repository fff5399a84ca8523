package diagnose

import (
	"fmt"

	"launch/diagnose/scene"
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
