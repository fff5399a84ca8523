package scene

import (
	"cmp"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// On is what a thread waits for.
type On string

// What threads wait for, where it is seen what could end the wait.
const (
	OnLock      On = "lock"      // a futex of the process alone
	OnSemaphore On = "semaphore" // a futex that processes may share
	OnData      On = "data"      // data in pipes and unix sockets
	OnRoom      On = "room"      // room in a pipe or unix socket, until the other end reads
	OnChild     On = "child"     // the end of a child
	OnEvents    On = "events"    // data in pipes and unix sockets, by epoll
	OnSignal    On = "signal"
)

// Wait is what threads of one name wait for.
type Wait struct {
	Thread string `json:"thread"`
	Main   bool   `json:"main,omitempty"`  // it is the main thread
	On     On     `json:"on,omitempty"`    // empty: something else, such as a network or a time, or they run
	Timed  bool   `json:"timed,omitempty"` // with a time limit; of the main thread also: a signal may end it
	// Own: other threads of the process can end it. Of data: the process has the other end open.
	Own bool `json:"own,omitempty"`
	// Ends are the other processes that can end it: those that have another end open, or the children.
	Ends []int `json:"ends,omitempty"`
	// In is the library that waits, where its code calls the kernel, or libc for it; of a lock or signal of the main
	// thread.
	In    string `json:"in,omitempty"`
	Count int    `json:"count"`
}

// waiting is a Wait, and the ends of pipes and unix sockets that it is about.
type waiting struct {
	Wait
	pipes []uint64 // inodes
	units []uint64 // inodes of sockets
	lost  bool     // one of its descriptors is something else
}

// maxWaits are the threads of one process whose waits are read.
const maxWaits = 512

// readWaits returns what the threads of a process wait for.
func readWaits(pid int, all map[int]thread) (out []waiting) {
	for tid, t := range all {
		w := waiting{Wait: Wait{Thread: t.name, Main: tid == pid, Count: 1}}
		if t.state == "S" && len(out) < maxWaits {
			text := readLine(procPath(pid, "task/"+strconv.Itoa(tid)+"/syscall"))
			if s, args, err := parseSyscall(text); err == nil {
				w.read(pid, s, args)
			}
			if w.Main && (w.On == OnLock || w.On == OnSignal) {
				w.In = callerOf(pid, text)
			}
		}
		if w.lost {
			w.Wait = Wait{Thread: t.name, Main: w.Main, Count: 1}
			w.pipes, w.units = nil, nil
		}
		out = append(out, w)
	}
	return out
}

// read completes what a thread waits for that is in a system call.
func (w *waiting) read(pid int, s Syscall, args [6]uint64) {
	switch s.Name {
	case "futex":
		f := futexBy(args)
		op := args[1] &^ (futexPrivate | futexClock)
		if w.On = OnLock; op != futexWait && op != futexWaitBitset {
			w.On = "" // one with priorities
		} else if f.shared {
			w.On = OnSemaphore
		}
		w.Timed, w.Own = f.timed, true
	case "read", "readv", "recvfrom", "recvmsg":
		w.On = OnData
		w.open(pid, int(int32(args[0])))
	case "write", "writev", "sendto", "sendmsg":
		w.On = OnRoom
		w.open(pid, int(int32(args[0])))
	case "poll", "ppoll":
		w.On, w.Timed = OnData, s.Name == "poll" && s.Limit >= 0 || s.Name == "ppoll" && args[2] != 0
		w.polled(pid, args)
	case "epoll_wait", "epoll_pwait", "epoll_pwait2":
		w.On, w.Timed = OnEvents, int32(args[3]) > 0
		if s.Name == "epoll_pwait2" {
			w.Timed = args[3] != 0
		}
		w.events(pid, int(int32(args[0])))
	case "wait4", "waitid":
		w.On = OnChild
		id := int(int32(args[0]))
		if s.Name == "waitid" {
			if id = int(int32(args[1])); args[0] == unix.P_ALL {
				id = -1
			} else if args[0] != unix.P_PID {
				w.lost = true
			}
		}
		if w.Ends = children(pid); id > 0 {
			w.Ends = []int{id}
		}
	case "pause", "rt_sigsuspend":
		w.On = OnSignal
	}
}

// children returns the children of a process, of all its threads.
func children(pid int) (out []int) {
	tids, _ := list(procPath(pid, "task"))
	for _, tid := range tids[:min(len(tids), maxWaits)] {
		for _, c := range strings.Fields(readLine(procPath(pid, "task/"+strconv.Itoa(tid)+"/children"))) {
			if n, err := strconv.Atoi(c); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// open adds what a descriptor is of.
func (w *waiting) open(pid, fd int) {
	link, _ := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(fd)))
	if n := inodeOf(link, "pipe"); n != 0 {
		w.pipes = append(w.pipes, n)
	} else if n := inodeOf(link, "socket"); n != 0 {
		w.units = append(w.units, n)
	} else {
		w.lost = true
	}
}

// maxPolled descriptors of one wait are looked at.
const maxPolled = 64

// polled adds the descriptors that a process polls, from its memory: struct pollfd has 8 bytes.
func (w *waiting) polled(pid int, args [6]uint64) {
	mem, err := openFile(procPath(pid, "mem"), unix.O_RDONLY)
	if err != nil || args[1] == 0 || args[1] > maxPolled {
		w.lost = true
		return
	}
	defer unix.Close(mem)
	b := make([]byte, 8*args[1])
	if n, err := unix.Pread(mem, b, int64(args[0])); err != nil || n != len(b) {
		w.lost = true
		return
	}
	for ; len(b) > 0; b = b[8:] {
		const pollOut = 4
		if fd := int32(binary.NativeEndian.Uint32(b)); fd >= 0 {
			w.open(pid, int(fd))
			w.lost = w.lost || binary.NativeEndian.Uint16(b[4:])&pollOut != 0
		}
	}
}

// events adds the descriptors of an epoll set (proc_pid_fdinfo(5): lines tfd).
func (w *waiting) events(pid, fd int) {
	info, err := readFile(procPath(pid, "fdinfo/"+strconv.Itoa(fd)))
	if err != nil {
		w.lost = true
	}
	n := 0
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "tfd:" {
			target, err := strconv.Atoi(f[1])
			if n++; err != nil || n > maxPolled {
				w.lost = true
				return
			}
			w.open(pid, target)
		}
	}
}

// groupedWaits joins the waits of threads that are alike.
func groupedWaits(all []waiting) (out []Wait) {
	for _, w := range all {
		i := slices.IndexFunc(out, func(o Wait) bool {
			return o.Thread == w.Thread && o.Main == w.Main && o.On == w.On && o.Timed == w.Timed && o.Own == w.Own &&
				slices.Equal(o.Ends, w.Ends)
		})
		if i >= 0 {
			out[i].Count++
			continue
		}
		out = append(out, w.Wait)
	}
	slices.SortFunc(out, func(a, b Wait) int {
		return cmp.Or(order(b.Main, a.Main), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.On, b.On),
			order(a.Timed, b.Timed), order(a.Own, b.Own), slices.Compare(a.Ends, b.Ends))
	})
	return out
}
