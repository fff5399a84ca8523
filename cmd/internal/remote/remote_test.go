package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent returns an agent whose hosts are this machine: it runs a script with the host as $0 and the command as $1.
func agent(t *testing.T, script string) Agent {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nset -- \"$@\"\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Agent{Argv: []string{file}}
}

// inEachShell calls test with a session of each shell of this machine that a host may have as /bin/sh.
func inEachShell(t *testing.T, test func(t *testing.T, s *Session)) {
	for _, shell := range []string{"dash", "bash", "bash --posix", "busybox sh"} {
		if _, err := exec.LookPath(strings.Fields(shell)[0]); err != nil {
			continue
		}
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), agent(t, `exec `+shell+` -s `+ran), "h1")
			if err != nil {
				t.Fatal(err)
			}
			test(t, s)
		})
	}
}

func TestASessionRunsScriptsInOneShell(t *testing.T) {
	for name, by := range map[string]Agent{"this host": {}, "another": agent(t, `exec sh -c "$2"`)} {
		s, err := Open(t.Context(), by, "h1")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for _, step := range []struct{ script, want string }{
			{"a=1; cd " + Quote(dir), ""},
			{"echo $a; pwd; cat; printf tail", "1\n" + dir + "\ntail"},
			{"false", ""},
			{"file=" + dir + "/file; : >$file; trap 'rm $file' EXIT", ""},
		} {
			got, err := s.Do(step.script)
			if err != nil || strings.Join(got, "\n") != step.want {
				t.Errorf("%s: %s printed %q, %v", name, step.script, got, err)
			}
		}
		s.Close()
		if _, err := os.Stat(dir + "/file"); err == nil {
			t.Errorf("%s: the shell has not ended by itself", name)
		}
	}
}

// A shell that reads the input without the command, as after "exec zsh" in a start-up file, is no session: mpirun's
// daemon would not start. A start-up file that hands the command on is fine.
func TestAHostThatRunsNoCommandIsNoSession(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	rc := home + "/.bashrc"
	text := "exec 3>/dev/null # exec sh\n[ -n \"$A\" ] || KEY=\"a b\" exec env B=c zsh -l\n"
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := home + "/.ssh/authorized_keys"
	if err := os.Mkdir(home+"/.ssh", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte("ssh-x A=\nno-pty,command=\"exec sh\" ssh-x A= b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for script, forced := range map[string]bool{"exec sh": false, "SSH_ORIGINAL_COMMAND=$2 exec sh": true} {
		seen := rc + `:2:[ -n "$A" ] || KEY=… exec env B=… zsh -l`
		if forced {
			seen = keys + `:2:no-pty,command=…`
		}
		a := agent(t, script)
		s, err := Open(t.Context(), a, "h1")
		f, ok := errors.AsType[*Failed](err)
		if !ok || f.Unrun == nil || f.Unrun.Forced != forced || len(f.Unrun.Seen) == 0 ||
			f.Unrun.Seen[0] != seen {
			t.Errorf("%s: %+v %v", script, f, err)
		}
		s.Close()
		if !a.Unrun(t.Context(), "h1") {
			t.Errorf("%s: it runs a command", script)
		}
	}
	for _, script := range []string{`exec sh -c "$2"`, `exec sh -c "exec sh -c '$2'"`, `exec $2`, `exit 3`} {
		a := agent(t, script)
		if s, err := Open(t.Context(), a, "h1"); err == nil {
			s.Close()
		} else if f, ok := errors.AsType[*Failed](err); !ok || f.Unrun != nil {
			t.Errorf("%s: %v", script, err)
		}
		if script != `exec $2` && a.Unrun(t.Context(), "h1") {
			t.Errorf("%s: it runs no command", script)
		}
	}
}

// sshd says which key it took, and that a command belongs to that key.
func TestTheCommandOfAKeyIsSeen(t *testing.T) {
	dir := t.TempDir()
	for options, want := range map[string]string{"agent-forwarding command pty": "/h/.ssh/keys:3:command=",
		"command": "/h/.ssh/keys:3:command=", "agent-forwarding pty": "", "no-command-x": ""} {
		text := "#!/bin/sh\ncase \"$*\" in *' -v '*) ;; *) exit 1;; esac\n" +
			"echo 'debug1: Remote: /h/.ssh/keys:3: key options: " + options + "' >&2\n"
		if err := os.WriteFile(dir+"/ssh", []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := (Agent{Argv: []string{dir + "/ssh", "-x"}}).Forced(t.Context(), "h1"); got != want {
			t.Errorf("%s: %q", options, got)
		}
	}
	if got := (Agent{Argv: []string{"rsh"}}).Forced(t.Context(), "h1"); got != "" {
		t.Errorf("another agent: %q", got)
	}
}

// A start-up file may set the title of a terminal, which ends without a newline, and print later in the background.
func TestAHostThatPrintsRunsItsCommand(t *testing.T) {
	for script, want := range map[string][]string{
		`printf title; exec sh -c "$2"`:                 {"title"},
		`echo a; echo b; exec sh -c "$2"`:               {"a", "b"},
		`sh -c "$2" | sed -u 's/^launch-ran$/&\nlate/'`: {"", "late"},
		`printf '\n\n'; exec sh -c "$2"`:                {},
		`printf '\033]0;h1\007'; exec sh -c "$2"`:       {"\x1b]0;h1\a"},
	} {
		s, err := Open(t.Context(), agent(t, script), "h1")
		if err != nil || !slices.Equal(s.Before, want) {
			t.Errorf("%s: %q %v", script, s.Before, err)
		}
		s.Close()
	}
}

// A head that is killed leaves the shells without input, in the middle of a command.
func TestARunEndsWithTheInputOfTheShell(t *testing.T) {
	inEachShell(t, func(t *testing.T, s *Session) {
		dir := t.TempDir()
		if _, err := s.Do("cd " + Quote(dir) + "; a=1; : >left; " + AtEnd + "='rm left'"); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Run(`echo $a; ` + Await + ` printf '%s\n' 'b  c'; cat`); strings.Join(got, ",") != "1,b  c" {
			t.Errorf("printed %q, %v", got, err)
		}
		ended := make(chan error)
		go func() {
			_, err := s.Run(Await + ` sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 60'; echo no`)
			ended <- err
		}()
		var pid []byte
		for len(pid) == 0 {
			time.Sleep(10 * time.Millisecond)
			pid, _ = os.ReadFile(dir + "/pid")
		}
		_ = s.in.Close()
		if err := <-ended; err == nil {
			t.Error("no error of a shell that has ended")
		}
		if _, err := os.Stat(dir + "/left"); err == nil {
			t.Errorf("%s was not run", AtEnd)
		}
		// A process that has ended may still be a zombie.
		if line, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"); len(line) > 0 {
			t.Error("the command still runs")
		}
	})
}

func TestWhatAStartUpFilePrintsIsKeptApart(t *testing.T) {
	s, err := Open(t.Context(), agent(t, `echo welcome; exec sh -c "$2"`), "h1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Do("echo x"); !slices.Equal(s.Before, []string{"welcome"}) || !slices.Equal(got, []string{"x"}) {
		t.Errorf("before %q, then %q %v", s.Before, got, err)
	}
}

func TestAnAgentThatFailsSaysWhy(t *testing.T) {
	s, err := Open(t.Context(), agent(t, `echo "no way to $1" >&2; exit 255`), "h1")
	if f, ok := errors.AsType[*Failed](err); !ok || f.Error() != "no way to h1" || f.Status != 255 || f.Late {
		t.Errorf("%v", err)
	}
	s.Close()
	if _, err := Open(t.Context(), Agent{Argv: []string{"/no/such/agent"}}, "h1"); err == nil {
		t.Error("no error for an agent that is not there")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	s, err = Open(ctx, agent(t, `sleep 3`), "h1") // the sleep has the pipe
	if f, ok := errors.AsType[*Failed](err); !ok || !f.Late {
		t.Errorf("a late one: %v", err)
	}
	s.Close()
}

func TestAShellReadsAnInputAndGoesOn(t *testing.T) {
	inEachShell(t, func(t *testing.T, s *Session) {
		to := filepath.Join(t.TempDir(), "copy")
		input := []byte(strings.Repeat("echo this is no command\n\x00", 1<<16))
		if err := s.Feed("cat >"+Quote(to), input); err != nil {
			t.Errorf("%v", err)
		}
		if got, _ := os.ReadFile(to); !bytes.Equal(got, input) {
			t.Errorf("%d of %d bytes", len(got), len(input))
		}
		if got, err := s.Do("echo x"); err != nil || !slices.Equal(got, []string{"x"}) {
			t.Errorf("afterwards %q %v", got, err)
		}
		s.Close()
	})
}

// What a command has not read of its input must not become a command.
func TestAShellEndsWithACommandThatFails(t *testing.T) {
	s, err := Open(t.Context(), agent(t, `exec sh -c "$2"`), "h1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mark := filepath.Join(t.TempDir(), "mark")
	input := []byte(strings.Repeat("touch "+mark+"\n", 1<<16))
	err = s.Feed("head -c 10 >/dev/null; echo no room >&2; false", input)
	if f, ok := errors.AsType[*Failed](err); !ok || f.Error() != "no room" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the rest of the input was run")
	}
}

func TestOutput(t *testing.T) {
	by := agent(t, `exec sh -c "$2"`)
	got, err := by.Output(t.Context(), "h1", "cat; echo "+Quote("it's"), strings.NewReader("in "), 100)
	if err != nil || string(got) != "in it's\n" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := by.Output(t.Context(), "h1", "echo long", nil, 2); err == nil {
		t.Error("an answer that is too long")
	}
	got, err = by.Output(t.Context(), "h1", "echo x; exit 3", nil, 100)
	if f, ok := errors.AsType[*Failed](err); !ok || f.Status != 3 || string(got) != "x\n" {
		t.Errorf("%q %v", got, err)
	}
}

func TestArgs(t *testing.T) {
	ssh := Agent{Argv: []string{"/usr/bin/ssh", "-p", "2"}}.args("h", "true")
	if got := strings.Join(ssh, " "); got != "/usr/bin/ssh -x -T -o BatchMode=yes -o ConnectTimeout=8 -p 2 -- h true" {
		t.Error(got)
	}
	srun := Agent{Argv: []string{"srun", "--quiet"}, Srun: true}.args("h", "true")
	if got := strings.Join(srun, " "); got != "srun --quiet --nodelist=h /bin/sh -c true" {
		t.Error(got)
	}
}
