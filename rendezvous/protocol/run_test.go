package protocol

import "testing"

func TestAFailureSaysWhichSignalItWas(t *testing.T) {
	for status, want := range map[int]string{
		1:   "failed: its command ended with 1",
		137: "failed: its command ended with 137 (killed)",
		152: "failed: its command ended with 152 (CPU time limit exceeded)",
		200: "failed: its command ended with 200",
		129: "was ended by SIGHUP (its terminal was closed): status 129",
		130: "was ended by SIGINT (Ctrl-C, or kill -INT): status 130",
		143: "was ended by SIGTERM (kill, kubectl delete, a scheduler, or launch --fail-fast there): status 143",
	} {
		if got := failure(status); got != want {
			t.Errorf("%d: %q, want %q", status, got, want)
		}
	}
}
