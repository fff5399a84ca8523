package diagnose

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// A ring in which each rank receives first never ends. While a rank sends elsewhere, data is on the way, or a rank
// is not seen, that is not known.
func TestRanksThatWaitForEachOtherInRecv(t *testing.T) {
	const c10d = " (torch/distributed/distributed_c10d.py:3697)"
	ring := func(calls ...string) scene.Scene {
		s := envScene()
		s.Procs = nil
		for i, call := range calls {
			p := trainingRank(10+i, strconv.Itoa(i), "wrapper (torch/distributed/c10d_logger.py:83)", call+c10d,
				"<module> (train.py:10)")
			if call == "" {
				p.Stacks = nil
			}
			s.Procs = append(s.Procs, p)
			s.Sockets = append(s.Sockets, scene.Socket{PID: 10 + i, State: "established",
				Local:  netip.AddrPortFrom(s.Addrs[0], uint16(40000+i)),
				Remote: netip.AddrPortFrom(s.Addrs[0], uint16(40000+(i+1)%3)),
				Info:   &scene.Info{Sent: 4096, LastSent: time.Minute, LastRecv: time.Minute}})
		}
		return s
	}
	waits := ring("recv", "recv", "recv")
	waits.Sockets[1].SendQ = 4096
	moves := ring("recv", "recv", "recv")
	moves.Sockets[1].Info.LastRecv = time.Second
	computes := ring("recv", "recv", "recv")
	computes.Procs[0].Stacks[0].Frames = []string{"load (train.py:4)"}
	unknown := ring("recv", "recv", "recv")
	unknown.Sockets = nil
	byNCCL := ring("recv", "recv", "recv")
	p := &byNCCL.Procs[2]
	p.Threads = append(p.Threads, scene.Thread{Name: "pt_nccl_watchdg", State: "S", Count: 1})
	for name, tt := range map[string]struct {
		scene scene.Scene
		says  string // "": another cause, or no cause
	}{
		"all receive":      {ring("recv", "recv", "recv"), "all ranks wait to receive (dist.recv), and no rank sends; no"},
		"one sends":        {ring("send", "recv", "recv"), "ranks 1-2 in dist.recv, rank 0 in dist.send"},
		"data on the way":  {waits, ""},
		"bytes move":       {moves, ""},
		"by NCCL":          {byNCCL, ""},
		"no connection":    {unknown, ""},
		"one computes":     {computes, ""},
		"one is not seen":  {ring("recv", "recv"), ""},
		"without a stack":  {ring("recv", "recv", ""), ""},
		"a collective too": {ring("recv", "recv", "all_reduce"), ""},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		i := slices.IndexFunc(a.Why, func(v verdict.Verdict) bool { return v.Cause == "collective.crossed" })
		switch {
		case (i >= 0) != (tt.says != ""):
			t.Errorf("%s: %+v", name, a.Why)
		case i >= 0 && (!a.Certain() || !strings.Contains(a.Why[i].Says, tt.says)):
			t.Errorf("%s: %s, %+v", name, a.State, a.Why[i])
		}
		if name == "one sends" && len(a.Why) > 1 {
			t.Errorf("a send and its recv are no collectives that differ: %+v", a.Why)
		}
	}
}
