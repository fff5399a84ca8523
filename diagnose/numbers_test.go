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

// initScene is a host with all ranks of a job, which wait in init_process_group for keys of each other. They have
// published the addresses of some ranks of a world of that size.
func initScene(ranks, world int, published ...int) scene.Scene {
	s := envScene()
	s.Procs, s.Stores[0].Board.Blobs, s.Stores[0].Board.Clients = nil, nil, ranks
	for r := range ranks {
		p := waitingRank(10+r, strconv.Itoa(r))
		p.Env["WORLD_SIZE"], p.Env["LOCAL_RANK"] = strconv.Itoa(ranks), "0"
		s.Procs = append(s.Procs, p)
		s.Sockets = append(s.Sockets, scene.Socket{PID: p.PID, State: "established", Remote: s.Stores[0].At,
			Info: &scene.Info{Sent: 99, Received: 99, LastSent: 5 * time.Second, LastRecv: 5 * time.Second}})
	}
	for _, r := range published {
		s.Stores[0].Board.Blobs = append(s.Stores[0].Board.Blobs, tcpstore.Blob{Index: r, Host: "h0", World: world,
			Addr: netip.AddrPortFrom(s.Addrs[0], uint16(40000+r))})
	}
	return s
}

// A script that gives init_process_group numbers of its own waits for ranks that no process is.
func TestAScriptWithNumbersOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scene scene.Scene
		with  func(*scene.Scene)
		cause string // "": neither
		sure  verdict.Sure
		ranks []int
		says  string
	}{
		{"a world of 4", initScene(2, 4, 0, 1), nil, "world.larger", verdict.Certain, []int{0}, "they wait for ranks 2-3"},
		{"LOCAL_RANK", initScene(2, 2, 0), nil, "rank.duplicate", verdict.Certain, []int{1}, "LOCAL_RANK, as it seems"},
		{"another number", initScene(2, 2, 1), nil, "rank.duplicate", verdict.Certain, []int{0}, "another number than RANK"},
		{"addresses of any world", initScene(2, 0, 0), nil, "rank.duplicate", verdict.Certain, []int{1}, ""},
		{"a helper may join", initScene(2, 4, 0, 1), func(s *scene.Scene) {
			s.Procs = append(s.Procs, scene.Proc{PID: 20, Parent: 10, Role: scene.Child, Comm: "python"})
		}, "world.larger", verdict.Possible, []int{0}, ""},
		{"a rank still imports", initScene(2, 4, 0), func(s *scene.Scene) {
			s.Procs[1].Threads = s.Procs[1].Threads[:1]
		}, "", "", nil, ""},
		{"a rank has just called", initScene(2, 2, 0), func(s *scene.Scene) {
			s.Procs[1].Moved.Switches = 9
		}, "", "", nil, ""},
		{"a rank has just asked", initScene(2, 2, 0), func(s *scene.Scene) {
			s.Sockets[1].Info.LastSent, s.Sockets[1].Info.LastRecv = 5*time.Millisecond, time.Minute
		}, "", "", nil, ""},
		{"a rank is not seen", initScene(3, 3, 0, 1), func(s *scene.Scene) { s.Procs = s.Procs[:2] }, "", "", nil, ""},
		{"the store was not read whole", initScene(2, 2, 0), func(s *scene.Scene) { s.Stores[0].Board.Cut = "no time" }, "",
			"", nil, ""},
		{"all have published", initScene(2, 2, 0, 1), nil, "", "", nil, ""},
	} {
		if tt.with != nil {
			tt.with(&tt.scene)
		}
		a := Judge([]scene.Scene{tt.scene})[0]
		i := slices.IndexFunc(a.Why, func(w verdict.Verdict) bool {
			return w.Cause == "world.larger" || w.Cause == "rank.duplicate" && w.Sure != verdict.Likely
		})
		switch {
		case i < 0 && tt.cause != "", i >= 0 && tt.cause == "":
			t.Errorf("%s: %+v", tt.name, a.Why)
		case i < 0:
		case (a.State == verdict.Hung) != (tt.sure == verdict.Certain) || a.Why[i].Cause != tt.cause ||
			a.Why[i].Sure != tt.sure ||
			!slices.Equal(a.Why[i].Ranks, tt.ranks) || !strings.Contains(a.Why[i].Says, tt.says):
			t.Errorf("%s: %s %+v", tt.name, a.State, a.Why[i])
		}
	}
}

// TestAScriptWithAnAddressOfItsOwn: rank 0 runs, and listens elsewhere than its environment says. A rank that has not
// called yet may find it there.
func TestAScriptWithAnAddressOfItsOwn(t *testing.T) {
	const certain, likely, possible = verdict.Certain, verdict.Likely, verdict.Possible
	dials := []string{"init_process_group (torch/distributed/distributed_c10d.py:1700)", "<module> (train.py:4)"}
	imports := []string{"_find_and_load (<frozen importlib._bootstrap>:1178)", "<module> (train.py:1)"}
	for _, tt := range []struct {
		name, listens string
		frames        []string // of rank 1; nil: it is connected to rank 0
		calls         string   // where rank 1 has a connection
		sure          verdict.Sure
		state         verdict.State
	}{
		{"rank 1 calls elsewhere", "[::]:12355", dials, "", certain, verdict.Hung},
		{"rank 1 calls rank 0", "[::]:12355", dials, "10.0.0.1:12355", likely, verdict.Hung},
		{"all are in init", "127.0.0.1:12355", nil, "", likely, verdict.Hung},
		{"no listener is seen", "", dials, "", likely, verdict.Hung},
		{"rank 1 imports", "[::]:12355", imports, "", possible, verdict.Open},
	} {
		s := envScene()
		s.Stores[0].Outcome, s.Stores[0].Board = scene.Refused, nil
		if tt.listens != "" {
			s.Sockets = append(s.Sockets, scene.Socket{PID: 10, State: "listen", Local: netip.MustParseAddrPort(tt.listens)})
		}
		if tt.calls != "" {
			s.Sockets = append(s.Sockets, scene.Socket{PID: 11, State: "established",
				Remote: netip.MustParseAddrPort(tt.calls)})
		}
		if p := &s.Procs[1]; tt.frames != nil {
			p.Threads = p.Threads[:1]
			p.Stacks = []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: tt.frames}}
		}
		a := Judge([]scene.Scene{s})[0]
		i := slices.IndexFunc(a.Why, func(w verdict.Verdict) bool { return w.Cause == "store.elsewhere" })
		if i < 0 || a.Why[i].Sure != tt.sure || a.State != tt.state {
			t.Errorf("%s: %s %+v", tt.name, a.State, a.Why)
		}
	}
}

// A file of init_method that each node has for itself leads no rank to another. Ranks that have met are connected.
func TestAFileThatTheNodesDoNotShare(t *testing.T) {
	for name, tt := range map[string]struct {
		with func(*scene.Scene)
		sure verdict.Sure
	}{
		"none is connected": {func(*scene.Scene) {}, verdict.Certain},
		"two are connected": {func(s *scene.Scene) {
			s.Sockets = append(s.Sockets, scene.Socket{PID: 11, State: "established",
				Remote: netip.MustParseAddrPort("10.0.0.1:40000")})
		}, verdict.Likely},
		"a rank works":           {func(s *scene.Scene) { s.Procs[1].Moved.CPU = time.Second }, verdict.Likely},
		"its stack is not known": {func(s *scene.Scene) { s.Procs[1].Stacks = nil }, verdict.Likely},
		"a rank is not seen": {func(s *scene.Scene) {
			s.Procs[0].Env["WORLD_SIZE"], s.Procs[1].Env["WORLD_SIZE"] = "3", "3"
		}, verdict.Likely},
	} {
		s := initScene(2, 2)
		s.Stores[0].Outcome, s.Stores[0].Board, s.Sockets = scene.Refused, nil, nil
		for i, p := range s.Procs {
			s.Procs[i].Stacks = []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: []string{
				"init_process_group (torch/distributed/distributed_c10d.py:1700)", "<module> (train.py:4)"}}}
			s.Sockets = append(s.Sockets, scene.Socket{PID: p.PID, State: "listen",
				Local: netip.AddrPortFrom(s.Addrs[0], uint16(40000+i))})
		}
		tt.with(&s)
		a := Judge([]scene.Scene{s})[0]
		if i := slices.IndexFunc(a.Why, func(w verdict.Verdict) bool { return w.Cause == "store.elsewhere" }); i < 0 ||
			a.Why[i].Sure != tt.sure {
			t.Errorf("%s: %s %+v", name, a.State, a.Why)
		}
	}
}
