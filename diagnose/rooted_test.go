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
	"launch/internal/tcpstore"
)

// What has a root is left by a rank before others join it: for whom one waits follows from the way of the data, and
// which rank differs does not. In other collectives most are right.
func TestRanksThatHaveLeftABroadcast(t *testing.T) {
	job := func(root string, calls ...string) scene.Scene {
		s := envScene()
		s.Procs, s.Sockets = nil, nil
		b := &tcpstore.Board{Ended: -1, Clients: len(calls)}
		for i, call := range calls {
			at := netip.AddrPortFrom(s.Addrs[0], uint16(45000+i))
			b.Blobs = append(b.Blobs, tcpstore.Blob{Key: "k", Index: i, World: len(calls), Addr: at})
			p := trainingRank(10+i, strconv.Itoa(i), wrapped, call+" (torch/distributed/distributed_c10d.py:4055)",
				"<module> (train.py:10)")
			p.Env["WORLD_SIZE"] = strconv.Itoa(len(calls))
			if call != "all_reduce" {
				p.Stacks[0].Values = map[string]string{"src": root}
			}
			s.Procs = append(s.Procs, p)
			for j := range calls {
				s.Sockets = append(s.Sockets, scene.Socket{PID: 10 + i, State: "established", Local: at,
					Remote: netip.AddrPortFrom(s.Addrs[0], uint16(50000+j)),
					Info:   &scene.Info{Sent: 4096, LastSent: time.Minute, LastRecv: time.Minute}})
			}
		}
		s.Stores[0].Board = b
		return s
	}
	for name, tt := range map[string]struct {
		scene scene.Scene
		says  string
		ranks []int
	}{
		"the source waits": {job("0", "broadcast", "all_reduce", "all_reduce"),
			"rank 0 in broadcast as its source, which rank 1 or 2 has not joined", []int{0, 1, 2}},
		"receivers wait": {job("2", "broadcast", "broadcast", "all_reduce"),
			"ranks 0-1 in broadcast, which rank 2 has not joined", []int{0, 1, 2}},
		"one hands on": {job("0", "all_reduce", "all_reduce", "all_reduce", "broadcast"),
			"rank 3 in broadcast, which rank 1 has not joined", []int{0, 1, 2, 3}},
		"the source of a scatter": {job("1", "all_reduce", "scatter", "all_reduce", "all_reduce"),
			"rank 1 in scatter as its source, which one of ranks 0,2-3 has not joined", []int{0, 1, 2, 3}},
		"without a root": {job("", "all_gather", "all_reduce", "all_reduce"),
			"rank 0 in all_gather, ranks 1-2 in all_reduce", []int{0}},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		i := slices.IndexFunc(a.Why, func(v verdict.Verdict) bool { return v.Cause == "collective.mismatch" })
		if i != 0 || !strings.Contains(a.Why[0].Says, tt.says) || !slices.Equal(a.Why[0].Ranks, tt.ranks) {
			t.Errorf("%s: %+v, want %s", name, a.Why, tt.says)
		}
	}
}
