package scene

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
)

// Options are what a scene is to show. The zero value: all jobs of this node, without stacks.
type Options struct {
	PID   int           // show the job of this process alone, a rank if it has RANK; 0: all jobs of this node
	Since int           // a process: those of the job that are Earlier than it are marked; 0: none
	Job   string        // show the job of this name alone: launch's or torchrun's, or the address of its store
	Span  time.Duration // between the two samples; 0: DefaultSpan
	Self  []int         // processes that are hidden; this one always is
	// Store asks one store; nil: over the network.
	Store  func(ctx context.Context, host string, port int) Store
	Stacks bool // Python stacks of ranks
	// Shared is true if other nodes are looked at as well: NCCL's RAS is then asked only on the node of rank 0.
	Shared bool
	// Found is called once, before the two samples, with the companions of the jobs, and with launch where it has not
	// started a command: they can be asked meanwhile.
	Found func(launches []Proc)
	// Early is called once, after the first sample, with the job's sockets of that moment; nil: not wanted. It returns at
	// once. What it begins may use the span.
	Early func(sockets []Socket)
	// Processor returns the processor time that the control group of a process has had, for how long a quota has held
	// it, and the periods of that quota: all, and those that held it. Nil: not known.
	Processor func(pid int) (used, held time.Duration, periods, throttled int64)
	// Freezer returns the file below /sys of the control group whose freezer holds a process; if frozen is false, the
	// file of its own group, which is not frozen or not visible. Nil: not known.
	Freezer func(pid int) (file string, frozen bool)
	// Broken returns the names of the errors that file systems give for paths, by path; nil: they are not asked.
	Broken func(ctx context.Context, paths []string) map[string]string
}

// DefaultSpan is long enough for an agent's loop and for a rank that reads or computes to show.
const DefaultSpan = 3 * time.Second

// lookLimit is how long all processes are looked at, once. It is only used up where many are stuck.
const lookLimit = time.Second

// allLimit is how long the reading of processes takes besides the span.
const allLimit = 3 * time.Second

// Take looks at the jobs of this node twice. It only reads, follows no path of the job, and pauses no process; the
// caller's Broken may follow the paths that a rank names.
// A scene without a process is no error: there is no job. It takes Span and at most about 6 s more: 3 s where
// processes cannot be read, and 2.5 s if a store does not answer.
func Take(ctx context.Context, o Options) (s Scene, err error) {
	if o.Span <= 0 {
		o.Span = DefaultSpan
	}
	now := time.Now()
	s = Scene{Schema: Schema, User: os.Geteuid(), Taken: now.UTC().Truncate(time.Millisecond),
		Boot: clean(readLine("/proc/sys/kernel/random/boot_id"), 64), Net: namespace("self", "net"), Addrs: addresses(),
		Hardware: hardware()}
	s.Host, _ = os.Hostname()
	s.Host = clean(s.Host, maxHost)
	if o.Processor != nil {
		pid := cmp.Or(o.PID, os.Getpid()) // of the job, or as near to it as the reader is
		used, held, periods, throttled := o.Processor(pid)
		defer func() {
			g := Group{Time: time.Since(now)}
			g.Used, g.Held, g.Periods, g.Throttled = o.Processor(pid)
			g.Used, g.Held = g.Used-used, g.Held-held
			g.Periods, g.Throttled = g.Periods-periods, g.Throttled-throttled
			s.Group = g
		}()
	}
	g := &gaps{user: s.User}
	caller := ctx
	ctx, end := context.WithTimeout(ctx, o.Span+allLimit)
	defer end()
	look, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	t, err := scan(look, g)
	if err != nil {
		return s, fmt.Errorf("list processes: %w", err)
	}
	t.hide(append(slices.Clone(o.Self), os.Getpid()))
	t.command = o.PID
	t.assign()
	job, err := t.jobs(o, s.Net)
	if err != nil {
		return s, err
	}
	if o.Found != nil {
		o.Found(launches(job))
	}
	if len(job) > 0 {
		s.watch(ctx, caller, t, job, o)
	}
	t.unread()
	s.Gaps = g.result()
	if caller.Err() != nil {
		return s, fmt.Errorf("look at the job: %w", context.Cause(caller))
	}
	return s, nil
}

// launches describes launch and its companions in a job.
func launches(job []*seen) (out []Proc) {
	for _, p := range job {
		if p.role == Companion || p.role == Launch {
			out = append(out, p.describe())
		}
	}
	return out
}

// watch takes both samples of the job, and reads what is read once. Services have limits of their own, within those of
// call: what took long to be read before must not look like a service that does not answer.
func (s *Scene) watch(ctx, call context.Context, t *table, job []*seen, o Options) {
	g, m := t.gaps, &mounts{of: map[uint64]map[int64]string{}}
	first, cancel := context.WithTimeout(ctx, lookLimit)
	own := append(slices.Clone(o.Self), os.Getpid())
	for _, p := range job {
		if p.role == Companion {
			own = append(own, p.pid)
		}
	}
	before := sample(first, job, own, g, m, false)
	cancel()
	began := time.Now()
	read := make(chan pythons, 1)
	go func() {
		var all pythons
		if o.Stacks {
			all.stacks, all.held = stacks(ctx, job, g)
		}
		read <- all
	}()
	if o.Early != nil {
		o.Early(sockets(job, before, s.Net, nil, &gaps{})) // the second look says what could not be read
	}
	asked := services(job, before, o, s.Net, g)
	once := make(chan []RAS, 1)
	go func() { once <- ask(call, asked, s.Net) }()
	sleep(ctx, o.Span)
	earlier := <-once
	s.Span = time.Since(began)
	second, cancel := context.WithTimeout(ctx, lookLimit)
	after := sample(second, job, own, g, m, true)
	cancel()
	ended(ctx, job, after)
	s.Sockets = sockets(job, after, s.Net, nil, g)
	go func() { once <- ask(call, asked, s.Net) }()
	s.Stores = stores(call, job, s.Net, o, g)
	names(ctx, job, s.Sockets)
	s.RAS = <-once
	compare(earlier, s.RAS)
	s.processes(ctx, t, job, before, after, <-read, m, o)
	s.ask(ctx, job, before, o)
}

// pythons are what py-spy shows of ranks, by their pids.
type pythons struct {
	stacks map[int][]Stack
	held   map[int]*Held
}

// ask asks for what only the caller can read of the processes. It asks for the paths of all ranks at once: file
// systems that do not answer are waited for once.
func (s *Scene) ask(ctx context.Context, job []*seen, before *moment, o Options) {
	var paths []string
	of := map[*Proc][]Broken{}
	for i := range s.Procs {
		p := &s.Procs[i]
		if o.Freezer != nil && (p.Role == Rank || p.Role == Agent) {
			p.Freezer, p.Frozen = o.Freezer(p.PID)
		}
		if o.Broken == nil || p.Role != Rank || !p.Retries() || ctx.Err() != nil {
			continue
		}
		j := slices.IndexFunc(job, func(b *seen) bool { return b.pid == p.PID })
		var open []File
		if was := before.of[p.PID]; was != nil {
			open = was.files
		}
		if j >= 0 {
			of[p] = candidates(job[j], open, p.failsToWrite())
		}
		for _, b := range of[p] {
			paths = append(paths, p.inRoot(b.Path))
		}
	}
	if len(paths) == 0 {
		return
	}
	errs := o.Broken(ctx, paths)
	for p, named := range of {
		for _, b := range named {
			if b.Err = errs[p.inRoot(b.Path)]; b.Err != "" && (b.Err != noSpace || p.failsToWrite()) {
				p.Broken = append(p.Broken, b)
			}
		}
	}
}

// processes describes those that are still there, and the holders of the job's ports.
func (s *Scene) processes(
	ctx context.Context,
	t *table,
	job []*seen,
	before, after *moment,
	read pythons,
	m *mounts,
	o Options,
) {
	at := clock(time.Now())
	for _, p := range job {
		d := p.describe()
		d.Started, d.Earlier = at(p.stat.started), t.earlier(p, o.Since)
		if !d.fill(p, before, after) {
			t.gaps.add(p.pid, "what it did", "it ended while it was read", "")
			continue
		}
		d.Stacks, d.GIL = read.stacks[p.pid], read.held[p.pid]
		t.notes(p)
		if p.role == Rank && !p.stuck.Load() && ctx.Err() == nil {
			last := make(chan []string, 1)
			if within(patience, func() { last <- readLast(p, m, t.gaps) }) {
				d.Last = <-last
			} else {
				p.stuck.Store(true)
				t.gaps.late(p.pid, "the last lines")
			}
		}
		s.Procs = append(s.Procs, d)
	}
	for _, p := range t.holders(s.Sockets, job) {
		d := p.describe()
		d.Started = at(p.stat.started)
		s.Procs = append(s.Procs, d)
	}
}

// unread records the Pythons that did not let themselves be read, so that nobody knows whose they are.
func (t *table) unread() {
	for _, pid := range t.pids() {
		if p := t.procs[pid]; p.role == "" && p.stuck.Load() && p.env == nil && p.python() {
			t.notes(p)
		}
	}
}

// notes records that the environment of a process is missing.
func (t *table) notes(p *seen) {
	switch {
	case p.stuck.Load() && p.env == nil:
		t.gaps.late(p.pid, "command line and environment")
	case p.env == nil && p.stat.state != "Z":
		t.gaps.fail(p, "the environment", p.envErr)
	}
}

// addresses returns the addresses of this machine's interfaces, without loopback.
func addresses() []netip.Addr {
	all, _ := net.InterfaceAddrs()
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out[:min(len(out), maxAddrs)]
}

// hardware returns their hardware addresses; nil where there are too many.
func hardware() (out []string) {
	all, _ := net.Interfaces()
	for _, i := range all {
		a := i.HardwareAddr.String()
		if len(i.HardwareAddr) == 6 && i.Flags&net.FlagLoopback == 0 && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	if len(out) > maxAddrs {
		return nil
	}
	return out
}

// maxAddrs bounds the addresses of a scene.
const maxAddrs = 256
