package companion

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/finding"
	"launch/rendezvous"
)

const (
	// watchEvery is the pause between two looks at this node while its command runs.
	watchEvery = 2 * time.Second
	// stallLimit is a pause after which the other nodes count this one as lost: a lease, and a look before it.
	stallLimit = rendezvous.LeaseTTL + watchEvery
	// starvedSpan is how long a quota has to hold the command for most of the time.
	starvedSpan = 10 * time.Second
	// starvedPause is how long it has to hold it no more before that is reported again.
	starvedPause = time.Minute
)

// watcher reports what happens to this node's processes without a word of theirs.
type watcher struct {
	p      *companion
	mu     sync.Mutex
	kills  func() (n int64, foreign bool) // by the kernel, for lack of memory
	known  int64                          // kills at the last look
	of     func() []int                   // the processes of the command
	links  *links
	lived  []int         // likewise at the last look, where kills are foreign
	last   time.Duration // of the clock
	quota  quota
	disks  func() []fabric.Disk
	full   func() []fullDisk // when the run began
	writes *writes

	nextWrites time.Time // look at them
}

// newWatcher returns the watcher of a run that begins.
func (p *companion) newWatcher() *watcher {
	before := sync.OnceValue(func() []fullDisk { return full(fabric.LocalDisks) })
	p.wg.Go(func() { before() }) // the command does not wait for a slow disk
	kills := func() (int64, bool) {
		live := fabric.Live()
		return fabric.OOMKills(live.Proc, live.Sys)
	}
	w := &watcher{p: p, kills: kills, of: p.doctor.family, links: p.newLinks(), last: sinceBoot(),
		disks: fabric.LocalDisks, full: before, writes: newWrites(p.spec.Self.Host)}
	w.known, _ = kills()
	return w
}

// watch looks at this node until the run ends.
func (w *watcher) watch(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { w.writes.follow(ctx, w.of) })
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.stalled()
			w.memory()
			w.starved()
			w.readOnlyAtTimes()
			for _, f := range w.links.look(time.Now()) {
				w.p.say(f, "")
			}
		case <-ctx.Done():
			return
		}
	}
}

// stalled reports that this node did not run for so long that the others have given it up.
func (w *watcher) stalled() {
	now := sinceBoot()
	if stood := now - w.last; stood > stallLimit {
		f := finding.Warnf("this node stood still for %s, until %s: the other nodes have counted it as lost",
			stood.Round(time.Second), time.Now().Format("15:04:05"))
		w.p.say(f.Named("node.stalled"), "")
	}
	w.last = now
}

// memory reports that the kernel has ended a process for lack of memory. A kill somewhere on the machine matters where
// a process of the command has ended since the last look.
func (w *watcher) memory() {
	w.mu.Lock()
	defer w.mu.Unlock()
	kills, foreign := w.kills()
	whose, ended := "of this node's processes", true
	if foreign {
		now := w.of()
		whose = "of this machine's processes, and one of the command has ended"
		ended = slices.ContainsFunc(w.lived, func(pid int) bool { return !slices.Contains(now, pid) })
		w.lived = now
	}
	if kills > w.known && ended {
		f := finding.Warnf("out of memory: the kernel has killed %d %s (seen at %s)", kills-w.known, whose,
			time.Now().Format("15:04:05"))
		w.p.say(f.Named("node.memory").Do("dmesg -T | grep -i 'killed process'"), "")
	}
	w.known = kills
}

// quota is what the command's control group has had of the processors, at the last looks.
type quota struct {
	seen []had     // of which the first is starvedSpan old
	held time.Time // the last moment at which the quota held it for most of the time
}

// had is what the group has had until a moment.
type had struct {
	at                 time.Time
	used, held         time.Duration
	periods, throttled int64
}

// saw takes one more moment, and returns what the group had in a time in which a quota held it; false: it did not, or
// that is known.
func (q *quota) saw(now had) (g scene.Group, starts bool) {
	if n := len(q.seen); n > 0 && (now.used < q.seen[n-1].used || now.held < q.seen[n-1].held ||
		now.periods < q.seen[n-1].periods || now.throttled < q.seen[n-1].throttled) {
		q.seen = nil // another group
	}
	q.seen = append(q.seen, now)
	for len(q.seen) > 2 && now.at.Sub(q.seen[1].at) >= starvedSpan {
		q.seen = q.seen[1:]
	}
	was := q.seen[0]
	if g.Time = now.at.Sub(was.at); g.Time < starvedSpan {
		return g, false
	}
	g.Used, g.Held = now.used-was.used, now.held-was.held
	g.Periods, g.Throttled = now.periods-was.periods, now.throttled-was.throttled
	if !g.Starved() {
		return g, false
	}
	starts = q.held.IsZero() || now.at.Sub(q.held) > starvedPause
	q.held = now.at
	return g, starts
}

// starved reports that a quota holds the command for most of the time.
func (w *watcher) starved() {
	now := had{at: time.Now()}
	now.used, now.held, now.periods, now.throttled = fabric.Processor(w.p.doctor.command())
	if g, starts := w.quota.saw(now); starts {
		w.p.say(finding.Warnf("the quota of its control group holds the command of this node for most of the time: it had "+
			"%.2f of a processor in the last %.0f s", g.Used.Seconds()/g.Time.Seconds(), g.Time.Seconds()).
			Named("node.starved").Breaking("its ranks go on slowly, and all others wait for them").
			Do("raise the quota (resources.limits.cpu, docker --cpus, CPUQuota=)"), "")
	}
}

// sinceBoot returns the time since boot, with that in which the machine was suspended (clock_gettime(2)).
func sinceBoot() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano())
}
