package diagnose

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/ncclras"
)

// ncclScene is a host with ranks 0 to 2 of 4, all in a collective, and what NCCL's RAS says of them.
func ncclScene(r ncclras.Report) scene.Scene {
	at := netip.MustParseAddr("10.0.0.1")
	ras := netip.MustParseAddrPort("127.0.0.1:28028")
	s := scene.Scene{Host: "h0", Boot: "b", Span: 3e9, Addrs: []netip.Addr{at}}
	for i, rank := range []string{"0", "1", "2"} {
		s.Procs = append(s.Procs, scene.Proc{PID: 10 + i, Role: scene.Rank, Comm: "python", State: "S",
			Wchan:   "futex_do_wait",
			Threads: []scene.Thread{{Name: "pt_nccl_watchdg", State: "S", Count: 1}},
			Env:     map[string]string{"RANK": rank, "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}})
		s.Sockets = append(s.Sockets, scene.Socket{PID: 10 + i, State: "listen", Local: ras})
	}
	s.RAS = []scene.RAS{{At: ras, PID: 10, Outcome: scene.Answered, Report: &r, Still: true}}
	return s
}

func member(rank, pid int, addr string) ncclras.Member {
	return ncclras.Member{Rank: rank, PID: pid, Addr: netip.MustParseAddr(addr)}
}

func TestWhatNCCLSaysIsJudged(t *testing.T) {
	op := func(name string, most, odd uint64, who ncclras.Member) ncclras.Op {
		return ncclras.Op{Name: name, Shares: []ncclras.Share{{Launched: most, Count: 3},
			{Launched: odd, Count: 1, Who: []ncclras.Member{who}}}}
	}
	mine, away := member(1, 11, "10.0.0.1"), member(3, 77, "10.0.0.2")
	all := func(c ncclras.Comm) ncclras.Report { c.Size = 4; return ncclras.Report{Comms: []ncclras.Comm{c}} }
	dead := all(ncclras.Comm{Missing: []ncclras.Member{away}})
	dead.Dead = []ncclras.Member{member(-1, 77, "10.0.0.2")}
	silent := all(ncclras.Comm{Missing: []ncclras.Member{mine}})
	silent.Silent = []ncclras.Member{member(-1, 11, "10.0.0.1")}
	for _, c := range []struct {
		name   string
		report ncclras.Report
		cause  string
		ranks  []int
		says   string
	}{
		{"behind", all(ncclras.Comm{Ops: []ncclras.Op{op("AllReduce", 41, 40, mine)}}), "nccl.behind", []int{1},
			"rank 1 (h0, pid 11) is behind"},
		{"behind elsewhere", all(ncclras.Comm{Ops: []ncclras.Op{op("AllReduce", 41, 40, away)}}), "nccl.behind", []int{3},
			"rank 3 (10.0.0.2, pid 77) is behind"},
		{"another collective", all(ncclras.Comm{Ops: []ncclras.Op{op("AllReduce", 41, 40, mine),
			op("Broadcast", 3, 4, mine)}}), "collective.mismatch", []int{1}, "other collectives"},
		{"dead", dead, "nccl.dead", []int{3}, "rank 3 (10.0.0.2, pid 77)"},
		{"silent", silent, "nccl.silent", []int{1}, "rank 1 (h0, pid 11) does not answer"},
		{"error", all(ncclras.Comm{Errors: []ncclras.Share{{State: "System error", Count: 1,
			Who: []ncclras.Member{mine}}}}), "nccl.error", []int{1}, "System error"},
		{"not joined", all(ncclras.Comm{States: []ncclras.Share{{State: "INIT", Count: 3}},
			Outside: []ncclras.Member{mine}}), "nccl.join", []int{1}, "is not in NCCL's communicator"},
		{"half and half", all(ncclras.Comm{Ops: []ncclras.Op{{Name: "AllReduce", Shares: []ncclras.Share{
			{Launched: 41, Count: 2, Who: []ncclras.Member{mine}}, {Launched: 40, Count: 2,
				Who: []ncclras.Member{away}}}}}}), "collective.idle", []int(nil), ""},
	} {
		a := Judge([]scene.Scene{ncclScene(c.report)})[0]
		if len(a.Why) == 0 || a.Why[0].Cause != c.cause || !slices.Equal(a.Why[0].Ranks, c.ranks) ||
			!strings.Contains(a.Why[0].Says, c.says) {
			t.Errorf("%s: %+v", c.name, a.Why)
		}
	}
}

// TestACollectiveThatNCCLHasLaunchedIsProgress: counts that grow are a job that runs, whatever differs.
func TestACollectiveThatNCCLHasLaunchedIsProgress(t *testing.T) {
	s := ncclScene(ncclras.Report{Comms: []ncclras.Comm{{Size: 4, Ops: []ncclras.Op{{Name: "AllReduce",
		Shares: []ncclras.Share{{Launched: 41, Count: 3}, {Launched: 40, Count: 1,
			Who: []ncclras.Member{member(1, 11, "10.0.0.1")}}}}}}}})
	s.RAS[0].Still, s.RAS[0].Moved = false, true
	if a := Judge([]scene.Scene{s})[0]; a.State != verdict.Running || len(a.Why) > 0 {
		t.Errorf("%+v", a)
	}
}

// TestAServiceOfAnotherJobSaysNothing: where a process of another job listens as well, it may have answered.
func TestAServiceOfAnotherJobSaysNothing(t *testing.T) {
	s := ncclScene(ncclras.Report{Dead: []ncclras.Member{member(-1, 11, "10.0.0.1")}})
	s.Sockets = append(s.Sockets, scene.Socket{PID: 99, State: "listen", Local: s.RAS[0].At})
	for _, v := range Judge([]scene.Scene{s})[0].Why {
		if strings.HasPrefix(v.Cause, "nccl.") {
			t.Errorf("%+v", v)
		}
	}
}

// TestAStoppedRankExplainsThatNCCLGetsNoAnswer: one cause, and not the one that follows from it.
func TestAStoppedRankExplainsThatNCCLGetsNoAnswer(t *testing.T) {
	s := ncclScene(ncclras.Report{Silent: []ncclras.Member{member(-1, 11, "10.0.0.1")}})
	s.Procs[1].State = "T"
	if a := Judge([]scene.Scene{s})[0]; len(a.Why) != 1 || a.Why[0].Cause != "rank.stopped" {
		t.Errorf("%+v", a.Why)
	}
}
