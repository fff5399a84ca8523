package companion

import (
	"context"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"launch/diagnose"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/process"
	"launch/rendezvous"
)

const (
	// stuckPoll is how often the connections of this node's command are looked at. A connection is stuck once three
	// retransmissions have no answer, after 1.4 s, and a look takes 3.5 s more.
	stuckPoll = 5 * time.Second
	// maxStuckPause is the longest pause between two looks at a connection that remains stuck.
	maxStuckPause = 5 * time.Minute
)

// watchPaths reports once why a connection of this node's command to another node gets no answer, long before nothing
// moves for as long as --hang-after says, and again after the path was sound in between.
func (d *doctor) watchPaths(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { d.trails.hear(ctx) })
	tick := time.NewTicker(stuckPoll)
	defer tick.Stop()
	said, pause, crawled, reported := "", stuckPoll, map[string]bool{}, stuckPaths{}
	var next time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		carried := d.carried(ctx)
		stuck := append(d.stuck(), d.unopened(ctx)...)
		crawls := d.crawling()
		first := func(key string) bool { // a crawl may end and begin again: it is said once
			is := said != key && (len(crawls) == 0 || !crawled[key])
			said, crawled[key] = key, crawled[key] || len(crawls) > 0
			return is
		}
		for _, c := range crawls {
			if !slices.Contains(stuck, c.To) {
				stuck = append(stuck, c.To)
			}
		}
		if len(stuck) == 0 {
			if f, ok := reported.look(carried, time.Now()); ok {
				d.p.say(f, "")
			}
			d.sound.forget()
			said, pause, next = "", stuckPoll, time.Time{}
			continue
		}
		if reported.polls = 0; time.Now().Before(next) {
			continue
		}
		d.trails.begin(ctx, stuck)
		lossy := make(chan *finding.Finding, 1)
		go func() { lossy <- d.lossy(ctx, stuck) }()
		scenes := d.withOthers(ctx, stuck)
		a, ok := pathOf(diagnose.Judge(scenes))
		if ok && slices.Contains([]string{"path.stale", "path.loss"}, a.Why[0].Cause) { // the other end is reached
			a, ok = pathOf(diagnose.Judge(append(scenes, d.those(ctx, stuck)...)))
		}
		if f := <-lossy; !ok && f != nil {
			if path, _, _ := strings.Cut(f.What, " (seen at"); first(path) {
				d.p.say(*f, "")
			}
		}
		lasts := ok && slices.Contains([]string{"path.loss", "path.new"}, a.Why[0].Cause) // some arrive, or none was open
		if ok && (lasts || len(crawls)+len(d.stuck()) > 0) && first(a.Key()) {
			d.p.say(stuckFinding(failedThere(a, d.p.ends), d.p.adrift()), "")
			reported.reports(scene.TrafficOf(d.family), time.Now())
		}
		next = time.Now().Add(pause)
		pause = min(2*pause, maxStuckPause)
	}
}

// carried takes in what the connections of this node to other nodes of the job have carried so far, and returns it.
func (d *doctor) carried(ctx context.Context) scene.Traffic {
	t := d.traffic(ctx)
	d.flows.saw(t, time.Now(), fabric.Courses())
	d.flows.owned(func() scene.Traffic { return scene.TrafficOf(d.family) })
	return t
}

// traffic returns what the connections of this node to other nodes of the job have carried so far.
func (d *doctor) traffic(ctx context.Context) scene.Traffic {
	var at []netip.Addr
	for _, n := range d.others(ctx) {
		at = append(append(at, n.Addr), n.Addrs...)
	}
	if len(at) == 0 {
		return nil
	}
	return openTo(at)
}

// openTo returns what the open connections of this node to some addresses of other nodes have carried so far. One that
// a process has closed stays in the kernel until its last data is acknowledged, and is left out.
func openTo(at []netip.Addr) scene.Traffic {
	t := scene.TrafficWith(at)
	maps.DeleteFunc(t, func(l scene.Link, k scene.Socket) bool {
		to := l.Remote.Addr().Unmap()
		return k.State != "established" || k.Inode == 0 || to.IsLoopback() || to == l.Local.Addr().Unmap()
	})
	return t
}

// lossy returns that the path to one of some addresses loses packets; nil: no new connections show that. A connection
// is stuck there at times only, and may go on while it is looked at.
func (d *doctor) lossy(ctx context.Context, stuck []netip.Addr) *finding.Finding {
	for _, n := range d.others(ctx) {
		at := func(a netip.Addr) bool { return a == n.Addr || slices.Contains(n.Addrs, a) }
		if !slices.ContainsFunc(stuck, at) || n.Peer == 0 {
			continue
		}
		if f := d.p.knock(ctx, n); f.Lossy() && (f.Late < f.Tried || f.Never > 0) {
			s := sight{is: isLossy, path: shows(isLossy, f, scene.Exchanged{}, 0)}
			out := d.p.goingOn("", time.Now().Format("15:04:05"), n, s, 0)
			return &out
		}
	}
	return nil
}

// stuck returns to which addresses connections of this node's command are stuck, other than of a node that is reported
// as lost, or its path as slow.
func (d *doctor) stuck() []netip.Addr {
	found := d.allStuck()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(found, func(to netip.Addr) bool {
		return slices.Contains(d.lost, to) || slices.Contains(d.slow, to)
	})
}

// unopened returns at which addresses of other nodes calls of this node's command have no answer. A node that is
// reported as lost, or its path as slow, is no such case.
func (d *doctor) unopened(ctx context.Context) []netip.Addr {
	found := scene.Unopened(d.family)
	if len(found) == 0 {
		return nil
	}
	var at []netip.Addr
	for _, n := range d.others(ctx) {
		at = append(append(at, n.Addr), n.Addrs...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(found, func(to netip.Addr) bool {
		return !slices.Contains(at, to) || slices.Contains(d.lost, to) || slices.Contains(d.slow, to)
	})
}

// allStuck returns to which addresses connections of this node's command are stuck.
func (d *doctor) allStuck() []netip.Addr {
	if d.stalled != nil {
		return d.stalled(d.family)
	}
	return scene.Stuck(d.family)
}

// crawling returns the connections that crawl to nodes that are not reported as lost, or their paths as slow.
func (d *doctor) crawling() []scene.Crawl {
	found := d.flows.crawling()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(found, func(c scene.Crawl) bool {
		return slices.Contains(d.lost, c.To) || slices.Contains(d.slow, c.To)
	})
}

// family returns the processes of this node's command. Where that is the first process of a container, this one is
// below it, too.
func (d *doctor) family() []int {
	return append(process.Descendants(d.command(), os.Getpid()), d.command())
}

// forget has the connections to a node that is reported as lost not reported again.
func (d *doctor) forget(n rendezvous.Partner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = append(append(d.lost, n.Addr), n.Addrs...)
}

// slows has the connections to a node not reported as stuck while the path to it is reported as slow.
func (d *doctor) slows(n rendezvous.Partner, slow bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := append([]netip.Addr{n.Addr}, n.Addrs...)
	d.slow = slices.DeleteFunc(d.slow, func(a netip.Addr) bool { return slices.Contains(at, a) })
	if slow {
		d.slow = append(d.slow, at...)
	}
}

// remember undoes forget, of a node that goes on.
func (d *doctor) remember(n rendezvous.Partner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := append([]netip.Addr{n.Addr}, n.Addrs...)
	d.lost = slices.DeleteFunc(d.lost, func(a netip.Addr) bool { return slices.Contains(at, a) })
}

// alone reports whether all of several other nodes are reported as lost.
func (d *doctor) alone(ctx context.Context) bool {
	others := d.others(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(others) > 1 && !slices.ContainsFunc(others, func(n rendezvous.Partner) bool {
		return !slices.Contains(d.lost, n.Addr)
	})
}

// pathOf returns the answer that is certain of a path between two nodes, with that reason alone.
func pathOf(all []verdict.Answer) (verdict.Answer, bool) {
	for _, a := range all {
		for _, v := range a.Why {
			if v.Sure == verdict.Certain && strings.HasPrefix(v.Cause, "path.") {
				a.Why, a.Need = []verdict.Verdict{v}, nil
				return a, true
			}
		}
	}
	return verdict.Answer{}, false
}

// failedThere makes an answer about a path less sure where the command of the node at its other end has failed: its
// kernel ends the connection then, and that did not arrive.
func failedThere(a verdict.Answer, e *ends) verdict.Answer {
	if e == nil || !e.failed.known() || a.Why[0].Cause != "path.lost" {
		return a
	}
	name, _, _ := strings.Cut(e.failed.end.Node, " ")
	named := func(n string) bool { return n == name || n == e.failed.end.Node } // with its address, if it has left
	if !slices.ContainsFunc(a.Why[0].Nodes, named) || e.failed.end.ID == e.p.world.Self.ID {
		return a
	}
	v := a.Why[0]
	v.Sure = verdict.Likely
	v.Says += "; a rank there has ended, and nothing of that arrives here"
	a.Why = []verdict.Verdict{v}
	return a
}

// stuckFinding says why a connection is stuck.
func stuckFinding(a verdict.Answer, adrift string) finding.Finding {
	what := "a connection of the command is stuck"
	switch a.Why[0].Cause {
	case "path.loss":
		what = "a connection of the command is slow by far, or stuck"
	case "path.new":
		what = "a new connection of the command gets no answer"
	}
	return because(what, a, adrift).Named("job.path").
		Breaking("ranks that exchange data over it wait until their own timeout")
}
