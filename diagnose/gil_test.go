package diagnose

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// A rank whose main thread waits for the GIL is in no collective any more, whatever its stack shows. One that computes
// goes on.
func TestAThreadThatHoldsTheGIL(t *testing.T) {
	job := func(call, on string, cpu, over time.Duration) scene.Scene {
		s := envScene()
		s.Procs, s.Sockets = nil, nil
		for i, call := range []string{"barrier", "all_reduce", "all_reduce"} {
			s.Procs = append(s.Procs, trainingRank(10+i, strconv.Itoa(i), wrapped,
				call+" (torch/distributed/distributed_c10d.py:4055)", "<module> (train.py:10)"))
		}
		p := &s.Procs[0]
		p.GIL = &scene.Held{Thread: "prefetch", At: "prefetch (train.py:7)", Call: call, On: on, Over: over}
		p.Moved.CPU = cpu
		return s
	}
	for _, tt := range []struct {
		scene scene.Scene
		sure  verdict.Sure
		says  string // "": nothing of this
	}{
		{job("read", "pipe:[7]", 0, 21*time.Second), verdict.Likely, "rank 0 (h0, pid 10) does not go on: its " +
			"thread prefetch holds Python's global lock (GIL) at prefetch (train.py:7), while it waits in native code for " +
			"a pipe (read), since 21 s; it goes on once that has ended"},
		{job("read", "socket:[7]", 0, 0), verdict.Likely, "for a connection (read); it goes on once that has ended"},
		{job("futex", "", 0, 0), verdict.Likely, "in native code for a lock; it goes on once that has ended"},
		{job("flock", "/data/lock", 0, 0), verdict.Likely, "for /data/lock (flock); it goes on once that has ended"},
		{job("", "", 0, 0), verdict.Likely, "in native code; it goes on once that has ended"},
		{job("read", "pipe:[7]", 2*time.Second, 0), "", ""},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		switch is := len(a.Why) > 0 && a.Why[0].Cause == "rank.gil"; {
		case is != (tt.says != ""):
			t.Errorf("%s: %+v", tt.says, a.Why)
		case is && (a.Why[0].Sure != tt.sure || !strings.HasSuffix(a.Why[0].Says, tt.says)):
			t.Errorf("%+v, want %s, %s", a.Why, tt.sure, tt.says)
		case is && tt.sure == verdict.Likely && a.Why[0].Idle != tt.scene.Procs[0].GIL.Over:
			t.Errorf("%s: it waits for %s", tt.says, a.Why[0].Idle)
		}
	}
}
