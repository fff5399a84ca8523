package diagnose

import (
	"strings"
	"testing"

	"launch/diagnose/scene"
)

// A rank whose core is being written waits for a file system since it has crashed; one without a crash only waits.
func TestARankThatWritesItsCoreHasCrashed(t *testing.T) {
	for dumping, want := range map[bool]string{true: "rank.failed", false: "rank.storage"} {
		p := &scene.Proc{PID: 36, State: "D", Wchan: "percpu_rwsem_wait", Dumping: dumping}
		s := &seat{rank: 1, proc: p, node: &node{name: "host1", scene: &scene.Scene{Procs: []scene.Proc{*p}}}}
		v := &view{seats: []*seat{s}, nodes: []*node{s.node}}
		c, ok := v.process(s)
		if !ok || c.Cause != want || strings.Contains(c.what, "has crashed, and the kernel writes its core") != dumping {
			t.Errorf("dumping %t: %s %s", dumping, c.Cause, c.what)
		}
	}
}
