package companion

import (
	"strings"
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
