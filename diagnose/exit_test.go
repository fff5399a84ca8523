package diagnose

import (
	"slices"
	"strconv"
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

// Two torchruns of a job may be on one host: each has its own node rank. One that has no number may be either.
func TestTwoTorchrunsOnOneHost(t *testing.T) {
	agent := func(pid int, more ...string) scene.Proc {
		return scene.Proc{PID: pid, Role: scene.Agent, Comm: "pt_elastic", State: "S", Env: map[string]string{},
			Argv: slices.Concat([]string{
				"torchrun", "--nnodes", "2"}, more, []string{"--master-addr", "10.0.0.1", "--master-port", "29500", "t.py"})}
	}
	numbered := func(pid, node int) scene.Proc { return agent(pid, "--node-rank", strconv.Itoa(node)) }
	met := func(pid int) scene.Proc {
		return agent(pid, "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.0.0.1:29500")
	}
	rank := func(n, node, parent int) scene.Proc {
		p := waitingRank(20+n, strconv.Itoa(n))
		p.Parent, p.Env["GROUP_RANK"] = parent, strconv.Itoa(node)
		return p
	}
	all := slices.Clip([]scene.Proc{rank(0, 0, 5), rank(1, 0, 5), rank(2, 1, 6)})
	for name, tt := range map[string]struct {
		procs []scene.Proc
		ended bool
	}{
		"numbers":           {append(all, numbered(5, 0), numbered(6, 1)), false},
		"numbers, reversed": {append(all, numbered(6, 1), numbered(5, 0)), false},
		"numbers of ranks":  {append(all, met(5), met(6)), false},
		"no number":         {append(all[:2:2], met(5), met(6)), false},
		"one has ended":     {append(all[:2:2], numbered(5, 0)), true},
	} {
		s := envScene()
		s.Procs = tt.procs
		s.Stores[0].Board.Agents = []tcpstore.Agent{{Node: 0, Local: 2}, {Node: 1, Local: 1}}
		s.Stores[0].Board.Shares = []tcpstore.Share{{Node: 0, World: 3}, {Node: 1, Base: 2, World: 3}}
		if found := views([]scene.Scene{s})[0].endedAgents(); len(found) > 0 != tt.ended {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
