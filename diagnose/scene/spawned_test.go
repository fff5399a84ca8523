package scene

import (
	"net"
	"os"
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if connected(os.Getpid()) {
		t.Error("it only listens")
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !connected(os.Getpid()) {
		t.Error("it is connected")
	}
	if inGroup(os.Getpid()) {
		t.Error("it has no thread of torch")
	}
}
