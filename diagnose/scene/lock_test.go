package scene

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestWhoHasALock(t *testing.T) {
	const text = "1: FLOCK  ADVISORY  WRITE 77 08:01:900 0 EOF\n" +
		"1: -> FLOCK  ADVISORY  WRITE 12 08:01:900 0 EOF\n" +
		"2: POSIX  ADVISORY  WRITE 78 08:01:901 0 EOF\n" +
		"2: -> POSIX  ADVISORY  WRITE 13 08:01:901 0 EOF\n" +
		"3: OFDLCK ADVISORY  WRITE -1 08:01:902 0 EOF\n" +
		"3: -> OFDLCK ADVISORY  WRITE 14 08:01:902 0 EOF\n"
	for waiter, want := range map[int]int{12: 77, 13: 78, 14: 0, 77: 0, 900: 0} {
		if got := lockedBy(text, waiter); got != want {
			t.Errorf("%d waits for process %d, want %d", waiter, got, want)
		}
	}
}

func TestTheKeeperOfALockIsFound(t *testing.T) {
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
	if err != nil || s.Keeper == nil || s.Keeper.PID != has || s.Keeper.Comm != "flock" {
		t.Errorf("%+v, %v; want process %d", s, err, has)
	}
}
