package hosts

import (
	"fmt"
	"path"
	"strings"

	"launch/internal/finding"
)

// interactive is a line of a start-up file that leaves what follows to shells at a terminal.
const interactive = "case $- in *i*) ;; *) return ;; esac"

// unrun says that a host logs in but runs no command.
func (j *judge) unrun(a Answer, agent string) {
	f := finding.Failf("it logs in, but runs no command: a start-up file of its shell starts another one").
		Breaking("mpirun's daemon never starts there, and mpirun waits").
		Do("in its start-up files, such as ~/.bashrc, above the line that starts a shell: %s\n"+
			"%s %s echo yes   # it must print yes", interactive, agent, a.Target())
	if a.Unrun.Forced {
		j.add("mpi.login", a.Name, forced(f, a))
		return
	}
	for i, line := range a.Unrun.Seen {
		file, rest, _ := strings.Cut(line, ":")
		number, text, _ := strings.Cut(rest, ":")
		f = f.See(a.Name+" "+file+":"+number, "%s", strings.TrimSpace(text))
		if i > 0 {
			continue
		}
		where, guard := "above", interactive
		switch base := path.Base(file); {
		case strings.Contains(base, "csh"):
			guard = "if (! $?prompt) exit"
		case strings.HasSuffix(base, ".fish"):
			where, guard = "around", "if status is-interactive; …; end"
		}
		f = f.Do("in %s there, %s line %s: %s", file, where, number, guard)
	}
	j.add("mpi.shell", a.Name, f)
}

// forced says that sshd runs another command than that of the agent, and by which line.
func forced(f finding.Finding, a Answer) finding.Finding {
	f.What = "it logs in, but runs no command of mpirun: its sshd runs another one"
	fix := "on it: remove command= from ~/.ssh/authorized_keys, or ForceCommand from sshd_config"
	for i, line := range a.Unrun.Seen {
		file, rest, _ := strings.Cut(line, ":")
		number, text, _ := strings.Cut(rest, ":")
		f = f.See(a.Name+" "+file+":"+number, "%s", strings.TrimSpace(text))
		what := "command="
		if strings.HasPrefix(file, "/etc/ssh/sshd_config") {
			what = "ForceCommand"
		}
		if i == 0 {
			fix = fmt.Sprintf("on it: remove %s from line %s of %s, or use a key without it: IdentityFile in ~/.ssh/config",
				what, number, file)
		}
		if i == 0 && what == "ForceCommand" {
			fix, _, _ = strings.Cut(fix, ", or use")
		}
	}
	return f.Do("%s", fix)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
