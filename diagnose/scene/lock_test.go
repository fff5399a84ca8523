package scene

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhoHasALock(t *testing.T) {
	const text = "1: FLOCK  ADVISORY  WRITE 77 08:01:900 0 EOF\n" +
		"1: -> FLOCK  ADVISORY  WRITE 12 08:01:900 0 EOF\n" +
		"2: POSIX  ADVISORY  WRITE 78 08:01:901 0 EOF\n" +
		"2: -> POSIX  ADVISORY  WRITE 13 08:01:901 0 EOF\n" +
		"3: OFDLCK ADVISORY  WRITE -1 08:01:902 0 EOF\n" +
		"3: -> OFDLCK ADVISORY  WRITE 14 08:01:902 0 EOF\n" +
		"4: FLOCK  ADVISORY  READ 79 08:01:903 0 EOF\n" +
		"4: -> FLOCK  ADVISORY  WRITE 15 08:01:903 0 EOF\n" +
		"4:  -> FLOCK  ADVISORY  WRITE 16 08:01:903 0 EOF\n"
	for waiter, want := range map[int]int{12: 77, 13: 78, 14: 0, 15: 79, 16: 79, 77: 0, 900: 0} {
		got, file := lockedBy(text, waiter)
		if got != want || want != 0 && !strings.HasPrefix(file, "08:01:90") {
			t.Errorf("%d waits for %q of process %d, want %d", waiter, file, got, want)
		}
	}
}

// A shell has the file open that flock(1) has locked, and that one has ended.
func TestAnOwnerThatHasEndedIsNotNamed(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("needs flock")
	}
	file := filepath.Join(t.TempDir(), "lock")
	shell := start(t, exec.Command("sh", "-c", `exec 9>"$0"; flock 9; sleep 600; :`, file))
	eventually(t, "the lock is taken", func() bool {
		c := children(shell)
		return len(c) == 1 && readLine(procPath(c[0], "comm")) == "sleep"
	})
	waits := start(t, exec.Command(flock, file, "true"))
	eventually(t, "a process waits", func() bool { s, _ := readSyscall(waits, "S"); return s != nil && s.Name == "flock" })
	text, err := readFile("/proc/locks")
	if pid, _ := lockedBy(string(text), waits); err != nil || pid == 0 {
		t.Fatalf("no process has taken the lock: %v\n%s", err, text)
	}
	if s, err := readSyscall(waits, "S"); err != nil || s.Owner != nil {
		t.Errorf("%+v, %v", s.Owner, err)
	}
}

func TestTheOwnerOfALockIsFound(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("needs flock")
	}
	file := filepath.Join(t.TempDir(), "lock")
	has := start(t, exec.Command(flock, "-o", file, "sleep", "600"))
	eventually(t, "the lock is taken", func() bool { return len(children(has)) > 0 })
	waits := start(t, exec.Command(flock, file, "true"))
	eventually(t, "a process waits", func() bool { s, _ := readSyscall(waits, "S"); return s != nil && s.Name == "flock" })
	s, err := readSyscall(waits, "S")
	if err != nil || s.Owner == nil || s.Owner.PID != has || s.Owner.Comm != "flock" {
		t.Errorf("%+v, %v; want process %d", s, err, has)
	}
}
