package hangs

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// A process is calm if it uses less than calmShare of a core over calmSpan. Python has loaded torch only after
// calmLeast of processor time.
const (
	calmSpan  = 1500 * time.Millisecond
	calmShare = 0.15
	calmLeast = time.Second
	tick      = 10 * time.Millisecond // of /proc/PID/stat
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
			used := (now - before[pid]).Seconds() / calmSpan.Seconds()
			switch {
			case !living:
			case used > calmShare:
				busy = fmt.Sprintf("process %d uses %.0f %% of a core", pid, 100*used)
			case now < calmLeast && !b.precedes(pid):
				busy = fmt.Sprintf("process %d has used %s", pid, now)
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

// used returns the processor time of each command that lives.
func (b *bed) used() map[int]time.Duration {
	out := map[int]time.Duration{}
	for _, r := range b.runs {
		select {
		case <-r.done:
			continue
		default:
		}
		pid := r.cmd.Process.Pid
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, fields, _ := strings.Cut(string(text), ") ")
		var user, system int64
		if f := strings.Fields(fields); len(f) > 12 {
			_, _ = fmt.Sscan(f[11]+" "+f[12], &user, &system)
		}
		out[pid] = time.Duration(user+system) * tick
	}
	return out
}
