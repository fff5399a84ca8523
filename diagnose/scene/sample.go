package scene

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// counts are what grows while a process works. Children that ended and were waited for are included.
type counts struct{ cpu, faults, read, rss int64 }

// moment is one sample of the node: who is whose child, and what each process of the job has done so far.
type moment struct {
	stats    map[int]stat
	children map[int][]int
	read     map[int]int64 // rchar
	wrote    map[int]wrote
	of       map[int]*facts
	disks    map[string]int64 // by device, as 8:1: how many reads and writes it has completed
}

// wrote is what a process alone has written by write(2) so far.
type wrote struct{ calls, bytes int64 }

// facts are what one process of the job is doing.
type facts struct {
	status   []byte
	switches int64
	threads  map[int]thread
	futexes  map[int]futex // of the threads that wait for one
	files    []File
	sockets  map[uint64]bool
	syscall  *Syscall
	waits    []waiting
	wchan    string
}

// sample reads the processes of the job. last asks for what is read once only. Below a rank that is a container's first
// process are launch's own processes, too: what these do, and all below them, is no work of the job.
func sample(ctx context.Context, job []*seen, own []int, g *gaps, mounts *mounts, last bool) *moment {
	m := &moment{stats: map[int]stat{}, children: map[int][]int{}, read: map[int]int64{}, wrote: map[int]wrote{},
		of:    map[int]*facts{},
		disks: disks(readLine("/proc/diskstats"))}
	pids, _ := list("/proc")
	for _, pid := range pids {
		if s, err := readStat(procPath(pid, "stat")); err == nil {
			m.stats[pid] = s
			if !slices.Contains(own, pid) {
				m.children[s.parent] = append(m.children[s.parent], pid)
			}
		}
	}
	var mu sync.Mutex
	left := each(ctx, job, func(p *seen) {
		s, ok := m.stats[p.pid]
		if !ok || p.stat.started != s.started || p.stuck.Load() {
			return
		}
		got := make(chan *facts, 1)
		if !within(patience, func() { got <- readFacts(p, g, mounts, last) }) {
			g.late(p.pid, "the state")
			p.stuck.Store(true)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		m.of[p.pid] = <-got
	})
	for _, p := range left {
		g.add(p.pid, "the state", "there was no time left", "")
	}
	m.readAll(job)
	return m
}

// readAll reads how many bytes the processes of the job and all below them have read.
func (m *moment) readAll(job []*seen) {
	t := table{children: m.children}
	for _, p := range job {
		if p.role == Child || p.stuck.Load() {
			continue // it is below another
		}
		for _, pid := range append([]int{p.pid}, t.below(p.pid)...) {
			if _, known := m.read[pid]; !known && p.env != nil {
				text, _ := readFile(procPath(pid, "io"))
				m.read[pid], m.wrote[pid] = field(text, "rchar"), wrote{field(text, "syscw"), field(text, "wchar")}
			}
		}
	}
}

// readFacts reads one process.
func readFacts(p *seen, g *gaps, mounts *mounts, last bool) *facts {
	f := &facts{threads: readThreads(p.pid)}
	f.status, _ = readFile(procPath(p.pid, "status"))
	f.switches = field(f.status, "voluntary_ctxt_switches") + field(f.status, "nonvoluntary_ctxt_switches")
	var err error
	if f.files, f.sockets, err = readFiles(p.pid, mounts); err != nil && last && p.stat.state != "Z" {
		g.fail(p, "open files and sockets", err)
	}
	f.wchan = f.threads[p.pid].wchan
	if last && p.stat.state != "Z" {
		f.futexes = readFutexes(p.pid, f.threads)
		if p.role == Rank || p.role == Child || p.role == Wrapper {
			f.waits = readWaits(p.pid, f.threads)
			for i, w := range f.waits { // a signal may end the wait of the main thread
				f.waits[i].Timed = w.Timed || w.Main && w.On != "" && woken(f.status, p.role)
			}
		}
		if f.syscall, err = readSyscall(p.pid, f.threads[p.pid].state); err != nil {
			g.fail(p, "the system call", err)
		}
	}
	return f
}

// woken returns whether a process handles a signal by which a timer, a person or a scheduler wakes it, from
// /proc/PID/status. torch's ranks do not handle these; a worker of its DataLoader handles SIGTERM, but only to end.
func woken(status []byte, r Role) bool {
	const firstRealTime, lastRealTime = 34, 64 // glibc has 32 and 33 for itself
	var wakes uint64 = (1<<(lastRealTime-firstRealTime+1) - 1) << (firstRealTime - 1)
	for _, s := range []unix.Signal{unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGHUP} {
		wakes |= 1 << (s - 1)
	}
	if r == Rank {
		wakes |= 1 << (unix.SIGTERM - 1)
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("SigCgt:")); ok {
			caught, _ := strconv.ParseUint(string(bytes.TrimSpace(rest)), 16, 64)
			return caught&wakes != 0
		}
	}
	return false
}

// sum adds what a process and all below it have done.
func (m *moment) sum(pid int) counts {
	t := table{children: m.children}
	var c counts
	for _, p := range append([]int{pid}, t.below(pid)...) {
		s := m.stats[p]
		c.cpu += s.cpu
		c.faults += s.faults
		c.rss += s.rss
		c.read += m.read[p]
	}
	return c
}

// moved returns what changed in a process and all below it between two moments.
func moved(pid int, before, after *moment) Moved {
	a, b := before.sum(pid), after.sum(pid)
	out := Moved{
		CPU:    time.Duration(max(0, b.cpu-a.cpu)) * (time.Second / perSecond),
		Read:   max(0, b.read-a.read),
		Faults: max(0, b.faults-a.faults),
		Memory: (b.rss - a.rss) * int64(os.Getpagesize()),
	}
	had, has := before.wrote[pid], after.wrote[pid]
	out.Writes, out.Written = max(0, has.calls-had.calls), max(0, has.bytes-had.bytes)
	was, is := before.of[pid], after.of[pid]
	if was != nil && is != nil {
		polled := time.Duration(polling(is.threads)-polling(was.threads)) * (time.Second / perSecond)
		out.CPU = max(0, out.CPU-max(0, polled))
		out.Switches = max(0, is.switches-was.switches)
	}
	tb, ta := table{children: before.children}, table{children: after.children}
	kidsBefore, kidsAfter := tb.below(pid), ta.below(pid)
	for _, p := range append([]int{pid}, kidsAfter...) {
		was, is := before.of[p], after.of[p]
		out.Files = out.Files || was != nil && is != nil && markMoved(was.files, is.files)
	}
	slices.Sort(kidsBefore)
	slices.Sort(kidsAfter)
	out.Children = !slices.Equal(kidsBefore, kidsAfter) || slices.ContainsFunc(kidsAfter, func(p int) bool {
		return before.stats[p].started != after.stats[p].started
	})
	return out
}

// polling sums the time of the threads of TensorPipe, which torch.distributed.rpc uses: they poll for messages all the
// time.
func polling(all map[int]thread) (ticks int64) {
	for _, t := range all {
		if polls(t.name) {
			ticks += t.cpu
		}
	}
	return ticks
}

func polls(thread string) bool { return strings.HasPrefix(thread, "TP_") }

// markMoved notes which files are at another position than before, and returns whether there are any.
func markMoved(before, after []File) bool {
	was := map[int]File{}
	for _, f := range before {
		was[f.FD] = f
	}
	any := false
	for i, f := range after {
		w, ok := was[f.FD]
		after[i].Moved = !ok || w.Path != f.Path || w.Pos != f.Pos
		any = any || after[i].Moved
	}
	return any
}

// fill completes a process with what was measured; false: it has ended.
func (out *Proc) fill(p *seen, before, after *moment) bool {
	s, ok := after.stats[p.pid]
	if !ok || s.started != p.stat.started {
		return false
	}
	out.State, out.Parent, out.Comm = s.state, s.parent, clean(s.comm, maxValue)
	out.Moved, out.Background = moved(p.pid, before, after), s.background
	if s.state == "Z" {
		out.Signal, out.Status = unix.SignalName(unix.Signal(s.exit&0x7f)), s.exit>>8
	}
	is := after.of[p.pid]
	if is == nil {
		return true
	}
	out.Tracer, out.Dumping = int(field(is.status, "TracerPid")), field(is.status, "CoreDumping") == 1
	out.Wchan, out.Syscall, out.Threads, out.Files = is.wchan, is.syscall, grouped(is.threads, is.futexes), is.files
	out.Waits = groupedWaits(is.waits)
	if c := is.syscall; c != nil && c.disk != "" {
		c.Served = after.disks[c.disk] > before.disks[c.disk]
	}
	if was := before.of[p.pid]; was != nil {
		out.Still = still(was.threads, is.threads)
	}
	return true
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
