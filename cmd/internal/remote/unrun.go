package remote

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Where a start-up file replaces its shell (exec zsh), no shell runs the command of the agent. The new shell reads the
// agent's input instead, so that a session works where mpirun's daemon never starts. ForceCommand of sshd may do the
// same.

// ran is an argument of the command with which a session begins. Only a shell that runs this command has it in $1.
const ran = "launch-ran"

// command is what the agent runs for a session.
const command = "exec /bin/sh -s " + ran

// showRan prints it on a line of its own: what a start-up file has printed may end without a newline.
const showRan = "\nprintf '\\n%s\\n' \"$1\""

// Unrun is how a host runs no command although it logs in.
type Unrun struct {
	Forced bool // sshd runs another one
	// Seen are lines that start another shell, or by which sshd runs another command, as FILE:NUMBER:TEXT; nil: no such
	// line is found.
	Seen []string
}

// findUnrun prints why a command does not run. Shells that are not like POSIX's (csh, fish) do not get so far.
const findUnrun = `/bin/sh -c '
if [ -n "$SSH_ORIGINAL_COMMAND" ]; then
	echo forced
	grep -noE "^[^#]*command=\"[^\"]*" ~/.ssh/authorized_keys ~/.ssh/authorized_keys2 /dev/null | head -n 2
	grep -niE "^[[:space:]]*ForceCommand[[:space:]=]" /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf /dev/null |
		head -n 2
fi 2>/dev/null
for f in ~/.bashrc ~/.bash_profile ~/.bash_login ~/.profile ~/.zshenv ~/.zprofile ~/.zshrc ~/.kshrc ~/.cshrc ` +
	`~/.tcshrc ~/.config/fish/config.fish /etc/bash.bashrc /etc/bashrc /etc/profile /etc/profile.d/*.sh /etc/zshenv ` +
	`/etc/zsh/zshenv /etc/csh.cshrc; do
	[ -r "$f" ] && grep -nE "^[^#]*(^|[;&|{[:space:]])exec[[:space:]]+[^<>&[:space:]0-9]" "$f" /dev/null | head -n 2
done 2>/dev/null'`

// values finds what a line gives variables: it may be secret.
var values = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)=("[^"]*"?|'[^']*'?|[^\s;&|]+)`)

// findLimit bounds that search, and a command of its own.
const findLimit = 4 * time.Second

// unrun returns why the command of this session does not run.
func (s *Session) unrun() *Unrun {
	late := time.AfterFunc(findLimit, s.End)
	defer late.Stop()
	printed, _ := s.Do(findUnrun)
	out := &Unrun{}
	for _, line := range printed {
		switch {
		case line == "forced":
			out.Forced = true
		case out.Forced && !forces(line): // a start-up file is not the reason
		case strings.HasPrefix(line, "/") && strings.Count(line, ":") > 1 && len(out.Seen) < 3:
			out.Seen = append(out.Seen, values.ReplaceAllString(line, "$1=…"))
		}
	}
	return out
}

// forces reports whether a line is one of sshd's.
func forces(line string) bool {
	file, _, _ := strings.Cut(line, ":")
	return strings.Contains(file, "/.ssh/") || strings.HasPrefix(file, "/etc/ssh/")
}

// forcedKey finds a key with command= in what ssh -v prints: sshd sends the options of the key that it took.
var forcedKey = regexp.MustCompile(`Remote: (/\S+:\d+): key options:.* command( |$)`)

// Forced returns the line of authorized_keys with the command that sshd of a host runs instead of any other, as
// FILE:NUMBER:TEXT; "": there is none, or the agent is not ssh.
func (a Agent) Forced(ctx context.Context, host string) string {
	if len(a.Argv) == 0 || a.Srun || path.Base(a.Argv[0]) != "ssh" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	a.Argv = append(slices.Clone(a.Argv), "-v")
	c, words := a.command(ctx, host, "true"), &tail{}
	c.Stderr = words
	_ = c.Run()
	for line := range strings.Lines(words.String()) {
		if m := forcedKey.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			return m[1] + ":command="
		}
	}
	return ""
}

// Unrun reports whether a host logs in and ends without an error, but does not run a command. It returns false where
// the login takes longer.
func (a Agent) Unrun(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	out, err := a.Output(ctx, host, "echo "+ran, nil, maxWords)
	return err == nil && !strings.Contains(string(out), ran)
}
