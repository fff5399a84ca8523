package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestMetricsAreRewrittenUntilASignal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "launch.prom")
	m := begin(t, "metrics", "--textfile", file, "--interval", "1s")
	var seen []time.Time
	for limit := time.Now().Add(30 * time.Second); len(seen) < 3 && time.Now().Before(limit); {
		if info, err := os.Stat(file); err == nil && (len(seen) == 0 || info.ModTime().After(seen[len(seen)-1])) {
			seen = append(seen, info.ModTime())
		}
		<-time.After(20 * time.Millisecond)
	}
	if len(seen) < 3 {
		t.Errorf("written %d times", len(seen))
	}
	_ = m.Process.Signal(syscall.SIGTERM)
	if got := m.end(t); got != 0 {
		t.Errorf("ended with %d", got)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(names) != 1 {
		t.Errorf("left %v", names)
	}
}
