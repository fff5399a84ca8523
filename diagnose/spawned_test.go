package diagnose

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"launch/diagnose/scene"
	"launch/internal/tcpstore"
)

func TestScriptsThatStartOtherNumbersOfRanks(t *testing.T) {
	at := func(n *node, how phase, spawned bool) *seat {
		return &seat{rank: -1, node: n, phase: how, proc: &scene.Proc{Spawned: spawned}}
	}
	of := func(n *node, world int) *seat {
		s := at(n, keys, true)
		s.world = world
		return s
	}
	a, b, c := &node{name: "a"}, &node{name: "b"}, &node{name: "c"}
	two := &tcpstore.Board{Blobs: []tcpstore.Blob{
		{Key: "/x//default_pg/0//cpu//0/0"}, {Key: "/y//default_pg/0//cpu//0/0"}}}
	for _, tc := range []struct {
		name  string
		seats []*seat
		board *tcpstore.Board
		want  string
	}{
		{"uneven", []*seat{at(a, counting, true), at(a, keys, true), at(b, keys, true)}, nil, "a 2, b 1"},
		{"uneven, and each node believes in its own number", []*seat{of(a, 2), of(a, 2), of(b, 1)}, nil,
			"a 2, b 1; all wait in init_process_group, and the number of all that they give it differs: a world_size=2, " +
				"b world_size=1 (certain)"},
		{"the odd node is shown", []*seat{of(a, 1), of(b, 1), of(c, 2), of(c, 2)}, nil, "a 1, c 2; all"},
		{"worlds of which ranks start slowly", []*seat{of(a, 4), of(a, 4), of(a, 4), of(b, 2)}, nil,
			"a world_size=4, b world_size=2 (likely)"},
		{"two worlds on a node", []*seat{of(a, 2), of(a, 1), of(b, 1)}, nil, "(likely)"},
		{"two worlds on the store", []*seat{of(a, 2), of(a, 2), of(b, 1)}, two, "(likely)"},
		{"uneven, one without a stack", []*seat{of(a, 2), of(a, 0), of(b, 1)}, nil, "(likely)"},
		{"uneven, and all know it", []*seat{of(a, 3), of(a, 3), of(b, 3)}, nil, ""},
		{"even", []*seat{at(a, counting, true), at(b, keys, true)}, nil, ""},
		{"uneven, and they work", []*seat{at(a, inside, true), at(a, collective, true), at(b, collective, true)}, nil, ""},
		{"one is not there yet", []*seat{at(a, counting, true), at(a, before, true), at(b, keys, true)}, nil, ""},
		{"of torchrun", []*seat{at(a, counting, false), at(a, keys, false), at(b, keys, false)}, nil, ""},
		{"none is seen", nil, nil, ""},
	} {
		v := &view{seats: tc.seats, board: tc.board}
		got := ""
		for _, c := range v.unlike() {
			got += fmt.Sprintf("%s %s (%s)", c.Cause, c.Says, c.Sure)
		}
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}

// A rank whose environment has no number has the one that its script gives init_process_group, or that of the address
// at which it listens.
func TestRanksWithoutANumber(t *testing.T) {
	at := func(addr string) netip.AddrPort { return netip.MustParseAddrPort(addr) }
	board := &tcpstore.Board{Blobs: []tcpstore.Blob{
		{Index: 0, World: 4, Addr: at("10.0.0.1:5000"), Host: "a"},
		{Index: 1, World: 4, Addr: at("10.0.0.2:5000"), Host: "b"},
		{Index: 2, World: 4, Addr: at("127.0.0.1:6000"), Host: "b"},
		{Group: 1, Index: 3, World: 2, Addr: at("10.0.0.1:7000")},
	}}
	in := []scene.Stack{{Thread: "MainThread", Frames: []string{"init_process_group (torch/distributed/x.py:1)"},
		Values: map[string]string{"rank": "3", "world_size": "4"}}}
	out := []scene.Stack{{Thread: "MainThread", Frames: []string{"main (train.py:1)"},
		Values: map[string]string{"rank": "9"}}}
	for _, tt := range []struct {
		name, addr, host, listens string
		stacks                    []scene.Stack
		calls                     string // a store
		rank, world               int
	}{
		{"it listens", "10.0.0.1", "a", "0.0.0.0:5000", out, "", 0, 4},
		{"the same port elsewhere", "10.0.0.2", "b", "0.0.0.0:5000", nil, "", 1, 4},
		{"on a loopback address of another node", "10.0.0.1", "a", "127.0.0.1:6000", nil, "", -1, 0},
		{"on a loopback address", "10.0.0.2", "b", "127.0.0.1:6000", nil, "", 2, 4},
		{"for another group", "10.0.0.1", "a", "0.0.0.0:7000", nil, "", -1, 0},
		{"it is in init_process_group", "10.0.0.1", "a", "0.0.0.0:8000", in, "10.0.0.1:29600", 3, 4},
		{"it is in that of another job", "10.0.0.1", "a", "0.0.0.0:8000", in, "127.0.0.1:29600", -1, 0},
		{"it has not reached a store", "10.0.0.1", "a", "0.0.0.0:8000", in, "", -1, 0},
		{"its stack is of something else", "10.0.0.1", "a", "0.0.0.0:8000", out, "10.0.0.1:29600", -1, 0},
	} {
		n := &node{name: tt.host, scene: &scene.Scene{Addrs: []netip.Addr{netip.MustParseAddr(tt.addr)},
			Sockets: []scene.Socket{{PID: 7, State: "listen", Local: at(tt.listens)}}}}
		s := &seat{rank: -1, node: n, proc: &scene.Proc{PID: 7, Env: map[string]string{}, Stacks: tt.stacks}}
		if tt.calls != "" {
			n.scene.Sockets = append(n.scene.Sockets, scene.Socket{PID: 7, State: "established", Remote: at(tt.calls)})
		}
		v := &view{board: board, home: reached{n, scene.Store{At: at("10.0.0.1:29600")}}, seats: []*seat{s}}
		v.unnumbered()
		if s.rank != tt.rank || s.world != tt.world || v.world != tt.world || v.nameless() != (tt.rank < 0) {
			t.Errorf("%s: rank %d of %d, job of %d; want %d of %d", tt.name, s.rank, s.world, v.world, tt.rank, tt.world)
		}
	}
}

// One store may have several worlds, each under a prefix of its own, whose ranks have the same numbers.
func TestTwoWorldsOnOneStore(t *testing.T) {
	store := netip.MustParseAddrPort("10.0.0.1:29600")
	job := func(under []string, sizes ...int) *view {
		n := &node{name: "a", scene: &scene.Scene{}}
		v := &view{board: &tcpstore.Board{}, home: reached{n, scene.Store{At: store}}, nodes: []*node{n}}
		for w, size := range sizes {
			for r := range size {
				s := &seat{rank: -1, node: n, proc: &scene.Proc{PID: 10*w + r + 1, Env: map[string]string{}}, phase: keys}
				s.proc.Stacks = []scene.Stack{{Thread: "MainThread", Frames: []string{"init_process_group (torch/x.py:1)"},
					Values: map[string]string{"rank": fmt.Sprint(r), "world_size": fmt.Sprint(size)}}}
				n.scene.Sockets = append(n.scene.Sockets, scene.Socket{PID: s.proc.PID, State: "established", Remote: store})
				v.seats = append(v.seats, s)
				if w < len(under) {
					v.board.Blobs = append(v.board.Blobs, tcpstore.Blob{Key: fmt.Sprint(under[w], r), Index: r, World: size})
				}
			}
		}
		v.unnumbered()
		v.index()
		return v
	}
	const pg = "default_pg/0//cpu//0/"
	for name, tt := range map[string]struct {
		v       *view
		claims  int
		nameful bool
	}{
		"none has published":      {job(nil, 6, 2), 0, false},
		"one has published":       {job([]string{"/x//" + pg}, 6, 2), 0, false},
		"both have published":     {job([]string{"/x//" + pg, "/y//" + pg}, 6, 2), 0, false},
		"of the same size":        {job(nil, 2, 2), 0, true},
		"one world":               {job([]string{"/" + pg}, 4), 0, true},
		"one, with other numbers": {job([]string{"/" + pg, "/" + pg}, 4, 5), 1, false},
	} {
		got := append(tt.v.worlds(), tt.v.twins()...)
		if len(got) != tt.claims || tt.v.nameless() == tt.nameful {
			t.Errorf("%s: %+v, nameless %t", name, got, tt.v.nameless())
		}
	}
}
