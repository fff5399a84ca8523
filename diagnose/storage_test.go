package diagnose

import (
	"testing"
	"time"

	"launch/diagnose/scene"
)

// Of each of many ranks it is asked for how long the others wait, and all sockets are gone through once.
func TestForHowLongRanksWaitIsFoundOnce(t *testing.T) {
	n := &node{name: "a", scene: &scene.Scene{Sockets: []scene.Socket{{PID: 7, State: "established",
		Info: &scene.Info{Sent: 100, Received: 100, LastSent: time.Minute, LastRecv: time.Minute}}}}}
	v := &view{nodes: []*node{n}, seats: []*seat{{node: n, proc: &scene.Proc{PID: 7}}}}
	if got := v.waited(); got != time.Minute {
		t.Fatalf("%s", got)
	}
	n.scene.Sockets = nil
	if got := v.waited(); got != time.Minute || v.longest() != 0 {
		t.Errorf("asked again: %s", got)
	}
}
