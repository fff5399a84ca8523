package truth

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/starts"
)

const (
	// lateBy is how late the last node is where something happens while the others wait.
	lateBy = 3 * time.Second
	// joinTimeout is the --join-timeout of the nodes, and hangAfter their --hang-after, whose default
	// is 2 minutes: a bench does not wait that long for each hang.
	joinTimeout = 20 * time.Second
	hangAfter   = 5 * time.Second
	// stuck is how long a job prints nothing until it counts as hung, and afterDeath how long the
	// others get once a rank has died.
	stuck      = 12 * time.Second
	afterDeath = 3 * time.Second
	// sayLimit is how soon launch must say what is wrong, after the start of the command or after the
	// fault where that is later.
	sayLimit = 15 * time.Second
	// mostly is the longest run of either side. A real torch is slower.
	mostly     = 70 * time.Second
	torchTimes = 3
	poll       = 50 * time.Millisecond

	masterPort = "29500"
)

// bed is one run of a draw: the hosts in their environment, without launch or with it.
type bed struct {
	t      *testing.T
	d      draw
	launch bool
	lab    *netns.Lab
	hosts  []*host
	extra  *netns.Host // outside the job
	script string
	shots  []*shot
	ends   []func() // when the run is over

	first, last time.Time // the first and the last start
	up, met     time.Time // since when a rank is up, and all ranks have met
	moved       time.Time // the last output of a rank
	died        time.Time // the first end of a rank with a failure
	amount      int
	ended       time.Time
}

// host is one host of the job.
type host struct {
	*netns.Host
	starts.Start
	number  int
	env     []string
	wrap    []string // before launch, or before the command
	flags   []string // of launch
	options []string // of the stand-in and of torchrun
	args    []string // of the script
	python  string   // of the plain line; "": python3
	torch   string   // torchrun
	script  string
	world   int // what the line says
	rank    int
	late    time.Duration
	other   string // another launch
	absent  bool
	struck  bool          // frozen or killed by the fault: its end says nothing
	done    chan struct{} // closed once its command has ended
}

// shot is a fault that begins later than the start.
type shot struct {
	when  moment
	fire  func()
	fired time.Time
}

// newBed builds the environment of a draw.
func newBed(t *testing.T, d draw, launch bool) *bed {
	t.Helper()
	b := &bed{t: t, d: d, launch: launch, lab: netns.New(t, d.hosts+1)}
	b.lab.MayLeave("*")
	b.extra = b.lab.Hosts[d.hosts]
	b.script = b.write(b.extra, "job/train.py", tools.scripts[d.program])
	for i, h := range b.lab.Hosts[:d.hosts] {
		b.hosts = append(b.hosts, &host{Host: h, number: i, script: b.script, world: d.hosts, rank: i,
			late: d.starts()[i], done: make(chan struct{})})
	}
	for _, f := range d.faults {
		if f.when == before {
			f.make(b, f)
			continue
		}
		b.shots = append(b.shots, &shot{when: f.when, fire: func() { f.make(b, f) }})
	}
	return b
}

// each calls f for the hosts that a fault hits.
func (b *bed) each(f fault, do func(h *host)) {
	for i, h := range b.hosts {
		if f.scope == allNodes || i == f.at {
			do(h)
		}
	}
}

// write writes a file into a host's folder, and returns its path.
func (b *bed) write(h *netns.Host, name, text string) string {
	b.t.Helper()
	file := filepath.Join(h.Dir(), name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		err = os.WriteFile(file, []byte(text), mode)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return file
}

// serves runs a program of testdata on a host until the run is over; it returns once the program
// has printed a line.
func (b *bed) serves(h *netns.Host, args ...string) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	args[0] = filepath.Join(tools.data, args[0])
	cmd := h.Command(ctx, append([]string{systemPython}, args...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Cancel = func() error { return cmd.Process.Kill() }
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		b.t.Fatal(err)
	}
	b.ends = append(b.ends, func() { cancel(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.t.Fatalf("%q on %s: %q, %v", args, h.Name, line, err)
	}
}

// run starts the job on every host and waits for its end, or until enough reports that the run has
// shown what it can.
func (b *bed) run(enough func() bool) {
	b.t.Helper()
	var wg sync.WaitGroup
	b.first = time.Now()
	for _, h := range b.hosts {
		if h.absent {
			continue
		}
		wg.Go(func() {
			defer close(h.done)
			select {
			case <-time.After(h.late):
			case <-b.t.Context().Done():
				return
			}
			env, argv := b.typed(h)
			h.Exec(b.t, h.Host, b.scaled(mostly)+lateBy, env, argv...)
		})
		b.last = later(b.last, b.first.Add(h.late))
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	b.moved = b.last
	tick := time.NewTicker(poll)
	defer tick.Stop()
watch:
	for {
		select {
		case <-done:
			break watch
		case <-tick.C:
			b.look()
			b.strike()
			if b.stale() || enough() {
				break watch
			}
		}
	}
	b.look()
	b.ended = time.Now()
	for _, h := range b.hosts {
		_ = h.Signal(syscall.SIGKILL)
	}
	<-done
	for _, end := range b.ends {
		end()
	}
}

// ended reports whether the command of a host has ended.
func (h *host) ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// scaled returns a time that a run may take.
func (b *bed) scaled(d time.Duration) time.Duration {
	if b.d.program == torch {
		return d * torchTimes
	}
	return d
}

// unmade returns why the environment could not be made on a host, as its shell says.
func (b *bed) unmade() string {
	for _, h := range b.hosts {
		for _, l := range h.Lines() {
			if strings.HasPrefix(l.Text, h.Dir()+": ") || strings.HasPrefix(l.Text, "mount: ") {
				return h.Name + ": " + l.Text
			}
		}
	}
	return ""
}

// pace returns the arguments that all ranks of mesh.py and collective.py get.
func (b *bed) pace() []string {
	args := []string{"--by", b.d.by}
	if slices.ContainsFunc(b.d.faults, func(f fault) bool { return f.when == joined }) {
		args = append(args, "--wait", "0.7")
	}
	if b.d.long() {
		args = append(args, "--steps", "60", "--pause", "0.1")
	}
	return args
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// look notes how far the ranks have come.
func (b *bed) look() {
	amount, up, met := 0, false, 0
	for _, h := range b.hosts {
		text := h.Out.String()
		amount += len(text)
		up = up || text != ""
		met += strings.Count(text, " met\n")
		if !h.struck && b.died.IsZero() && h.ended() && h.Status != 0 {
			b.died = time.Now()
		}
	}
	now := time.Now()
	if amount > b.amount {
		b.amount, b.moved = amount, later(b.moved, now)
	}
	if up && b.up.IsZero() {
		b.up = now
	}
	if met == b.ranks() && b.met.IsZero() {
		b.met = now
	}
}

// ranks returns the number of ranks of the whole job.
func (b *bed) ranks() int { return len(b.hosts) }

// strike makes the faults whose moment has come.
func (b *bed) strike() {
	for _, s := range b.shots {
		since := map[moment]time.Time{waiting: b.first.Add(time.Second), joined: b.up, running: b.met}[s.when]
		if s.fired.IsZero() && !since.IsZero() && time.Now().After(since) {
			s.fired = time.Now()
			s.fire()
			b.moved = later(b.moved, time.Now())
		}
	}
}

// struck returns when the last fault began; the last start, where all began before it.
func (b *bed) struck() time.Time {
	at := b.last
	for _, s := range b.shots {
		at = later(at, s.fired)
	}
	return at
}

// stale reports whether the job will show nothing more.
func (b *bed) stale() bool {
	now := time.Now()
	if now.Sub(b.last) > b.scaled(mostly) || !b.died.IsZero() && !b.launch && now.Sub(b.died) > afterDeath {
		return true
	}
	if !b.launch {
		return now.Sub(later(b.moved, b.struck())) > b.scaled(stuck)
	}
	return !b.up.IsZero() && now.Sub(later(later(b.up, b.moved), b.struck())) > sayLimit+time.Second
}

// ran reports whether each rank did all its work and each host ended well.
func (b *bed) ran() bool {
	for _, h := range b.hosts {
		if h.absent || h.Status != 0 || h.Begun.IsZero() || !strings.Contains(h.Out.String(), " done\n") {
			return false
		}
	}
	return true
}

// typed returns the environment and the command line of a host.
func (b *bed) typed(h *host) (env, argv []string) {
	addr := b.hosts[0].Addr
	if b.d.named {
		addr = b.hosts[0].Name
	}
	script := slices.Concat([]string{h.script}, b.pace(), h.args)
	path := "PATH=" + bin(b.d.program) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	env = []string{path, "PYTHONDONTWRITEBYTECODE=1"}
	if b.d.program == torch && os.Getenv(backendVar) == "nccl" { // it refuses two ranks of one host on one GPU
		env = append(env, backendVar+"=nccl", "NCCL_HOSTID="+h.Name, "LD_LIBRARY_PATH="+os.Getenv("LD_LIBRARY_PATH"))
	}
	env = append(env, h.env...)
	var line []string
	if b.d.program == plain {
		line = []string{or(h.python, "python3")}
	} else {
		line = append([]string{or(h.torch, "torchrun"), "--nnodes", strconv.Itoa(h.world), "--nproc-per-node", "1"},
			h.options...)
	}
	switch {
	case b.launch:
		call := []string{or(h.other, tools.launch), "--store", addr, "--join-timeout", joinTimeout.String(), "--hang-after",
			hangAfter.String()}
		if b.d.typed || h.rank != h.number {
			call = append(call, "--node-rank", strconv.Itoa(h.rank))
		}
		if b.d.program == plain {
			call = append(call, "--nnodes", strconv.Itoa(h.world))
		}
		line = slices.Concat(call, h.flags, line)
	case b.d.program == plain:
		line = slices.Concat([]string{"env", fmt.Sprintf("RANK=%d", h.rank), fmt.Sprintf("WORLD_SIZE=%d", h.world),
			"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=" + addr, "MASTER_PORT=" + masterPort}, line)
	default:
		line = append(line, "--node-rank", strconv.Itoa(h.rank), "--master-addr", addr, "--master-port", masterPort)
	}
	return env, h.Named(slices.Concat(h.wrap, line, script)...)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// printed returns what all hosts printed.
func (b *bed) printed() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", map[bool]string{true: "with launch", false: "without launch"}[b.launch])
	for _, h := range b.hosts {
		out := h.Out.String()
		fmt.Fprintf(&text, "%s (%s): %s   stdout: %q\n", h.Name, h.Addr, h.Printed(), out[max(0, len(out)-300):])
	}
	return text.String()
}
