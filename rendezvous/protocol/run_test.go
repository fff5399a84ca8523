package protocol

import "testing"

func TestAFailureSaysWhichSignalItWas(t *testing.T) {
	for status, want := range map[int]string{
		1:   "failed: its command ended with 1",
		137: "failed: its command ended with 137 (killed)",
		152: "failed: its command ended with 152 (CPU time limit exceeded)",
		200: "failed: its command ended with 200",
	} {
		if got := failure(status); got != want {
			t.Errorf("%d: %q, want %q", status, got, want)
		}
	}
}
