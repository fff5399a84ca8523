package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestACopyUnpacksToThisProgram(t *testing.T) {
	own, err := ownFile()
	if err != nil {
		t.Fatal(err)
	}
	for form, make := range NewCopies() {
		packed, err := make()
		if err != nil {
			t.Fatal(err)
		}
		got := packed
		if form != "" {
			if _, err := exec.LookPath(form); err != nil {
				t.Logf("not tried: %v", err)
				continue
			}
			cmd := exec.Command(form, "-dc")
			cmd.Stdin = bytes.NewReader(packed)
			if got, err = cmd.Output(); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
		}
		if !bytes.Equal(got, own) {
			t.Errorf("%q: %d bytes, want %d", form, len(got), len(own))
		}
	}
}

// The limit of a copy is no limit of the session: what follows may take longer.
func TestASessionGoesOnAfterACopy(t *testing.T) {
	s, err := Open(t.Context(), Agent{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(t.TempDir(), "copy")
	all := Copies{"": func() ([]byte, error) { return []byte("a program"), nil }}
	if err := s.Place(all, "unknown", file, time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "a program" {
		t.Errorf("%q %v", got, err)
	}
	if printed, err := s.Do("sleep 1.2; echo there"); err != nil || len(printed) != 1 {
		t.Errorf("%v %v", printed, err)
	}
}
