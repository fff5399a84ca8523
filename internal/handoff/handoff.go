// Package handoff turns this process into the command, with exactly what launch itself inherited:
// signal dispositions and mask, limits, descriptors, environment. Go changes several of these at
// its start; an ELF constructor (inherit.c) records them before that. The package also starts the
// companion, which must outlive the exec without becoming the command's child.
//
// Built without cgo there is no record. Then an inherited SIG_IGN survives for HUP
// and INT only: other ignored signals reach the command as default. A blocked TERM,
// HUP, INT, … may arrive unblocked, and Inherited returns the zero State.
//
// launch must never call Setrlimit(RLIMIT_NOFILE): Go raises the soft limit at its
// start, and restores it at exec unless the process has set it since.
package handoff

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// State is what launch inherited, before Go changed it.
type State struct {
	Known  bool   // false without cgo; then the rest is zero
	Nofile uint64 // soft RLIMIT_NOFILE, descriptors; math.MaxUint64 is unlimited
	// Forbidden: no program of this container may start a thread by clone3; launch does by an older call.
	Forbidden bool

	blocked, ignored signals
	deathSignal      int // PR_GET_PDEATHSIG of the main thread; 0: none
}

// signals is a set of signals in the kernel's form: bit n-1 is signal n.
type signals uint64

func (s signals) has(n syscall.Signal) bool { return s>>(n-1)&1 != 0 }

// lastSignal is _NSIG of every architecture that Go supports but MIPS.
const lastSignal = 64

// shell runs a script without a "#!" line, as execvp(3) and every shell do.
const shell = "/bin/sh"

// Exec becomes the command: it executes the file path with argv and env. The command inherits all else
// that launch inherited. An error may wrap ErrNotFound or ErrNotExecutable. After it signals are no
// longer handled as before, so only report it and end.
func Exec(path string, argv, env []string) error { return Inherited().exec(path, argv, env) }

func (s State) exec(path string, argv, env []string) error {
	runtime.LockOSThread() // the mask and the death signal belong to a thread
	signal.Reset()
	if s.Known {
		if err := s.restore(); err != nil {
			return err
		}
	}
	err := syscall.Exec(path, argv, env)
	if errors.Is(err, syscall.ENOEXEC) && isScript(path) {
		script := []string{shell, path}
		if len(argv) > 1 {
			script = append(script, argv[1:]...)
		}
		err = syscall.Exec(shell, script, env)
	}
	return explain(path, err)
}

// restore gives the process the recorded ignored signals, and the calling thread the recorded mask and
// death signal. signal.Ignore would refuse the signals that Go needs itself (SEGV, 32, …).
func (s State) restore() error {
	// struct sigaction of the kernel: the handler is its first field, the rest is zero.
	ignore := [4]uintptr{1} // SIG_IGN
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if !s.ignored.has(n) {
			continue // at exec a handler becomes SIG_DFL
		}
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&ignore)),
			0, lastSignal/8, 0, 0)
		if e != 0 {
			return fmt.Errorf("ignore signal %d as inherited: %w", n, e)
		}
	}
	// An exec from another thread than the first loses the death signal: that
	// thread becomes the process, and a new thread has none.
	if s.deathSignal != 0 {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(s.deathSignal), 0, 0, 0); err != nil {
			return fmt.Errorf("restore parent death signal %d: %w", s.deathSignal, err)
		}
	}
	mask := uint64(s.blocked)
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)),
		0, lastSignal/8, 0, 0)
	if e != 0 {
		return fmt.Errorf("restore signal mask: %w", e)
	}
	return nil
}

// Environ returns the environment exactly as launch inherited it, with duplicates and entries without
// "="; without /proc/self/environ it returns os.Environ, which drops duplicates.
func Environ() []string {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	return splitEnviron(string(b))
}

func splitEnviron(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\x00"), "\x00")
}

// Merge returns env with the plan applied. Entries that the plan does not name remain byte for byte
// and in their places. set holds NAME=value entries; the last of a name counts. It replaces the
// first entry of that name, or is appended; further entries of the name are removed, since
// libraries disagree on which one they read. unset holds names; set wins over unset.
func Merge(env, set, unset []string) []string {
	value := make(map[string]string, len(set))
	for _, kv := range set {
		value[nameOf(kv)] = kv
	}
	drop := make(map[string]bool, len(unset))
	for _, name := range unset {
		drop[name] = true
	}
	placed := make(map[string]bool, len(set))
	out := make([]string, 0, len(env)+len(set))
	place := func(name string) {
		if !placed[name] {
			placed[name] = true
			out = append(out, value[name])
		}
	}
	for _, kv := range env {
		name := nameOf(kv)
		if _, ok := value[name]; ok && strings.Contains(kv, "=") {
			place(name)
		} else if !drop[name] || !strings.Contains(kv, "=") {
			out = append(out, kv)
		}
	}
	for _, kv := range set {
		place(nameOf(kv))
	}
	return out
}

// nameOf returns the name of an entry. A leading "=" belongs to the name, as in the C library.
func nameOf(kv string) string {
	if kv == "" {
		return ""
	}
	if i := strings.IndexByte(kv[1:], '='); i >= 0 {
		return kv[:i+1]
	}
	return kv
}
