package companion

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/process"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// freshScene is how long a look at this node serves further callers: a look costs 3 s.
	freshScene = 2 * time.Second
	// maxScene bounds one scene as JSON, of which sidechannel.MaxShown arrive compressed.
	maxScene = 32 << 20
	// maxTold bounds what a companion answers launch doctor: the scenes of all other nodes.
	maxTold = 256 << 20
)

// doctor shows what this node sees of the job: to the other nodes, and to launch doctor of this node.
type doctor struct {
	p       *companion
	stalled func(pids func() []int) []netip.Addr // nil: scene.Stuck

	pasts   pasts
	flows   flows
	trails  trails
	calm    calm
	sound   sound
	looking sync.Mutex // held for as long as a look takes
	last    scene.Scene
	taken   time.Time

	mu    sync.Mutex
	known []rendezvous.Partner // the other nodes, once the store has named them
	lost  []netip.Addr         // of nodes that are reported as lost
	slow  []netip.Addr         // of nodes whose path is reported as slow or lossy

	world atomic.Pointer[rendezvous.World] // that runs; nil: none has started
	wait  atomic.Pointer[rendezvous.Event] // the last news of the wait for a world
	spoke atomic.Pointer[rendezvous.Event] // the last one that is not about the store's silence
	hung  chan Hang                        // that the job is to end
}

// answerLine is one line of what the companion answers launch doctor of its node.
type answerLine struct {
	Scene json.RawMessage `json:",omitempty"` // of another node, once the job runs
	News
}

// News is what launch waits for before its command starts, by what it knew last.
type News struct {
	Waiting *rendezvous.Event `json:",omitempty"`
	// Before is what it waited for when the store ceased to answer, where Waiting says that.
	Before *rendezvous.Event `json:",omitempty"`
	Naming *Naming           `json:",omitempty"`
}

// known reports whether there is any.
func (n News) known() bool { return n.Waiting != nil || n.Naming != nil }

// openDoctor begins to answer launch doctor of this node.
func (p *companion) openDoctor() {
	p.doctor = &doctor{p: p, hung: make(chan Hang, 1)}
	if l, err := net.ListenUnix("unix", socketOf(os.Getpid())); err == nil { // no other process has this PID in its name
		p.wg.Go(func() { p.doctor.serve(p.ctx, l) })
	}
}

// begin shows the other nodes what this one sees, until the run ends: the side channel stays open for it.
func (d *doctor) begin(ctx context.Context, w *rendezvous.World) {
	l := d.p.sideChannel
	d.mu.Lock()
	d.known, d.lost, d.slow = nil, nil, nil
	d.mu.Unlock()
	d.world.Store(w)
	l.Show(d.shown, d.heard)
	context.AfterFunc(ctx, func() {
		d.world.CompareAndSwap(w, nil)
		l.Close()
	})
	if d.p.spec.HangAfter > 0 {
		d.p.wg.Go(func() { d.watchStart(ctx, d.p.spec.HangAfter) })
		d.p.wg.Go(func() { d.watchPaths(ctx) })
	}
}

// socketOf returns the abstract socket on which the companion with this PID answers launch doctor.
func socketOf(pid int) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("@launch-doctor-%d", pid), Net: "unix"}
}

// look returns what this node sees, from a look that is fresh.
func (d *doctor) look(ctx context.Context) scene.Scene {
	d.looking.Lock()
	defer d.looking.Unlock()
	if time.Since(d.taken) > freshScene || d.taken.IsZero() {
		paths := d.newPaths(ctx)
		d.last, _ = scene.Take(ctx, scene.Options{PID: d.command(), Since: d.p.launch, Stacks: true, Shared: true,
			Processor: fabric.Processor, Freezer: fabric.Freezer, Broken: fabric.AskStale, Early: paths.try})
		if w := d.world.Load(); w != nil {
			d.last.Node = &w.Rank
			d.last.Peers = d.peers(ctx)
		}
		paths.try(d.last.Sockets)
		d.last.Paths, d.last.Ways = paths.wait(d.last.Sockets)
		paths.forgotten(d.last.Sockets)
		d.last.Crawls = d.flows.crawling()
		d.taken = time.Now()
		d.pasts.saw(d.family(), d.taken)
		d.pasts.holding(d.last.Procs, d.taken)
		d.last.Past = d.pasts.until(d.taken, d.last.Procs)
	}
	return d.last
}

// command returns the process that this node's command is.
func (d *doctor) command() int {
	if pid := d.p.command.Load(); pid != 0 {
		return int(pid)
	}
	return d.p.launch
}

// shown answers another node of the world: with what this node sees, or with what the node of a rank answers to it.
func (d *doctor) shown(ctx context.Context, caller netip.Addr, rank int) []byte {
	if d.p.tls == nil && !d.member(ctx, caller) {
		return nil // without a secret only the job's own addresses are answered
	}
	switch rank {
	case sidechannel.Own:
		return pack(d.look(ctx))
	case sidechannel.Links:
		links, _ := json.Marshal(scene.LinksTo(caller, d.family))
		return links
	}
	ctx, cancel := context.WithTimeout(ctx, passBudget) // who asks waits no longer
	defer cancel()
	for _, n := range d.others(ctx) {
		if n.Rank == rank && n.Addr.IsValid() {
			if s, err := d.ask(ctx, n); err == nil {
				s.Via, s.At = &scene.Relay{At: s.At, From: caller}, netip.Addr{}
				return pack(s)
			}
		}
	}
	return nil
}

// heard answers another node of the world that waits until this one listens on a port. That there is an
// answer, also about port 0, says that the run has begun here.
func (d *doctor) heard(ctx context.Context, caller netip.Addr, port int) sidechannel.Hearing {
	w := d.world.Load()
	if w == nil || port == 0 || d.p.tls == nil && !d.member(ctx, caller) {
		return sidechannel.Deaf
	}
	proc := os.DirFS("/proc")
	if at, err := process.Listener(proc, netip.AddrPortFrom(w.Self.Addr, uint16(port))); err == nil && at != "" {
		return sidechannel.Listens
	}
	if on, err := process.Listening(port); err == nil && on {
		return sidechannel.Elsewhere
	}
	return sidechannel.Deaf
}

// watches reports whether this node is the one that says why the job hangs: none of a lower rank is there.
func (d *doctor) watches(ctx context.Context) bool {
	w := d.world.Load()
	if w == nil {
		return false
	}
	before := slices.DeleteFunc(slices.Clone(d.others(ctx)), func(n rendezvous.Partner) bool {
		return n.Rank >= w.Rank || !n.Addr.IsValid() // one that has left has no address
	})
	slices.SortFunc(before, func(a, b rendezvous.Partner) int { return a.Rank - b.Rank })
	lower := slices.ContainsFunc(before, func(n rendezvous.Partner) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		c, err := new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(n.Addr, uint16(n.Peer)).String())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return !lower && ctx.Err() == nil // a call that the run's end cuts short says nothing of its node
}

// serve answers launch doctor of this node.
func (d *doctor) serve(ctx context.Context, l *net.UnixListener) {
	answerUser(ctx, l, &d.p.wg, func(c net.Conn) { tell(c, d.all(ctx), d.news()) })
}

// news returns what launch waits for.
func (d *doctor) news() News {
	n := News{Waiting: d.wait.Load()}
	if n.Waiting != nil && n.Waiting.Kind == rendezvous.Lost {
		n.Before = d.spoke.Load()
	}
	return n
}

// await takes in what launch waits for.
func (d *doctor) await(e *rendezvous.Event) {
	if d.wait.Store(e); e.Kind != rendezvous.Lost && e.Kind != rendezvous.Back {
		d.spoke.Store(e)
	}
}

// answerUser answers launch doctor of this user, or root's, on this node, until ctx ends.
func answerUser(ctx context.Context, l *net.UnixListener, wg *sync.WaitGroup, say func(net.Conn)) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer c.Close()
			if uid, _, ok := peerOf(c); !ok || uid != os.Geteuid() && uid != 0 {
				return
			}
			_ = c.SetDeadline(time.Now().Add(consultBudget + 5*time.Second))
			say(c)
		})
	}
}

// tell writes what consulted reads.
func tell(w io.Writer, scenes []scene.Scene, news News) {
	out := json.NewEncoder(w)
	if out.Encode(answerLine{News: news}) != nil {
		return
	}
	for _, s := range scenes {
		text, err := json.Marshal(s)
		if err != nil || out.Encode(answerLine{Scene: text}) != nil {
			return
		}
	}
}

// peerOf returns the user and the process at the other end of a unix socket.
func peerOf(c *net.UnixConn) (uid, pid int, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, pid, ok = int(cred.Uid), int(cred.Pid), true
		}
	})
	return uid, pid, ok
}

// Consult returns what the other nodes of some jobs see, where launch has started them: it asks their companions on
// this node, at the same time. Of a job that has not started it returns the last news.
func Consult(ctx context.Context, launches []scene.Proc) (scenes []scene.Scene, news []News) {
	seen, last := make([][]scene.Scene, len(launches)), make([]News, len(launches))
	var wg sync.WaitGroup
	for i, p := range launches {
		wg.Go(func() { seen[i], last[i], _ = consulted(ctx, p) })
	}
	wg.Wait()
	for _, n := range last {
		if n.known() {
			news = append(news, n)
		}
	}
	return slices.Concat(seen...), news
}

// consulted asks one companion of this node. The companion may be another user's, where root asks.
func consulted(ctx context.Context, p scene.Proc) (scenes []scene.Scene, news News, err error) {
	c, err := net.DialUnix("unix", nil, socketOf(p.PID))
	if err != nil {
		return nil, news, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if uid, pid, ok := peerOf(c); !ok || uid != p.User || pid != p.PID {
		return nil, news, fmt.Errorf("another process has the socket of pid %d", p.PID)
	}
	return listened(c)
}

// listened reads what a companion tells, up to the first line that is not a companion's.
func listened(c io.Reader) (scenes []scene.Scene, news News, err error) {
	in := json.NewDecoder(io.LimitReader(c, maxTold))
	for line := 0; line <= maxConsulted+2; line++ {
		var one answerLine
		switch err = in.Decode(&one); {
		case errors.Is(err, io.EOF) && line > 0:
			return scenes, news, nil
		case err != nil:
			return scenes, news, fmt.Errorf("read the companion's answer: %w", err)
		case one.known():
			news = one.News
		}
		if one.Scene == nil {
			continue
		}
		s, err := scene.Parse(one.Scene)
		if err != nil {
			return scenes, news, fmt.Errorf("read the companion's answer: %w", err)
		}
		scenes = append(scenes, s)
	}
	return scenes, news, nil
}

// pack returns a scene compressed.
func pack(s scene.Scene) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if json.NewEncoder(z).Encode(s) != nil || z.Close() != nil {
		return nil
	}
	return out.Bytes()
}

// unpack reads a scene of another node.
func unpack(b []byte) (s scene.Scene, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return s, fmt.Errorf("read what it sees: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxScene+1))
	if err == nil && len(text) > maxScene {
		err = fmt.Errorf("more than %d MiB", maxScene>>20)
	}
	if err == nil {
		s, err = scene.Parse(text)
	}
	if err != nil {
		return s, fmt.Errorf("read what it sees: %w", err)
	}
	return s, nil
}
