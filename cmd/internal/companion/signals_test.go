package companion

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestASignalSaysWhatTheProcessRanInto: a bus error and an illegal instruction have few causes.
func TestASignalSaysWhatTheProcessRanInto(t *testing.T) {
	for text, want := range map[string]string{
		"node rank 1, elm, failed: its command ended with 135 (bus error)":           "/dev/shm is full",
		"node rank 1, elm, failed: its command ended with 132 (illegal instruction)": "another processor",
		"node rank 1, elm, was ended by SIGTERM (kill)":                              "start again on all nodes",
		"node rank 1, elm, failed: its command ended with 1":                         "",
		"node rank 1, elm, failed: its command ended with 137 (killed)":              "",
	} {
		if got := meaningOf(text); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// What remains of a job that has ended well may get SIGTERM: that ends no node before its command has ended.
func TestSIGTERMAfterTheEndOfTheCommandEndsNoNode(t *testing.T) {
	w, printed := watcherOf()
	p := w.p
	p.ctx, p.watcher = t.Context(), w
	p.handedOff = make(chan none)
	close(p.handedOff)
	const tries = 8
	for range tries {
		ended, term := make(chan error, 1), make(chan os.Signal, 1)
		ended <- nil
		term <- syscall.SIGTERM
		if why := p.wait(ended, term); !strings.HasSuffix(why, " ended") || len(*printed) > 0 {
			t.Fatalf("%s %v", why, *printed)
		}
	}
	term := make(chan os.Signal, 1)
	term <- syscall.SIGTERM
	if why := p.wait(nil, term); !strings.HasSuffix(why, "by SIGTERM") {
		t.Error(why)
	}
}
