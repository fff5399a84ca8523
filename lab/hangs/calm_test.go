package hangs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A command is calm if it and its children use less than calmShare of a core over calmSpan, and want no more: on a
// busy machine one that works gets little. Python has loaded torch only after calmLeast of processor time.
const (
	calmSpan  = 1500 * time.Millisecond
	calmShare = 0.15
	calmLeast = time.Second
)

// calms waits until the commands of the job, whose ranks have not begun, wait for something.
func (b *bed) calms() {
	b.t.Helper()
	began := time.Now()
	before := b.used()
	for {
		time.Sleep(calmSpan)
		after, busy := b.used(), ""
		for _, r := range b.runs {
			pid := r.cmd.Process.Pid
			now, living := after[pid]
			share := (now.ran + now.waited - before[pid].ran - before[pid].waited).Seconds() / calmSpan.Seconds()
			switch {
			case !living:
			case share > calmShare:
				busy = fmt.Sprintf("process %d wants %.0f %% of a core", pid, 100*share)
			case now.ran < calmLeast && !b.precedes(pid):
				busy = fmt.Sprintf("process %d has used %s", pid, now.ran)
			}
		}
		if busy == "" {
			return
		}
		if time.Since(began) > upLimit {
			b.t.Fatalf("the job does not wait: %s", busy)
		}
		before = after
	}
}

// precedes reports whether a command may wait before it becomes Python: launch for a node, mpirun for its daemons.
func (b *bed) precedes(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(line), "\x00")
	return strings.HasSuffix(name, "mpirun") || name == tools.launch && len(b.runs) < b.kind.hosts
}

// usage is the processor time of threads, and how long they waited for a processor.
type usage struct{ ran, waited time.Duration }

// used returns the usage of each command that lives, with what it has started.
func (b *bed) used() map[int]usage {
	out := map[int]usage{}
	for _, r := range b.runs {
		select {
		case <-r.done:
		default:
			pid := r.cmd.Process.Pid
			out[pid] = usageOf(pid)
		}
	}
	return out
}

func usageOf(pid int) (sum usage) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(filepath.Join(task, "schedstat"))
		var ran, waited time.Duration
		_, _ = fmt.Sscan(string(text), &ran, &waited)
		children, _ := os.ReadFile(filepath.Join(task, "children"))
		for child := range strings.FieldsSeq(string(children)) {
			n, _ := strconv.Atoi(child)
			below := usageOf(n)
			ran, waited = ran+below.ran, waited+below.waited
		}
		sum.ran, sum.waited = sum.ran+ran, sum.waited+waited
	}
	return sum
}
