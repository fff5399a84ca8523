package remote

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The network of a head is lost: nothing ends the connection, and nothing more arrives.
func TestAShellEndsWhoseInputIsSilent(t *testing.T) {
	inEachShell(t, func(t *testing.T, s *Session) {
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
			t.Fatalf("the command has not begun: %v", err)
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended although lines arrived: %v", err)
		default:
		}
		if err := <-ended; err == nil {
			t.Error("a shell that has ended is no error")
		}
		if _, err := os.Stat(filepath.Join(dir, "left")); err == nil {
			t.Error("the file is still there")
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		for end := time.Now().Add(5 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the command still runs")
			}
		}
		s.Close()
	})
}

// A shell that has made nothing has no guard, and one that is fed waits longer.
func TestAGuardIsStartedOnceItIsNeeded(t *testing.T) {
	inEachShell(t, func(t *testing.T, s *Session) {
		if got, err := s.Do("echo x$launch_guard"); err != nil || strings.Join(got, "") != "x" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := s.Do(AtEnd + "=: launch_pause=0.2 launch_pauses=4"); err != nil {
			t.Fatal(err)
		}
		if err := s.Feed("cat >/dev/null; sleep 2", []byte("x")); err != nil {
			t.Errorf("while it was fed: %v", err)
		}
		first, err := s.Do("echo $launch_guard")
		if err != nil || len(first) != 1 || first[0] == "" {
			t.Fatalf("%q, %v", first, err)
		}
		if again, err := s.Do("echo $launch_guard"); err != nil || again[0] != first[0] {
			t.Errorf("a new guard: %q, %q, %v", first, again, err)
		}
		s.Close()
	})
}

// Without its shell a guard does the work soon, and ends no process that has the number of another one by now.
func TestAGuardOutlivesItsShell(t *testing.T) {
	inEachShell(t, func(t *testing.T, s *Session) {
		other := exec.Command("sleep", "60")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := s.Do(fmt.Sprintf("cd %s; : >left; launch_pause=0.2 %s='rm left' launch_run=%d launch_known=%[3]d "+
			"launch_born=1", Quote(dir), AtEnd, other.Process.Pid)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Do("[ -n \"$launch_guard\" ]"); err != nil { // the line after the first one has started it
			t.Fatal(err)
		}
		s.End()
		s.Close()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "left")); err != nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the file is still there")
			}
		}
		time.Sleep(50 * time.Millisecond)
		if err := other.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var ended *exec.ExitError
		if err := other.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the other process ended with %v", err)
		}
	})
}
