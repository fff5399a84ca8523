package scene

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// waitOf returns what the main thread of a process waits for, once it waits.
func waitOf(t *testing.T, pid int, is func(Wait) bool) (out Wait) {
	t.Helper()
	eventually(t, "the wait of "+strconv.Itoa(pid), func() bool {
		m := &moment{of: map[int]*facts{pid: {waits: readWaits(pid, readThreads(pid))}}}
		ended(t.Context(), []*seen{{pid: pid}}, m)
		out = groupedWaits(m.of[pid].waits)[0]
		return is(out)
	})
	return out
}

// reader starts cat with a file as its input, and more files.
func reader(t *testing.T, in *os.File, more ...*os.File) int {
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.ExtraFiles = in, more
	return start(t, cmd)
}

// sleeping starts a process that has a file open, and does nothing.
func sleeping(t *testing.T, has *os.File) int {
	cmd := exec.Command("sleep", "600")
	cmd.Stdout = has
	return start(t, cmd)
}

func pair(t *testing.T) (a, b *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
}

// The processes that have the other end of a pipe or unix socket open can end a wait for its data.
func TestWhoCanSendWhatAProcessWaitsFor(t *testing.T) {
	for name, ends := range map[string]func() (a, b *os.File){
		"pipe": func() (a, b *os.File) {
			a, b, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			return a, b
		},
		"unix socket": func() (a, b *os.File) { return pair(t) },
	} {
		r, w := ends()
		other := sleeping(t, w)
		alone, both := reader(t, r), reader(t, r, w)
		r.Close()
		w.Close()
		for pid, own := range map[int]bool{alone: false, both: true} {
			got := waitOf(t, pid, func(w Wait) bool { return w.On == OnData && w.Own == own && len(w.Ends) == 2-b2i(own) })
			if !slices.Contains(got.Ends, other) || slices.Contains(got.Ends, pid) {
				t.Errorf("%s: %+v, and the other one is %d", name, got, other)
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Anything may arrive from a network, and a socket without an end that is seen counts as one.
func TestDataOfANetworkMayArrive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	pid := reader(t, f)
	f.Close()
	eventually(t, "cat reads", func() bool { s, _ := readSyscall(pid, "S"); return s != nil && s.Name == "read" })
	if got := waitOf(t, pid, func(Wait) bool { return true }); got.On != "" || got.Ends != nil {
		t.Errorf("%+v", got)
	}
}

func TestAProcessThatWaitsForItsChild(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600; :")
	pid := start(t, cmd)
	got := waitOf(t, pid, func(w Wait) bool { return w.On == OnChild && len(w.Ends) == 1 })
	t.Cleanup(func() { _ = unix.Kill(got.Ends[0], unix.SIGKILL) })
	if readLine(procPath(got.Ends[0], "comm")) != "sleep" {
		t.Errorf("%+v", got)
	}
}

// A process that began later, and whose open files cannot be read, may have inherited an end.
func TestAnEndThatAHiddenProcessMayHave(t *testing.T) {
	for _, tt := range []struct {
		hidden bool
		ends   []int
		want   On
	}{{false, nil, OnData}, {true, nil, ""}, {true, []int{7}, OnData}} {
		w := waiting{Wait: Wait{On: OnData, Own: true, Ends: tt.ends, Count: 1}, pipes: []uint64{3}}
		if w.mayBeHeld(tt.hidden); w.On != tt.want {
			t.Errorf("%+v: %+v", tt, w)
		}
	}
	lock := waiting{Wait: Wait{On: OnLock, Own: true, Count: 1}}
	if lock.mayBeHeld(true); lock.On != OnLock {
		t.Errorf("a lock: %+v", lock)
	}
}

// An event loop whose set has only its own pipe is woken by its own threads alone.
func TestWhatAnEventLoopWaitsFor(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	const loop = "import os, select, socket; r, w = os.pipe(); e = select.epoll(); e.register(r); "
	for code, want := range map[string]Wait{
		loop + "e.poll()":    {On: OnEvents, Own: true},
		loop + "e.poll(500)": {On: OnEvents, Own: true, Timed: true},
		loop + "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); e.register(s); e.poll()": {},
	} {
		pid := start(t, exec.Command(python, "-c", code))
		eventually(t, "python polls", func() bool {
			s, _ := readSyscall(pid, "S")
			return s != nil && s.Name == "epoll_wait" || s != nil && s.Name == "epoll_pwait"
		})
		got := waitOf(t, pid, func(Wait) bool { return true })
		if got.On != want.On || got.Own != want.Own || got.Timed != want.Timed || len(got.Ends) > 0 {
			t.Errorf("%s: %+v", code, got)
		}
	}
}

// A zombie has the signal that has ended it.
func TestTheSignalOfAZombie(t *testing.T) {
	parent := start(t, exec.Command("sh", "-c", "sh -c 'kill -9 $$' & exec sleep 600"))
	eventually(t, "a zombie", func() bool {
		for _, c := range children(parent) {
			if s, err := readStat(procPath(c, "stat")); err == nil && s.state == "Z" {
				return s.exit == int(unix.SIGKILL)
			}
		}
		return false
	})
}

func TestTheGroupOfATerminal(t *testing.T) {
	const rest = " 4194304 5 6 7 8 10 20 30 40 20 0 1 0 999 0 0"
	for text, want := range map[string]bool{"T 1 7 6 34816 6": true, "S 1 7 6 34816 7": false, "S 1 7 6 0 -1": false} {
		if s, err := parseStat("7 (python) " + text + rest); err != nil || s.background != want {
			t.Errorf("%s: %v, %v", text, s.background, err)
		}
	}
}

func TestTheLibraryThatWaits(t *testing.T) {
	all := code("00400000-00500000 r-xp 00000000 00:01 1    /usr/bin/python3.11\n" +
		"7f000000-7f001000 r--p 00000000 00:01 2    /lib/libc.so.6\n" +
		"7f001000-7f002000 r-xp 00001000 00:01 2    /lib/libc.so.6\n" +
		"7f100000-7f101000 r-xp 00000000 00:01 3    /opt/libvendor.so\n")
	for want, words := range map[string][]uint64{"libvendor.so": {0x7f001010, 5, 0x7f000010, 0x7f100020, 0x400010},
		"": {0x7f001010, 0x400010, 0x7f100020}} {
		if got := firstCaller(all, words); got != want {
			t.Errorf("%#x: %q, want %q", words, got, want)
		}
	}
}

func TestASignalThatAProcessCatches(t *testing.T) {
	for _, tt := range []struct {
		caught string
		role   Role
		want   bool
	}{
		{"0000000100000002", Rank, false}, // SIGINT by Python, 33 by glibc
		{"0000000000002002", Rank, true},  // SIGALRM
		{"0000000100000202", Rank, true},  // SIGUSR1
		{"0000000000000800", Rank, true},  // SIGUSR2
		{"0000000000000001", Child, true}, // SIGHUP
		{"0000000200000000", Rank, true},  // the first real-time signal
		{"8000000000000000", Child, true}, // the last one
		{"0000000000004000", Rank, true},  // SIGTERM
		{"0000000000004440", Child, false},
		{"", Rank, false},
	} {
		if got := woken([]byte("Name:\tpython\nSigCgt:\t"+tt.caught+"\n"), tt.role); got != tt.want {
			t.Errorf("%q, %s: %v", tt.caught, tt.role, got)
		}
	}
}
