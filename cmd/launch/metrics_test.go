package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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

func TestMetricsAreServedUntilASignal(t *testing.T) {
	m := begin(t, "metrics", "--listen", "127.0.0.1:0")
	m.line(t, "serving http://")
	_, at, _ := strings.Cut(strings.Join(m.seen, "\n"), "serving ")
	at, _, _ = strings.Cut(at, ",")
	for range 2 {
		r, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(text), "\nlaunch_metrics_unknown ") {
			t.Errorf("%s: %s, %v\n%s", at, r.Status, err, text)
		}
	}
	_ = m.Process.Signal(syscall.SIGTERM)
	if got := m.end(t); got != 0 {
		t.Errorf("ended with %d", got)
	}
}
