package scene

import (
	"net"
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
	if connected(pid) {
		t.Error("it only listens")
	}
	eventually(t, "it is connected", func() bool { return connected(pid) })
	if inGroup(pid) {
		t.Error("it has no thread of torch")
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
	eventually(t, "it is connected", func() bool { return connected(pid) })
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
