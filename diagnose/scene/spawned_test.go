package scene

import (
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestAChildOfMultiprocessingIsKnownByItsLine(t *testing.T) {
	for line, want := range map[string]bool{
		"python -c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=7)|--multiprocessing-fork": true,
		"python -c|from multiprocessing.forkserver import main; main(3)":                                          true,
		"python -c|from multiprocessing.resource_tracker import main;main(5)":                                     false,
		"python t.py|--spawn": false,
	} {
		if got := multiprocess(strings.Split(line, "|")); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestAConnectionOfAProcess(t *testing.T) {
	port := freePort(t)
	pid := start(t, exec.Command(python(t), "-c", "import socket, sys, time; "+
		"s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(1); c = s.accept(); time.sleep(600)", port))
	eventually(t, "it listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err == nil
	})
	if connected(tcpOf(pid)) {
		t.Error("it only listens")
	}
	eventually(t, "it is connected", func() bool { return connected(tcpOf(pid)) })
	if inGroup(pid) {
		t.Error("it has no thread of torch")
	}
}

// A rank with torch's store is a client of it, too: its other listeners have no connection of its own.
func TestTheStoreThatAProcessHosts(t *testing.T) {
	at := netip.MustParseAddrPort
	listen := func(local string) Socket { return Socket{State: "listen", Local: at(local)} }
	open := func(local, remote string) Socket {
		return Socket{State: "established", Local: at(local), Remote: at(remote)}
	}
	gloo := []Socket{listen("10.0.0.1:41000"), open("10.0.0.1:41000", "10.0.0.2:5"), open("10.0.0.1:6", "10.0.0.2:42000")}
	for _, tt := range []struct {
		name string
		own  []Socket
		want string
	}{
		{"a store and its own client", []Socket{listen("[::]:29600"),
			open("[::ffff:10.0.0.1]:29600", "[::ffff:10.0.0.1]:7"),
			open("[::ffff:10.0.0.1]:7", "[::ffff:10.0.0.1]:29600")}, "10.0.0.1:29600"},
		{"a client of a store elsewhere", []Socket{open("10.0.0.1:7", "10.0.0.2:29600")}, ""},
		{"a client of a store of another process here", []Socket{open("10.0.0.1:7", "10.0.0.1:29600")}, ""},
		{"Gloo alone", nil, ""},
		{"a pair of sockets of its own", []Socket{open("127.0.0.1:7", "127.0.0.1:8"),
			open("127.0.0.1:8", "127.0.0.1:7")}, ""},
	} {
		got := ""
		if a := hosted(append(tt.own, gloo...)); a.IsValid() {
			got = a.String()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What torchrun has started is a rank, and no script that spawns ranks, whatever its children connect to.
func TestTheChildrenOfARankOfTorchrunAreNoRanks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pid := start(t, exec.Command(python(t), "-c", "import socket, sys, time; "+
		"c = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)",
		strconv.Itoa(l.Addr().(*net.TCPAddr).Port)))
	eventually(t, "it is connected", func() bool { return connected(tcpOf(pid)) })
	for role, want := range map[Role]int{Agent: 0, "": 1} {
		const top, script = 1 << 29, 1<<29 + 1 // of no process
		child := &seen{pid: pid, stat: stat{parent: script, comm: "python"}, mapped: true,
			libs: map[string]string{"torch": ""},
			argv: []string{"python", "-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork"}}
		p := &seen{pid: script, stat: stat{parent: top, comm: "python"}, argv: []string{"python", "train.py"}}
		all := &table{procs: map[int]*seen{top: {pid: top, role: role}, script: p, child.pid: child},
			children: map[int][]int{script: {child.pid}, top: {script}}}
		if got := all.spawned(p); len(got) != want {
			t.Errorf("below %q: %d ranks", role, len(got))
		}
	}
}
