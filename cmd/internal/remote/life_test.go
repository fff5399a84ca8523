package remote

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The network of a head is lost: nothing ends the connection, and nothing more arrives.
func TestAShellEndsWhoseInputIsSilent(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		s, err := Open(t.Context(), agent(t, `exec `+shell+` -c "$2"`), "h1")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := s.Do("cd " + Quote(dir) + "; : >left; launch_pause=0.2 launch_pauses=10; " + AtEnd +
			"='rm left'"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := s.Run(Await + ` sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 60'; echo no`)
			ended <- err
		}()
		for range 25 { // longer than the silence that ends it
			time.Sleep(100 * time.Millisecond)
			s.writing.Lock()
			_, _ = s.in.Write([]byte(lifeLine))
			s.writing.Unlock()
		}
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatalf("%s: the command has not begun: %v", shell, err)
		}
		select {
		case err := <-ended:
			t.Fatalf("%s: it ended although lines arrived: %v", shell, err)
		default:
		}
		if err := <-ended; err == nil {
			t.Errorf("%s: a shell that has ended is no error", shell)
		}
		if _, err := os.Stat(filepath.Join(dir, "left")); err == nil {
			t.Errorf("%s: the file is still there", shell)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		for end := time.Now().Add(5 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the command still runs", shell)
			}
		}
		s.Close()
	}
}

// A shell that has made nothing has no guard, and one that is fed waits longer.
func TestAGuardIsStartedOnceItIsNeeded(t *testing.T) {
	s, err := Open(t.Context(), Agent{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Do("echo x$launch_guard"); err != nil || strings.Join(got, "") != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Do(AtEnd + "=: launch_pause=0.5 launch_pauses=4"); err != nil {
		t.Fatal(err)
	}
	first, err := s.Do("echo $launch_guard")
	if err != nil || len(first) != 1 || first[0] == "" {
		t.Fatalf("%q, %v", first, err)
	}
	time.Sleep(time.Second) // it ignores what it hears before it has its traps
	if err := s.Feed("cat >/dev/null; sleep 3", []byte("x")); err != nil {
		t.Errorf("while it was fed: %v", err)
	}
	if again, err := s.Do("echo $launch_guard"); err != nil || again[0] != first[0] {
		t.Errorf("a new guard: %q, %q, %v", first, again, err)
	}
}
