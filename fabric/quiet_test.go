package fabric

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"launch/fabric/gpu"
)

// watched records the names that are opened or listed.
type watched struct {
	fstest.MapFS
	mu    *sync.Mutex
	names map[string]bool
}

func (w watched) Open(name string) (fs.File, error) {
	w.mu.Lock()
	w.names[name] = true
	w.mu.Unlock()
	return w.MapFS.Open(name)
}

func (w watched) ReadDir(name string) ([]fs.DirEntry, error) {
	w.Open(name)
	return w.MapFS.ReadDir(name)
}

// Each read of a counter is a command to the firmware, and on a restricted function a
// line in the kernel log.
func TestNothingSweepsCounters(t *testing.T) {
	m := eightGPUs()
	entries, _ := fs.ReadDir(m.sys, classInfiniBand)
	for _, e := range entries {
		at := path.Join(classInfiniBand, e.Name())
		target, err := fs.ReadLink(m.sys, at)
		if err != nil {
			t.Fatal(err)
		}
		at = path.Join(classInfiniBand, target)
		for _, dir := range []string{"ports/1/counters", "ports/1/counters_ext", "ports/1/hw_counters", "hw_counters",
			"diag_counters"} {
			files(m.sys, path.Join(at, dir), map[string]string{"symbol_error": "0", "port_rcv_data": "1"})
		}
	}
	sys := watched{m.sys, new(sync.Mutex), map[string]bool{}}
	if n := Detect(t.Context(), m.roots(sys), Options{}); len(n.HCAs) != len(entries) || len(n.HCAs) == 0 {
		t.Fatalf("%d HCAs, want %d", len(n.HCAs), len(entries))
	}
	states := 0
	for _, name := range slices.Sorted(maps.Keys(sys.names)) {
		if strings.Contains(name, "counters") {
			t.Errorf("%s was read", name)
		}
		if strings.HasSuffix(name, "/state") {
			states++
		}
	}
	if states == 0 {
		t.Error("not even the state of a port was read: the test watches nothing")
	}
}

// The command inherits what launch inherited, and no file that launch opened.
func TestLookingAroundLeavesNoDescriptorOpen(t *testing.T) {
	open := func() (out []string) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			target, err := os.Readlink("/proc/self/fd/" + e.Name())
			if err == nil && !strings.HasSuffix(target, "/fd") { // except this listing's own
				out = append(out, e.Name()+" "+target)
			}
		}
		return out
	}
	look := func() {
		roots := Live()
		Detect(t.Context(), roots, Options{})
		AskGPU(t.Context(), roots, gpu.Question{})
		m := eightGPUs() // a child for libibverbs, even if this machine has no RDMA
		AskVerbs(t.Context(), m.roots(m.sys))
		if roots.RDMA != nil {
			roots.RDMA() // Detect asks only if there is a device
		}
	}
	look() // the runtime opens its poller once, and never closes it
	before := open()
	look()
	for _, fd := range open() {
		if !slices.Contains(before, fd) {
			t.Errorf("descriptor %s is left open", fd)
		}
	}
}
