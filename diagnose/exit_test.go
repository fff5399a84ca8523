package diagnose

import (
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/tcpstore"
)

// At the end of a job one torchrun waits for the others. A rank there that waits for data that never arrives is certain
// to be the reason; one that sleeps goes on without help, and a thread or a child may.
func TestOnlyARankThatWaitsWithoutALimitHoldsTheEndOfAJob(t *testing.T) {
	for _, tt := range []struct {
		name string
		call *scene.Syscall
		want verdict.Sure
	}{
		{"waits for data", &scene.Syscall{Name: "recvfrom", FD: 7, Socket: 9}, verdict.Certain},
		{"waits for a child", &scene.Syscall{Name: "wait4", FD: -1}, verdict.Likely},
		{"waits for a thread", &scene.Syscall{Name: "futex", FD: -1}, verdict.Likely},
		{"has a time limit", &scene.Syscall{Name: "poll", Limit: 30 * time.Second, FD: 7, Socket: 9}, verdict.Likely},
		{"has no limit", &scene.Syscall{Name: "poll", Limit: -1, FD: 7, Socket: 9}, verdict.Certain},
		{"reads what a child writes", &scene.Syscall{Name: "read", FD: 7}, verdict.Likely},
		{"sleeps", &scene.Syscall{Name: "clock_nanosleep", FD: -1}, verdict.Likely},
		{"is not known", nil, verdict.Likely},
	} {
		s := plainRank(1, "python", 0)
		s.Procs[0].Syscall = tt.call
		v := &view{board: &tcpstore.Board{Ended: 1, Agents: []tcpstore.Agent{{Node: 0}, {Node: 1}}}}
		v.seats = []*seat{{rank: 1, node: &node{name: "h1", scene: &s}, proc: &s.Procs[0]}}
		if got := v.exits(); len(got) != 1 || got[0].Sure != tt.want || got[0].Cause != "exit.barrier" {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
}
