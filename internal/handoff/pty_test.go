package handoff

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/pty"
)

// inTerminal is a command that prints whether it is in the foreground and which
// signal it got. It forks nothing while it waits: dash loses a signal that arrives
// as it does. A terminal that closes ends the reads a moment before its signal arrives.
const inTerminal = `
trap 'echo got INT; exit 7' INT
set -- $(cut -d" " -f5,8 /proc/$$/stat)
test "$1" = "$2" && echo foreground
echo ready
while :; do read x; done`

// onTerminal starts a command as a login shell would be: leader of a session
// on a new terminal.
func onTerminal(t *testing.T, role string, args ...string) (
	person *os.File, screen *lines, log *lines, wait func() *os.ProcessState,
) {
	t.Helper()
	person, programs := pty.Open(t)
	cmd := as(t, role, append(args, "sh", "-c", inTerminal)...)
	if role == "" {
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", inTerminal}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = programs, programs, programs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	log = start(t, cmd)
	programs.Close()
	screen = &lines{t: t, file: person, buf: bufio.NewReader(person)}
	return person, screen, log, func() *os.ProcessState { cmd.Wait(); return cmd.ProcessState }
}

func TestCtrlCReachesTheCommandAsWithoutLaunchAndNotTheCompanion(t *testing.T) {
	for _, run := range []struct {
		role string
		args []string
	}{{"", nil}, {"launch", []string{"-log=3", "-stderr", "--"}}} {
		person, screen, log, wait := onTerminal(t, run.role, run.args...)
		if run.role != "" {
			whoIs(t, log)
		}
		screen.until("ready")
		time.Sleep(50 * time.Millisecond) // the shell reads
		person.WriteString("\x03")
		screen.until("got INT")
		if code := wait().ExitCode(); code != 7 {
			t.Errorf("%q: exit status %d, want the command's 7", run.role, code)
		}
		if got := strings.Join(screen.all, " "); !strings.HasPrefix(got, "foreground ready ") {
			t.Errorf("%q: the screen shows %q", run.role, got)
		}
		if run.role != "" {
			log.until("gone ")
			checkNoSignal(t, log)
		}
	}
}

func TestClosingTheTerminalEndsTheCommandAndNotTheCompanion(t *testing.T) {
	person, screen, log, wait := onTerminal(t, "launch", "-log=3", "--")
	pid, _, _, _ := whoIs(t, log)
	screen.until("ready")
	person.Close()
	if got := wait().String(); got != "signal: hangup" {
		t.Errorf("the command ended with %q", got)
	}
	log.until("gone ")
	checkNoSignal(t, log)
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the companion is gone: %v", err)
	}
}

func checkNoSignal(t *testing.T, log *lines) {
	t.Helper()
	for _, l := range log.all {
		if strings.HasPrefix(l, "signal ") {
			t.Errorf("the companion got %q", l)
		}
	}
}
