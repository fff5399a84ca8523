package diagnose

import (
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/tcpstore"
)

// At the end of a job one torchrun waits for the others. A rank there that waits for what does not come is certain to
// be the reason; one that sleeps or looks again after a while goes on by itself.
func TestOnlyARankThatWaitsWithoutALimitHoldsTheEndOfAJob(t *testing.T) {
	timed := []scene.Thread{{Name: "python", State: "S", Timed: true, Count: 1}}
	for _, tt := range []struct {
		name    string
		call    *scene.Syscall
		threads []scene.Thread
		want    verdict.Sure
	}{
		{"waits for data", &scene.Syscall{Name: "recvfrom", FD: 7}, nil, verdict.Certain},
		{"waits for a child", &scene.Syscall{Name: "wait4", FD: -1}, nil, verdict.Certain},
		{"waits for a thread", &scene.Syscall{Name: "futex", FD: -1}, nil, verdict.Certain},
		{"looks again after a while", &scene.Syscall{Name: "futex", FD: -1}, timed, verdict.Likely},
		{"has a time limit", &scene.Syscall{Name: "poll", Limit: 30 * time.Second, FD: 7}, nil, verdict.Likely},
		{"has none", &scene.Syscall{Name: "poll", Limit: -1, FD: 7}, nil, verdict.Certain},
		{"sleeps", &scene.Syscall{Name: "clock_nanosleep", FD: -1}, nil, verdict.Likely},
		{"is not known", nil, nil, verdict.Likely},
	} {
		s := plainRank(1, "python", 0)
		s.Procs[0].Syscall, s.Procs[0].Threads = tt.call, tt.threads
		v := &view{board: &tcpstore.Board{Ended: 1, Agents: []tcpstore.Agent{{Node: 0}, {Node: 1}}}}
		v.seats = []*seat{{rank: 1, node: &node{name: "h1", scene: &s}, proc: &s.Procs[0]}}
		if got := v.exits(); len(got) != 1 || got[0].Sure != tt.want || got[0].Cause != "exit.barrier" {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
}
