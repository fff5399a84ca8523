package scene

import (
	"context"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// seen is a process as the first look at the node found it.
type seen struct {
	pid, user int
	stat      stat
	argv      []string          // as it is: with what may be secret
	env       map[string]string // all of it; nil: not readable
	envErr    error
	net       uint64
	role      Role
	mpi       *MPI
	libs      map[string]string
	mapped    bool // libs has been read
	spawned   bool // a rank that its parent, a script, has started itself
	store     netip.AddrPort
	stuck     atomic.Bool // a read did not return: nothing more of it is read that may wait
}

// table is the processes of a node by pid. Kernel threads are left out.
type table struct {
	procs    map[int]*seen
	children map[int][]int
	gaps     *gaps
	command  int // a process that was started as one of a job; 0: none is known
}

// workers read processes at the same time; so many that may be stuck are passed in one patience.
const workers = 16

// each calls f for each item, several at a time, and returns those that ctx left no time for.
func each[T any](ctx context.Context, items []T, f func(T)) (left []T) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := 0
	for range min(workers, len(items)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				if i < len(items) && ctx.Err() != nil {
					left = append(left, items[i])
				}
				mu.Unlock()
				if i >= len(items) {
					return
				}
				if ctx.Err() == nil {
					f(items[i])
				}
			}
		})
	}
	wg.Wait()
	return left
}

// scan reads all processes that this user can see.
func scan(ctx context.Context, g *gaps) (*table, error) {
	pids, err := list("/proc")
	if err != nil {
		return nil, err
	}
	t := &table{procs: map[int]*seen{}, children: map[int][]int{}, gaps: g}
	var mu sync.Mutex
	each(ctx, pids, func(pid int) {
		p := look(pid, g)
		if p == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		t.procs[pid] = p
	})
	for pid, p := range t.procs {
		t.children[p.stat.parent] = append(t.children[p.stat.parent], pid)
	}
	for _, c := range t.children {
		slices.Sort(c)
	}
	return t, nil
}

// hide forgets processes.
func (t *table) hide(pids []int) {
	for _, pid := range pids {
		delete(t.procs, pid)
	}
	for parent, c := range t.children {
		t.children[parent] = slices.DeleteFunc(c, func(p int) bool { return t.procs[p] == nil })
	}
}

// kthreadd is the parent of all kernel threads; inside of a PID namespace there is none.
const kthreadd = "kthreadd"

// look reads one process; nil: it has ended, or it is a kernel thread.
func look(pid int, g *gaps) *seen {
	s, err := readStat(procPath(pid, "stat"))
	if err != nil || s.comm == kthreadd && s.parent == 0 || s.parent == 2 && isKernelThread() {
		return nil
	}
	p := &seen{pid: pid, stat: s}
	var about unix.Stat_t
	if unix.Stat(procPath(pid, ""), &about) != nil {
		return nil
	}
	p.user = int(about.Uid)
	p.net = namespace(strconv.Itoa(pid), "net")
	type texts struct {
		argv, env []byte
		err       error
	}
	got := make(chan texts, 1)
	if !within(patience, func() {
		argv, _ := readFile(procPath(pid, "cmdline"))
		env, err := readFile(procPath(pid, "environ"))
		got <- texts{argv, env, err}
	}) {
		p.stuck.Store(true)
		return p
	}
	r := <-got
	p.argv, p.envErr = split(r.argv), r.err
	if r.err == nil && s.state != "Z" {
		p.env = variables(r.env)
	}
	return p
}

// isKernelThread returns whether pid 2 is the parent of kernel threads here.
var isKernelThread = sync.OnceValue(func() bool { return readLine("/proc/2/comm") == kthreadd })

// below returns all descendants of a process, parents first.
func (t *table) below(pid int) []int {
	var out []int
	known := map[int]bool{pid: true} // /proc is no snapshot: a pid may come again
	for next := slices.Clone(t.children[pid]); len(next) > 0; next = next[1:] {
		if known[next[0]] {
			continue
		}
		known[next[0]] = true
		out = append(out, next[0])
		next = append(next, t.children[next[0]]...)
	}
	return out
}

// above returns the ancestors of a process, the parent first.
func (t *table) above(pid int) []int {
	var out []int
	known := map[int]bool{pid: true}
	for p := t.procs[pid]; p != nil && !known[p.stat.parent] && t.procs[p.stat.parent] != nil; {
		known[p.stat.parent] = true
		out = append(out, p.stat.parent)
		p = t.procs[p.stat.parent]
	}
	return out
}

// program is the base name of what the process was started as.
func (p *seen) program() string {
	if len(p.argv) == 0 {
		return p.stat.comm
	}
	return strings.TrimPrefix(path.Base(p.argv[0]), "-")
}

// python returns whether this is a Python, by its name; torch renames its processes to pt_….
func (p *seen) python() bool {
	return strings.HasPrefix(p.program(), "python") || strings.HasPrefix(p.stat.comm, "python") ||
		strings.HasPrefix(p.stat.comm, "pt_")
}

// torch returns whether libtorch is mapped. Only of Python processes it is worth the read.
func (t *table) torch(p *seen) bool {
	if !p.mapped && !p.stuck.Load() && p.stat.state != "Z" {
		p.mapped = true
		got := make(chan map[string]string, 1)
		if within(patience, func() {
			text, err := readFile(procPath(p.pid, "maps"))
			t.gaps.fail(p, "mapped libraries", err)
			got <- libraries(string(text))
		}) {
			p.libs = <-got
		} else {
			p.stuck.Store(true)
		}
	}
	_, ok := p.libs["torch"]
	return ok
}

// library names the files of libraries that matter, and what each is called.
var library = []struct{ file, name string }{
	{"libtorch_cpu.so", "torch"}, {"libtorch.so", "torch"}, {"libtorch_cuda.so", "torch_cuda"},
	{"libnccl.so", "nccl"}, {"libnccl-net", "nccl-net"}, {"libmpi.so", "mpi"}, {"libucp.so", "ucx"},
	{"libcuda.so", "cuda"}, {"libibverbs.so", "verbs"}, {"libfabric.so", "fabric"},
}

// libraries returns which of these libraries a table of mappings has, with the version where the file's name
// has all of it.
func libraries(maps string) map[string]string {
	out := map[string]string{}
	last := ""
	for line := range strings.Lines(maps) {
		at := strings.IndexByte(line, '/')
		if at < 0 || line[at:] == last {
			continue
		}
		last = line[at:]
		file := path.Base(strings.TrimSpace(last))
		for _, l := range library {
			rest, ok := strings.CutPrefix(file, l.file)
			if !ok {
				continue
			}
			if version := strings.TrimPrefix(rest, "."); strings.Contains(version, ".") {
				out[l.name] = clean(version, 64)
			} else if !has(out, l.name) {
				out[l.name] = ""
			}
		}
	}
	return out
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

// threadNames returns the names of a process's threads.
func threadNames(pid int) []string {
	tids, _ := list(procPath(pid, "task"))
	var out []string
	for _, tid := range tids {
		out = append(out, readLine(procPath(pid, "task/"+strconv.Itoa(tid)+"/comm")))
	}
	return out
}
