package scene

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"launch/internal/child"
)

// The limits of stacks: of one process, of all, how many processes, and how many at the same time.
const (
	stackLimit    = 3 * time.Second
	stacksLimit   = 5 * time.Second
	maxStacked    = 64
	stackWorkers  = 8
	maxStacks     = 64      // of one process
	maxFrames     = 100     // of one stack
	maxDump       = 1 << 20 // bytes of what py-spy prints
	fromPySpy     = "py-spy"
	pySpyAdvice   = "pip install py-spy"
	pySpyRootNote = "sudo pip install py-spy, so that root owns it"
)

// stacks returns the Python stacks of ranks by their pids, and which threads hold the GIL. py-spy
// must not pause a process: pausing one that waits for a dead mount puts it into D state, and py-spy with it.
func stacks(ctx context.Context, job []*seen, g *gaps) (map[int][]Stack, map[int]*Held) {
	ctx, cancel := context.WithTimeout(ctx, stacksLimit)
	defer cancel()
	ranks := stacked(job)
	if more := len(ranks) - maxStacked; more > 0 {
		g.add(0, fmt.Sprintf("the Python stacks of %d ranks", more), fmt.Sprintf("at most %d are read", maxStacked), "")
		ranks = ranks[:maxStacked]
	}
	tool, why, fix := "", "", ""
	if len(ranks) > 0 && !within(patience, func() { tool, why, fix = findPySpy(ranks) }) {
		g.add(0, "Python stacks", "the search for py-spy did not end within "+patience.String(), "")
		return nil, nil
	}
	out, held := map[int][]Stack{}, map[int]*Held{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, stackWorkers)
	for _, p := range ranks {
		if tool == "" {
			g.add(p.pid, "Python stacks", why, fix)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s, err := runPySpy(ctx, tool, p.pid)
			if err != nil {
				g.add(p.pid, "Python stacks", err.Error(), "")
				return
			}
			by := heldBy(ctx, tool, p.pid)
			mu.Lock()
			defer mu.Unlock()
			if out[p.pid] = s; by != nil {
				held[p.pid] = by
			}
		})
	}
	wg.Wait()
	return out, held
}

// stacked returns the processes whose stacks are read: the ranks, then the first DataLoader worker of each.
func stacked(job []*seen) (out []*seen) {
	var workers []*seen
	for _, p := range job {
		switch {
		case p.stat.state == "Z" || p.env == nil:
		case p.role == Rank:
			out = append(out, p)
		case p.role == Child && p.stat.comm == Worker &&
			!slices.ContainsFunc(workers, func(w *seen) bool { return w.stat.parent == p.stat.parent }):
			workers = append(workers, p)
		}
	}
	return append(out, workers...)
}

// Worker is the name that a worker process of torch's DataLoader gives itself.
const Worker = "pt_data_worker"

// runPySpy runs py-spy for one process in a group that is killed at the limit. The values of variables, which it reads
// while they change, may fail; then the stacks are read without.
func runPySpy(ctx context.Context, tool string, pid int) ([]Stack, error) {
	s, err := dumped(ctx, tool, "--locals", "--pid", strconv.Itoa(pid))
	if err != nil {
		if without, again := dumped(ctx, tool, "--pid", strconv.Itoa(pid)); again == nil {
			return without, nil
		}
	}
	return s, err
}

// dumped runs py-spy dump once.
func dumped(ctx context.Context, tool string, args ...string) ([]Stack, error) {
	text, err := pySpy(ctx, tool, args...)
	if err != nil {
		return nil, err
	}
	s := parseStacks(text)
	if len(s) == 0 {
		return nil, fmt.Errorf("py-spy: no Python thread")
	}
	return s, nil
}

// pySpy returns what py-spy dump prints.
func pySpy(ctx context.Context, tool string, args ...string) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("there was no time left")
	}
	e := child.Run(ctx, child.Program{Path: tool, Args: append([]string{"dump", "--nonblocking"}, args...), Dir: "/",
		Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}, Limit: stackLimit,
		Output: maxDump})
	switch {
	case e.NotStarted != nil:
		return "", fmt.Errorf("start py-spy: %s", plain(e.NotStarted))
	case e.Late:
		return "", fmt.Errorf("py-spy did not end within %v", stackLimit)
	case e.Status != 0 || e.Signal != "":
		first, _, _ := strings.Cut(strings.TrimSpace(e.Stderr), "\n")
		return "", fmt.Errorf("py-spy: %s", clean(strings.TrimPrefix(first, "Error: "), 200))
	}
	if len(e.Stdout) >= maxDump { // the first lines, of the main thread, are lost
		return "", fmt.Errorf("py-spy printed more than is read")
	}
	return e.Stdout, nil
}

// parseStacks parses the output of py-spy dump. A thread begins with "Thread 12 (idle): "name"", and its
// frames are indented, the innermost first.
func parseStacks(text string) []Stack {
	var out []Stack
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		head, ok := strings.CutPrefix(line, "Thread ")
		switch {
		case ok:
			s := Stack{From: fromPySpy, Thread: clean(head, maxValue)}
			if open := strings.Index(head, " ("); open >= 0 {
				s.Thread = clean(head[:open], maxValue)
				state, name, _ := strings.Cut(head[open+2:], ")")
				s.State, _, _ = strings.Cut(clean(state, 32), "+") // active+gil
				if name, ok := strings.CutPrefix(name, ": "); ok {
					s.Thread = clean(strings.Trim(name, `"`), maxValue)
				}
			}
			out = append(out, s)
		case len(out) > 0 && strings.HasPrefix(line, deep):
			out[len(out)-1].value(line)
		case strings.HasPrefix(line, "        "): // Arguments:, Locals:
		case len(out) > 0 && strings.HasPrefix(line, "    "):
			if last := &out[len(out)-1]; len(last.Frames) < maxFrames {
				last.Frames = append(last.Frames, clean(strings.TrimSpace(line), maxValue))
			}
		}
		if len(out) > maxStacks {
			out = out[:maxStacks]
			break
		}
	}
	slices.SortStableFunc(out, func(a, b Stack) int { return notMain(a) - notMain(b) })
	return out
}

// deep is how far py-spy indents the variables of a frame.
const deep = "            "

// c10d is the file of torch's collectives.
const c10d = "distributed/distributed_c10d.py"

// kinds are the variables of torch that say which rank this is and with whom it exchanges data, and where it builds an
// extension, each with its file and which form its values have. Others may be secret, or large.
var kinds = map[string]struct{ file, form string }{
	"src": {c10d, "n"}, "dst": {c10d, "n"}, "tag": {c10d, "n"}, "group_src": {c10d, "n"}, "group_dst": {c10d, "n"},
	"to":      {"distributed/rpc/api.py", "s"},
	"current": {"distributed/tensor/_redistribute.py", "t"}, "target": {"distributed/tensor/_redistribute.py", "t"},
	"works": {"distributed/pipelining/schedules.py", "k"}, "rank": {"distributed/", "n"},
	"world_size": {"distributed/", "n"}, "build_directory": {"utils/cpp_extension.py", "p"},
}

// value takes a variable of the innermost frame of torch that has it.
func (s *Stack) value(line string) {
	name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
	kind, ok := kinds[name]
	if !ok || len(s.Frames) == 0 || !strings.Contains(s.Frames[len(s.Frames)-1], "torch/"+kind.file) {
		return
	}
	most := 64
	switch kind.form {
	case "n":
		_, err := strconv.Atoi(text)
		ok = err == nil
	case "s":
		text, ok = strings.CutPrefix(text, `"`)
		text = strings.TrimSuffix(text, `"`)
	case "p": // py-spy cuts a long one
		text, most = strings.Trim(text, `"`), maxValue
		ok = strings.HasPrefix(text, "/") && !strings.HasSuffix(text, "...")
	case "t":
		text, ok = strings.CutPrefix(text, "<")
		text, _, _ = strings.Cut(text, " ")
	case "k": // works of a pipeline, by rank
		text, _, ok = strings.Cut(strings.TrimPrefix(text, "{"), ":")
	}
	if _, known := s.Values[name]; ok && !known {
		if s.Values == nil {
			s.Values = map[string]string{}
		}
		s.Values[name] = clean(text, most)
	}
}

func notMain(s Stack) int {
	if s.Thread == "MainThread" {
		return 0
	}
	return 1
}

// findPySpy returns a py-spy that may be run: in PATH, or next to the Python of a rank that has our files.
func findPySpy(ranks []*seen) (tool, why, fix string) {
	uid := os.Getuid()
	dirs := filepath.SplitList(os.Getenv("PATH"))
	mine := namespace("self", "mnt")
	for _, p := range ranks {
		if p.stuck.Load() || namespace(strconv.Itoa(p.pid), "mnt") != mine || p.user != uid && uid != 0 {
			continue
		}
		if v := p.env["VIRTUAL_ENV"]; v != "" {
			dirs = append(dirs, filepath.Join(v, "bin"))
		}
		if len(p.argv) > 0 {
			dirs = append(dirs, filepath.Dir(p.argv[0]))
		}
		if exe, err := os.Readlink(procPath(p.pid, "exe")); err == nil {
			dirs = append(dirs, filepath.Dir(exe))
		}
	}
	why, fix = "py-spy is not installed", pySpyAdvice
	var tried []string
	for _, d := range dirs {
		if !filepath.IsAbs(d) || slices.Contains(tried, d) || len(tried) > 256 {
			continue
		}
		tried = append(tried, d)
		path := filepath.Join(d, fromPySpy)
		about, err := os.Stat(path)
		if err != nil || !about.Mode().IsRegular() || about.Mode()&0o111 == 0 {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err == nil && trusted(path, uid) {
			return path, "", ""
		}
		why, fix = fmt.Sprintf("other users may change %s, so it is not run", clean(path, maxValue)), pySpyAdvice
		if uid == 0 {
			fix = pySpyRootNote
		}
	}
	return "", why, fix
}

// trusted returns whether only root and this user can change a file, by itself or by a folder above it. In a folder
// with the sticky bit, as /tmp, others cannot replace what is not theirs.
func trusted(path string, uid int) bool {
	for {
		about, err := os.Lstat(path)
		if err != nil {
			return false
		}
		s, ok := about.Sys().(*syscall.Stat_t)
		if !ok || s.Uid != 0 && int(s.Uid) != uid ||
			about.Mode()&0o022 != 0 && about.Mode()&os.ModeSticky == 0 {
			return false
		}
		if path == "/" {
			return true
		}
		path = filepath.Dir(path)
	}
}
