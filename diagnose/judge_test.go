package diagnose

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/tcpstore"
)

// TestCausesAreWhole holds each cause of the table to its form.
func TestCausesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Causes() {
		if seen[c.ID] || c.Title == "" || c.Sign == "" || c.For == "" || c.Against == "" || c.Do == "" || c.Source == "" ||
			c.depth < onTheSpot || c.depth > guess {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
	if _, ok := Find("no.such"); ok {
		t.Error("a cause that the table does not have")
	}
}

func TestNoProcessesAreNoJob(t *testing.T) {
	a := Judge([]scene.Scene{{Host: "h0", Gaps: []scene.Gap{{What: "environments", Why: "of another user"}}}})
	if len(a) != 1 || a[0].State != verdict.NoJob || len(a[0].Need) != 1 {
		t.Errorf("%+v", a)
	}
}

// waitingRank is a rank in init_process_group of a job of env:// on one host.
func waitingRank(pid int, rank string) scene.Proc {
	return scene.Proc{PID: pid, Role: scene.Rank, Comm: "python", State: "S", Wchan: "poll_schedule_timeout",
		Syscall: &scene.Syscall{Name: "poll", Limit: 30 * time.Minute, FD: -1},
		Threads: []scene.Thread{{Name: "python", State: "S", Count: 1}, {Name: "gloo_tcp_loop", State: "S", Count: 1}},
		Env: map[string]string{"RANK": rank, "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1",
			"MASTER_PORT": "29500"}}
}

// trainingRank is one after init_process_group, whose main thread sleeps with these frames; without any, no stack is
// known.
func trainingRank(pid int, rank string, frames ...string) scene.Proc {
	p := waitingRank(pid, rank)
	p.Syscall, p.Wchan = &scene.Syscall{Nr: 202, Name: "futex", FD: -1}, "futex_do_wait"
	p.Threads = append(p.Threads, scene.Thread{Name: "pt_gloo_runloop", Wchan: "futex_do_wait", State: "S", Count: 1})
	if len(frames) > 0 {
		p.Stacks = []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: frames}}
	}
	return p
}

// envScene is a host with ranks 0 and 1 of 3, of which both have published their address.
func envScene() scene.Scene {
	at := netip.MustParseAddrPort("10.0.0.1:29500")
	blob := func(i int) tcpstore.Blob {
		return tcpstore.Blob{Index: i, Host: "h0", Addr: netip.AddrPortFrom(at.Addr(), uint16(40000+i)), World: 3}
	}
	return scene.Scene{Host: "h0", Boot: "b", Span: 3 * time.Second, Addrs: []netip.Addr{at.Addr()},
		Procs: []scene.Proc{waitingRank(10, "0"), waitingRank(11, "1")},
		Stores: []scene.Store{{Addr: at.String(), At: at, Outcome: scene.Answered,
			Board: &tcpstore.Board{Keys: 3, Clients: 3, Ended: -1, Blobs: []tcpstore.Blob{blob(0), blob(1)}}}}}
}

// TestOneHostDoesNotSayThatARankOfAnotherIsGone: under env:// a rank that is not seen may run elsewhere.
func TestOneHostDoesNotSayThatARankOfAnotherIsGone(t *testing.T) {
	a := Judge([]scene.Scene{envScene()})[0]
	for _, v := range a.Why {
		if v.Cause == "rank.gone" {
			t.Errorf("%+v", v)
		}
	}
	if len(a.Why) == 0 || !slices.Equal(a.Why[0].Ranks, []int{2}) {
		t.Errorf("%+v", a)
	}
}

// TestANodeWhoseLaunchHasLeft: the ranks that wait, wait for those of that node. One of another job says nothing.
func TestANodeWhoseLaunchHasLeft(t *testing.T) {
	for port, want := range map[int]string{29500: "node.ended", 29501: "rank.duplicate"} {
		gone := scene.Scene{Host: "h0", Ended: []scene.Ended{{Name: "node 2 h2 (10.0.0.3)", Rank: 2, Port: port}}}
		a := Judge([]scene.Scene{envScene(), gone})[0]
		if len(a.Why) == 0 || a.Why[0].Cause != want || !slices.Equal(a.Why[0].Ranks, []int{2}) {
			t.Errorf("port %d: %+v", port, a)
		}
	}
}

func TestANodeThatHasNotJoinedHasAName(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.1:29500")
	zero, one := 0, 1
	waits := scene.Scene{Host: "h0", Boot: "b0", Span: 3 * time.Second, Addrs: []netip.Addr{at.Addr()}, Node: &zero,
		Procs: []scene.Proc{{PID: 7, Role: scene.Agent, Comm: "pt_elastic", State: "S", Argv: []string{"torchrun", "--nnodes",
			"2", "--node-rank", "0", "--master-addr", "10.0.0.1", "--master-port", "29500", "train.py"}}},
		Stores: []scene.Store{{Addr: at.String(), At: at, Kind: "master", Outcome: scene.Answered,
			Board: &tcpstore.Board{Keys: 2, Clients: 1, Ended: -1, Agents: []tcpstore.Agent{{Node: 0}}}}}}
	there := scene.Scene{Host: "h1", Boot: "b1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, Node: &one}
	gone := scene.Scene{Host: "h0", Ended: []scene.Ended{{Name: "node 1 h1 (10.0.0.2)", Rank: 1, Port: 29500}}}
	for want, scenes := range map[string][]scene.Scene{
		"1 node of 2 has not joined: h1; ":                                          {waits, there},
		"1 node of 2 has not joined: node 1 h1 (10.0.0.2), whose launch has left; ": {waits, gone},
		"1 node of 2 has not joined: node 1; ":                                      {waits},
	} {
		a := Judge(scenes)[0]
		if !slices.ContainsFunc(a.Why, func(v verdict.Verdict) bool { return strings.HasPrefix(v.Says, want) }) {
			t.Errorf("want %q: %+v", want, a)
		}
	}
}

// plainRank is the rank of a program without torch on its own host, with connections to other hosts; it does not move.
func plainRank(rank int, argv string, peers ...int) scene.Scene {
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }
	n := strconv.Itoa(rank)
	s := scene.Scene{Host: "h" + n, Boot: "b" + n, Span: 3 * time.Second, Addrs: []netip.Addr{addr(rank)},
		Procs: []scene.Proc{{PID: 10 + rank, Role: scene.Rank, Comm: argv, Argv: []string{argv}, State: "S",
			Env: map[string]string{"RANK": n, "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}}}}
	for _, p := range peers {
		s.Sockets = append(s.Sockets, scene.Socket{PID: 10 + rank, State: "established",
			Local: netip.AddrPortFrom(addr(rank), 40000), Remote: netip.AddrPortFrom(addr(p), 29500)})
	}
	return s
}

// TestARankWithoutAConnectionKeepsTheOthers: in a program without torch the ranks that are connected wait for the one
// that is not, or for a node that has left.
func TestARankWithoutAConnectionKeepsTheOthers(t *testing.T) {
	zero, one, two := plainRank(0, "python", 1), plainRank(1, "python", 0), plainRank(2, "sleep")
	gone := scene.Scene{Host: "h0", Ended: []scene.Ended{{Name: "node 2 h2 (10.0.0.3)", Rank: 2, Port: 29500}}}
	busy := two
	busy.Procs = []scene.Proc{two.Procs[0]}
	busy.Procs[0].State = "R"
	asks := plainRank(2, "python", 0)
	asks.Procs[0].Syscall = &scene.Syscall{Name: "read"} // of descriptor 0
	receives := func(rank int) scene.Scene {
		s := plainRank(rank, "python", (rank+1)%3)
		s.Procs[0].Syscall = &scene.Syscall{Name: "recvfrom", FD: 5, Socket: 77}
		return s
	}
	sleeps := plainRank(2, "python", 0)
	sleeps.Procs[0].Syscall = &scene.Syscall{Name: "clock_nanosleep", FD: -1}
	for name, tt := range map[string]struct {
		scenes []scene.Scene
		cause  string
		sure   verdict.Sure
		ranks  []int
	}{
		"one sleeps": {[]scene.Scene{receives(0), receives(1), sleeps}, "rank.before-init", verdict.Certain, []int{2}},
		"all receive": {[]scene.Scene{receives(0), receives(1), receives(2)}, "rank.before-init", verdict.Certain,
			[]int{0, 1, 2}},
		"one sleeps, and the calls of others are not seen": {[]scene.Scene{zero, one, sleeps}, "rank.before-init",
			verdict.Certain, []int{0, 1, 2}},
		"one has none": {[]scene.Scene{zero, one, two}, "rank.before-init", verdict.Certain, []int{2}},
		"another program": {[]scene.Scene{plainRank(0, "python"), plainRank(1, "python"), two}, "rank.before-init",
			verdict.Certain, []int{2}},
		"none has any": {[]scene.Scene{plainRank(0, "python"), plainRank(1, "python"), plainRank(2, "python")},
			"rank.before-init", verdict.Certain, []int{0, 1, 2}},
		"all have some": {[]scene.Scene{zero, one, plainRank(2, "python", 0)}, "rank.before-init", verdict.Certain,
			[]int{0, 1, 2}},
		"one waits for input": {[]scene.Scene{zero, one, asks}, "rank.before-init", verdict.Certain, []int{2}},

		"one works":       {[]scene.Scene{zero, one, busy}, "rank.working", verdict.Certain, []int{2}},
		"a node has left": {[]scene.Scene{zero, one, gone}, "node.ended", verdict.Likely, []int{2}},
	} {
		a := Judge(tt.scenes)[0]
		if len(a.Why) != 1 || a.Why[0].Cause != tt.cause || a.Why[0].Sure != tt.sure ||
			!slices.Equal(a.Why[0].Ranks, tt.ranks) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestARefusedStoreIsOpenUntilItsHostIsSeen: its torchrun may still import torch, which only that host shows.
func TestARefusedStoreIsOpenUntilItsHostIsSeen(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.1:29500")
	waits := func(line ...string) scene.Scene {
		return scene.Scene{Host: "h1", Boot: "b1", Span: 3 * time.Second,
			Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
			Procs: []scene.Proc{{PID: 7, Role: scene.Agent, Comm: "pt_elastic", State: "S",
				Argv: append([]string{"torchrun", "--nnodes", "2"}, line...)}},
			Stores: []scene.Store{{Addr: at.String(), At: at, Kind: "master", Outcome: scene.Refused}}}
	}
	static := waits("--node-rank", "1", "--master-addr", "10.0.0.1", "--master-port", "29500", "train.py")
	c10d := waits("--rdzv-backend", "c10d", "--rdzv-endpoint", "10.0.0.1:29500", "train.py")
	host := scene.Scene{Host: "h0", Boot: "b0", Span: 3 * time.Second, Addrs: []netip.Addr{at.Addr()}}
	starts := host
	starts.Procs = []scene.Proc{{PID: 9, Role: scene.Agent, Comm: "python", State: "R", Argv: []string{"torchrun",
		"--nnodes", "2", "--node-rank", "0", "--master-addr", "10.0.0.1", "--master-port", "29500", "train.py"},
		Moved: scene.Moved{CPU: 3 * time.Second}}}
	starts.Stores = static.Stores
	ends := starts
	ends.Procs = slices.Clone(starts.Procs)
	ends.Procs[0].Comm = scene.Elastic
	empty := host
	empty.Stores = static.Stores
	for _, tt := range []struct {
		name   string
		scenes []scene.Scene
		cause  string
		sure   verdict.Sure
		state  verdict.State
	}{
		{"a waiting node alone", []scene.Scene{static}, "store.refused", verdict.Possible, verdict.Open},
		{"under c10d", []scene.Scene{c10d}, "store.refused", verdict.Possible, verdict.Open},
		{"its host has no torchrun", []scene.Scene{static, empty}, "store.refused", verdict.Certain, verdict.Hung},
		{"its host imports torch", []scene.Scene{static, starts}, "rank.working", verdict.Certain, verdict.Slow},
		{"the torchrun of its host has begun, and ends", []scene.Scene{static, ends}, "", "", verdict.Open},
	} {
		a := Judge(tt.scenes)[0]
		if tt.cause == "" && len(a.Why) == 0 && a.State == tt.state {
			continue
		}
		if len(a.Why) == 0 || a.Why[0].Cause != tt.cause || a.Why[0].Sure != tt.sure || a.State != tt.state {
			t.Errorf("%s: %s, %+v", tt.name, a.State, a.Why)
		}
	}
}

// TestEqualClaimsBecomeOne: 8 stopped ranks are one sentence.
func TestEqualClaimsBecomeOne(t *testing.T) {
	s := envScene()
	for i := range s.Procs {
		s.Procs[i].State = "T"
	}
	a := Judge([]scene.Scene{s})[0]
	if len(a.Why) == 0 || a.Why[0].Cause != "rank.stopped" || !slices.Equal(a.Why[0].Ranks, []int{0, 1}) ||
		!strings.HasPrefix(a.Why[0].Says, "ranks 0-1 (h0) are stopped") {
		t.Errorf("%+v", a.Why)
	}
}

// TestTwoContainersOfAHostAreTwoNodes: the processes of two network namespaces are of two nodes, each with its name.
func TestTwoContainersOfAHostAreTwoNodes(t *testing.T) {
	s := envScene()
	s.Net = 1
	for i := range s.Procs {
		s.Procs[i].Net = uint64(2 + i)
		s.Procs[i].Env["HOSTNAME"] = "pod-" + string(rune('0'+i))
	}
	s.Procs[1].State = "T"
	a := Judge([]scene.Scene{s})[0]
	if len(a.Why) == 0 || !slices.Equal(a.Why[0].Nodes, []string{"pod-1"}) {
		t.Errorf("%+v", a.Why)
	}
}

// TestALargeJobIsJudgedQuickly: 4,096 ranks on 512 nodes, of which one has not come.
func TestALargeJobIsJudgedQuickly(t *testing.T) {
	const nodes, local = 512, 8
	base := envScene().Stores[0]
	board := tcpstore.Board{Keys: 9999, Clients: nodes * local, Ended: -1}
	var scenes []scene.Scene
	for n := range nodes {
		s := scene.Scene{Host: "h" + string(rune('0'+n%10)) + time.Duration(n).String(), Span: 3 * time.Second}
		board.Shares = append(board.Shares, tcpstore.Share{Node: n, Base: n * local, World: nodes * local})
		board.Agents = append(board.Agents, tcpstore.Agent{Node: n, Local: local})
		for r := n * local; r < (n+1)*local; r++ {
			p := waitingRank(r, time.Duration(r).String())
			p.Env = map[string]string{"RANK": itoa(r), "WORLD_SIZE": itoa(nodes * local), "GROUP_RANK": itoa(n),
				"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
			if s.Procs = append(s.Procs, p); r != 77 {
				board.Blobs = append(board.Blobs, tcpstore.Blob{Index: r, Host: s.Host, World: nodes * local})
			}
		}
		if n == 0 {
			st := base
			st.Board = &board
			s.Stores = []scene.Store{st}
		}
		scenes = append(scenes, s)
	}
	scenes[77/local].Procs[77%local].Threads = nil
	began := time.Now()
	a := Judge(scenes)[0]
	t.Logf("%d scenes in %s", nodes, time.Since(began))
	if len(a.Why) != 1 || !slices.Equal(a.Why[0].Ranks, []int{77}) {
		t.Errorf("%+v", a.Why)
	}
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// FuzzJudge: no scene that passes its bounds ends the judge.
func FuzzJudge(f *testing.F) {
	files, _ := filepath.Glob("testdata/scenes/*.json.gz")
	for _, file := range files[:min(len(files), 12)] {
		if text, err := json.Marshal(readGolden(f, file)); err == nil {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var all []scene.Scene
		if json.Unmarshal(text, &all) != nil {
			return
		}
		for i := range all {
			if all[i].Bound() != nil {
				return
			}
		}
		for _, a := range Judge(all) {
			if _, err := json.Marshal(a); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestANodeWhoseAnswerDoesNotArrive: of several, the reason is on the way to the one that asks.
func TestANodeWhoseAnswerDoesNotArrive(t *testing.T) {
	unheard := func(port int, names ...string) scene.Scene {
		s := scene.Scene{Host: "h0"}
		for i, name := range names {
			s.Unheard = append(s.Unheard, scene.Ended{Name: name, Rank: i + 1, Port: port})
		}
		return s
	}
	mute := unheard(29500, "h1")
	mute.Unheard[0].Mute = true
	for _, tt := range []struct {
		silent scene.Scene
		cause  string
		nodes  []string
	}{
		{unheard(29500, "h1"), "path.mtu", []string{"h1"}},
		{unheard(29500, "h1", "h2"), "path.mtu", []string{"h0"}},
		{unheard(29501, "h1"), "rank.duplicate", nil},
		{mute, "node.frozen", []string{"h1"}},
	} {
		a := Judge([]scene.Scene{envScene(), tt.silent})[0]
		if !slices.ContainsFunc(a.Why, func(v verdict.Verdict) bool {
			return v.Cause == tt.cause && slices.Equal(v.Nodes, tt.nodes)
		}) {
			t.Errorf("%+v: %+v", tt.silent.Unheard, a.Why)
		}
	}
}

// TestANodeWithoutRanksIsNamed: launch has started its command, and neither a torchrun nor a rank is there.
func TestANodeWithoutRanksIsNamed(t *testing.T) {
	zero, one := envScene(), plainRank(1, "python")
	zero.Stores, zero.Node = nil, new(0)
	one.Node, one.Procs = new(1), []scene.Proc{{PID: 7, Role: scene.Launch, Comm: "launch"}}
	a := Judge([]scene.Scene{zero, one})[0]
	if len(a.Why) == 0 || a.Why[0].Cause != "node.missing" || !slices.Equal(a.Why[0].Nodes, []string{one.Host}) {
		t.Errorf("%+v", a.Why)
	}
}
