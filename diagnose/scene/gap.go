package scene

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// gaps collects what could not be read, with the processes of which it is missing.
type gaps struct {
	mu   sync.Mutex
	user int // of the reader
	all  []Gap
	pids [][]int // of each; empty: of the node
}

// add notes that what is missing, of a process or (0) of the node.
func (g *gaps) add(pid int, what, why, fix string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gap := Gap{What: what, Why: why, Fix: fix}
	i := slices.Index(g.all, gap)
	if i < 0 {
		i = len(g.all)
		g.all, g.pids = append(g.all, gap), append(g.pids, nil)
	}
	if pid != 0 && !slices.Contains(g.pids[i], pid) {
		g.pids[i] = append(g.pids[i], pid)
	}
}

// fail notes why a read of a process failed. A process that has ended is no gap.
func (g *gaps) fail(p *seen, what string, err error) {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
	case !errors.Is(err, fs.ErrPermission):
		g.add(p.pid, what, plain(err), "")
	default:
		why, fix := g.denied(p.user, "the kernel denies it")
		g.add(p.pid, what, why, fix)
	}
}

// denied says why the kernel keeps something of a user's process from this reader, and what helps. A process of the
// reader's own user may be kept by yama, else for a reason that the caller has.
func (g *gaps) denied(user int, own string) (why, fix string) {
	switch {
	case g.user == 0 && !mayTrace():
		return "root has no CAP_SYS_PTRACE here", "run it outside of the container, or with --cap-add SYS_PTRACE"
	case g.user == 0:
		return own, "run it outside of the container"
	case g.user != user:
		return fmt.Sprintf("it is a process of user %d", user), fmt.Sprintf("run it as user %d or as root", user)
	}
	if yama := readLine("/proc/sys/kernel/yama/ptrace_scope"); yama != "" && yama != "0" {
		own = "yama's ptrace_scope is " + yama
	}
	return own, "run it as root"
}

// mayTrace returns whether this process has CAP_SYS_PTRACE.
var mayTrace = sync.OnceValue(func() bool {
	text, _ := readFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "\nCapEff:")
	held, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	return err != nil || held>>unix.CAP_SYS_PTRACE&1 == 1
})

// late notes that a read of a process did not return.
func (g *gaps) late(pid int, what string) {
	g.add(pid, what, "the kernel did not answer within "+patience.String(), "")
}

// plain returns an error without its path, which differs from process to process.
func plain(err error) string {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

// result returns the gaps, each with its processes.
func (g *gaps) result() []Gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := slices.Clone(g.all)
	for i, pids := range g.pids {
		if len(pids) == 0 {
			continue
		}
		slices.Sort(pids)
		out[i].What += " of pid " + numbers(pids)
	}
	return out
}

// numbers returns "1, 2 and 7 more".
func numbers(pids []int) string {
	const shown = 8
	var text []string
	for _, p := range pids[:min(shown, len(pids))] {
		text = append(text, strconv.Itoa(p))
	}
	out := strings.Join(text, ", ")
	if more := len(pids) - shown; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
