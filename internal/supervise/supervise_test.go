package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/internal/process"
)

func begin(t *testing.T, script string) *Attempt {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Start(sh, []string{"sh", "-c", script}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestStatusIsTheCommands(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		a := begin(t, script)
		<-a.Done()
		if got := a.Status(); got != want {
			t.Errorf("%s: %d, want %d", script, got, want)
		}
	}
}

func TestACommandThatCannotStartIsAnError(t *testing.T) {
	if _, err := Start("/nonexistent", []string{"x"}, nil); err == nil {
		t.Error("no error")
	}
}

func TestStopEndsWhatTheCommandLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	// A grandchild in a session of its own, whose parent is gone, and a command
	// that ignores SIGTERM.
	a := begin(t, `trap "" TERM; setsid sh -c 'sleep 600 & echo $! > `+file+`.new; mv `+file+`.new `+file+`' ; `+
		`while :; do sleep 0.1; done`)
	var pid int
	for end := time.Now().Add(10 * time.Second); pid == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if pid == 0 {
		t.Fatal("the grandchild never began")
	}
	if err := a.Stop(100 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if stat, err := process.Read(pid); err == nil && stat.State != 'Z' {
		t.Errorf("process %d goes on: %+v", pid, stat)
	}
	if a.Status() != 137 {
		t.Errorf("status %d", a.Status())
	}
}

// Where launch is pid 1, its companion is its child.
func TestStopLeavesWhatRanBeforeTheCommand(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	a := begin(t, "sleep 600 & sleep 600")
	if err := a.Stop(0); err != nil {
		t.Fatal(err)
	}
	if stat, err := process.Read(other.Process.Pid); err != nil || stat.State == 'Z' {
		t.Errorf("%+v, %v", stat, err)
	}
}
