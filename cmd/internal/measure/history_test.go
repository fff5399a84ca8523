package measure

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe has no past, and is no wait for a writer.
func TestAPipeIsNoHistory(t *testing.T) {
	b := &Bench{From: func(flag string) string { return "--" + flag }}
	b.History = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(b.History, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.Past("host0")
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "it is a pipe") {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it waits for a writer")
	}
}
