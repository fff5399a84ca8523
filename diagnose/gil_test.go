package diagnose

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
)

// A rank whose main thread waits for the GIL is in no collective any more, whatever its stack shows. One that computes
// goes on.
func TestAThreadThatHoldsTheGIL(t *testing.T) {
	job := func(call, on string, cpu time.Duration) scene.Scene {
		s := envScene()
		s.Procs, s.Sockets = nil, nil
		for i, call := range []string{"barrier", "all_reduce", "all_reduce"} {
			s.Procs = append(s.Procs, trainingRank(10+i, strconv.Itoa(i), wrapped,
				call+" (torch/distributed/distributed_c10d.py:4055)", "<module> (train.py:10)"))
		}
		p := &s.Procs[0]
		p.GIL = &scene.Held{Thread: "prefetch", At: "prefetch (train.py:7)", Call: call, On: on}
		p.Moved.CPU = cpu
		return s
	}
	for _, tt := range []struct {
		scene scene.Scene
		says  string // "": nothing of this
	}{
		{job("read", "pipe:[7]", 0), "rank 0 (h0, pid 10) does not go on: its thread prefetch holds Python's global lock " +
			"(GIL) at prefetch (train.py:7), while it waits in native code for a pipe (read)"},
		{job("futex", "", 0), "in native code for a lock"},
		{job("flock", "/data/lock", 0), "in native code for /data/lock (flock)"},
		{job("", "", 0), "in native code"},
		{job("read", "pipe:[7]", 2*time.Second), ""},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		switch is := len(a.Why) > 0 && a.Why[0].Cause == "rank.gil"; {
		case is != (tt.says != ""):
			t.Errorf("%s: %+v", tt.says, a.Why)
		case is && (len(a.Why) > 1 || !a.Certain() || !strings.HasSuffix(a.Why[0].Says, tt.says)):
			t.Errorf("%+v, want %s", a.Why, tt.says)
		}
	}
}
