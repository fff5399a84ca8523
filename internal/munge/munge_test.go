package munge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"launch/internal/munge"
	"launch/lab/programs"
)

func TestATextIsForItsUserAlone(t *testing.T) {
	t.Setenv("PATH", programs.Munge(t)+":"+os.Getenv("PATH"))
	c, err := munge.Hide(t.Context(), "secret\n\nwith blank lines")
	if err != nil || strings.Contains(c, "secret") {
		t.Fatalf("%q, %v", c, err)
	}
	for range 2 { // the second time it is "replayed"
		if text, err := munge.Reveal(t.Context(), c); err != nil || text != "secret\n\nwith blank lines" {
			t.Errorf("%q, %v", text, err)
		}
	}
	if err := munge.Works(t.Context()); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "unmunge")
	cmd.Stdin = strings.NewReader(c)
	if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "secret") {
		t.Errorf("another user: %q, %v", out, err)
	}
	if c[10] == 'A' {
		c = c[:10] + "B" + c[11:]
	} else {
		c = c[:10] + "A" + c[11:]
	}
	if text, err := munge.Reveal(t.Context(), c); err == nil {
		t.Errorf("a changed credential: %q", text)
	}
}

func TestATextOfAnotherUserIsRefused(t *testing.T) {
	t.Setenv("PATH", programs.Munge(t)+":"+os.Getenv("PATH"))
	cmd := exec.Command("setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "munge")
	cmd.Stdin = strings.NewReader("trap")
	c, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := munge.Reveal(t.Context(), string(c))
	if err == nil || !strings.Contains(err.Error(), "user 65533 made it") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestANodeWithoutTheDaemon(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := munge.Works(t.Context()); err == nil {
		t.Error("no program, and it works")
	}
	dir := t.TempDir()
	for _, name := range []string{"munge", "unmunge"} { // as where the daemon does not run
		script := []byte("#!/bin/sh\necho no socket >&2; exit 6\n")
		if err := os.WriteFile(filepath.Join(dir, name), script, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/bin")
	if err := munge.Works(t.Context()); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
}
