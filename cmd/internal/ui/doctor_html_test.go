package ui

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/tcpstore"
)

// hung returns the answer about a job of eight ranks on a node, the last of which sleeps, and a scene.
func hung(nodes int) ([]verdict.Answer, []scene.Scene, Outcome) {
	a := verdict.Answer{State: verdict.Hung, Job: "run<1>", Need: []string{"py-spy on gpu-1"}}
	for r := range 8 * nodes {
		one := verdict.Rank{Rank: r, Node: fmt.Sprintf("gpu-%d", r/8), PID: 100 + r, Phase: "keys", At: "main (train.py:41)"}
		if r == 8*nodes-1 {
			one.Phase, one.At = "before", "<b>sleep</b> (train.py:7)"
			a.Why = []verdict.Verdict{{Cause: "rank.before-init", Sure: verdict.Certain,
				Says:  fmt.Sprintf("rank %d (%s, pid %d) has not called init\x1b[31m", r, one.Node, one.PID),
				Ranks: []int{r}, Nodes: []string{one.Node}, Since: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC),
				Seen: []finding.Seen{{Where: "py-spy", What: "<script>alert(1)</script>"}}, Do: "look at train.py:7"}}
		}
		a.Ranks = append(a.Ranks, one)
	}
	at := netip.MustParseAddrPort("10.0.0.1:29500")
	s := scene.Scene{Host: "gpu-0", Taken: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
		Procs: []scene.Proc{{Role: scene.Rank, State: "S"}, {Role: scene.Rank, State: "S"}, {Role: scene.Agent, State: "S"}},
		Sockets: []scene.Socket{{State: "listen", Local: at, RecvQ: 3}, {State: "syn-sent", Remote: at},
			{State: "established", Remote: at, Info: &scene.Info{Backoff: 4}}},
		Stores: []scene.Store{{Addr: "gpu-0:29500", Kind: "master", Outcome: scene.Answered, Took: 3 * time.Millisecond,
			Board: &tcpstore.Board{
				Keys:    9,
				Clients: 4,
			}}, {Addr: "x:1", Kind: "endpoint", Outcome: scene.NoName, Err: "no such host"}},
		Gaps: []scene.Gap{{What: "stacks of pid 7", Why: "yama's ptrace_scope is 1", Fix: "run it as root"}}}
	return []verdict.Answer{a}, []scene.Scene{s}, Outcome{Version: "v0", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Node: fabric.Node{Hostname: "gpu-0"}}
}

func doctorPageOf(t *testing.T, answers []verdict.Answer, scenes []scene.Scene, o Outcome) (page, words string) {
	t.Helper()
	b, err := DoctorHTML(answers, scenes, o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), wordsOf(t, b)
}

func TestThePageOfTheDoctorHasTheCauseTheRanksAndTheNodes(t *testing.T) {
	answers, scenes, o := hung(2)
	page, words := doctorPageOf(t, answers, scenes, o)
	for _, want := range []string{"rank 15 (gpu-1, pid 115) has not called init", "rank.before-init", "look at train.py:7",
		"<script>alert(1)</script>", "2026-01-02 03:00:00 UTC", "Job run<1>: the job hangs", "ranks 0-14",
		"→ rank 15 (gpu-1)", "in init_process_group, waiting for other ranks, at main (train.py:41)", "py-spy on gpu-1",
		"gpu-0", "gpu-1", "2 × rank in state S", "1 × torchrun in state S|1 × agent in state S",
		"listen on 10.0.0.1:29500, 3 connections not accepted", "syn-sent to 10.0.0.1:29500, no answer",
		"established with 10.0.0.1, sent again and again", "gpu-0:29500 (master): answered in 3ms; 9 keys",
		"x:1 (endpoint): no-name in 0s: no such host", "stacks of pid 7: yama's ptrace_scope is 1; run it as root",
		"launch v0"} {
		found := false
		for one := range strings.SplitSeq(want, "|") {
			found = found || strings.Contains(words, one)
		}
		if !found {
			t.Errorf("the page does not contain %q", want)
		}
	}
	for _, want := range []string{`title="rank 15 on gpu-1, pid 115: not in init_process_group, at &lt;b&gt;sleep`,
		`class="cell f blamed"`, `class="cell w"`, "prefers-color-scheme: dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.ContainsAny(page, "\x1b") {
		t.Error("a control character is on the page")
	}
}

func TestManyRanksHaveSmallCellsAndNodesThatAreAlikeShareARow(t *testing.T) {
	answers, scenes, o := hung(1000)
	page, words := doctorPageOf(t, answers, scenes, o)
	for _, want := range []string{"gpu-0 and 998 alike", "gpu-999", "ranks 0-7998"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if !strings.Contains(page, `class="scroll grid small"`) || len(page) > 100_000 {
		t.Errorf("%d bytes, small %v", len(page), strings.Contains(page, "grid small"))
	}
}

func TestThePageOfANodeWithoutAJobSaysSo(t *testing.T) {
	_, scenes, o := hung(1)
	_, words := doctorPageOf(t, []verdict.Answer{{State: verdict.NoJob}}, scenes, o)
	if !strings.Contains(words, "No rank, torchrun or mpirun was found") || strings.Contains(words, "Who waits for whom") {
		t.Error(words)
	}
	doctorPageOf(t, nil, nil, o)
}
