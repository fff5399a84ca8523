package diagnose

import (
	"strconv"
	"testing"

	"launch/diagnose/scene"
)

// A rank that waits at the end of init_process_group for others that do not is not in its script.
func TestARankThatWaitsInInitForRanksThatDoNot(t *testing.T) {
	const in = "init_process_group (torch/distributed/distributed_c10d.py:1800)"
	at := func(i int, frame string, env map[string]string) scene.Proc {
		p := waitingRank(10+i, strconv.Itoa(i))
		p.Threads = append(p.Threads, scene.Thread{Name: "pt_gloo_runloop", State: "S", Count: 1})
		if frame != "" {
			p.Stacks = []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: []string{frame, "<module> (train.py:4)"}}}
		}
		for k, v := range env {
			p.Env[k] = v
		}
		return p
	}
	one := map[string]string{"TORCH_DIST_INIT_BARRIER": "1"}
	const sum = "all_reduce (torch/distributed/distributed_c10d.py:3000)"
	for name, tt := range map[string]struct {
		procs []scene.Proc
		want  bool
	}{
		"one alone":         {[]scene.Proc{at(0, sum, nil), at(1, in, one), at(2, sum, nil)}, true},
		"without stacks":    {[]scene.Proc{at(0, "", nil), at(1, "", one), at(2, "", nil)}, true},
		"all wait":          {[]scene.Proc{at(0, in, one), at(1, in, one), at(2, in, one)}, false},
		"by torch's own":    {[]scene.Proc{at(0, sum, nil), at(1, in, nil), at(2, sum, nil)}, false},
		"it has gone on":    {[]scene.Proc{at(0, sum, nil), at(1, sum, one), at(2, sum, nil)}, false},
		"no other is known": {[]scene.Proc{at(1, in, one)}, false},
	} {
		s := envScene()
		s.Procs = tt.procs
		a := Judge([]scene.Scene{s})[0]
		got := len(a.Why) > 0 && a.Why[0].Cause == "init.barrier"
		if got != tt.want {
			t.Errorf("%s: %+v", name, a.Why)
		}
		for _, r := range a.Ranks {
			if r.Rank == 1 && name == "one alone" && r.Phase != "keys" {
				t.Errorf("%s: the rank is %q", name, r.Phase)
			}
		}
	}
}
