package companion

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// callBudget bounds one call to a node that was lost. Where nothing answers, there are calls in a row: a path that
	// has just healed takes a new SYN, and TCP would wait longer each time before it sends one again.
	callBudget = 900 * time.Millisecond
	callTries  = 3
	// backPause is how often a node that was lost is called, and maxBackPause the longest pause where it does not answer.
	backPause, maxBackPause = 5 * time.Second, time.Minute
	// heardWithin is how old the last data of a rank may be that goes on without launch on its node: longer than a step
	// of most trainings.
	heardWithin = 5 * time.Second
	// haltGrace is how long --fail-fast waits for a node that is stopped: a machine that moves to another host is stopped
	// for seconds, and ranks wait for minutes.
	haltGrace = time.Minute
	// maxSilent is how often in a row nothing answers over a path that is slow or loses packets until the node is lost:
	// TCP sends again after longer and longer pauses.
	maxSilent = 3
	// minKnocks is how few connections to the node are opened at once, and allKnocks how many by all nodes together
	// where they can be so many: the queue of a listener has 128 places before Linux 5.4.
	minKnocks, allKnocks = 3, 96
	// unusedPort is tcpmux (RFC 1078), which no system serves today. Where one does, it answers as well.
	unusedPort = 1
	// maxThirds is how many further nodes are called to compare their paths.
	maxThirds = 3
)

// presenceOf calls a node that was lost. Its ranks may go on without launch, and what looks like a node that is absent
// may be a path that loses the answers, or a process that is stopped, whose listener has a full queue: many
// connections at once show that, the machine itself, and what the open connections exchange. Each connection that a
// process does not take remains in that queue, also after its end. So many are opened only where one had no answer,
// and the queue is full anyway, or had to send again, which a process that is stopped does not cause, or where the
// path was bad before.
// was is the sight before: a node that was stopped is not absent while its machine shows itself. What arrives without
// an end, and acknowledges nothing, may be sent again and again over a path that is dead the other way: that does not
// make a path slow, but one that was slow remains so.
func (p *companion) presenceOf(n rendezvous.Partner, was sight) sight {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	at, began := append([]netip.Addr{n.Addr}, n.Addrs...), time.Now()
	before := scene.TrafficWith(at)
	var more chan further
	var now presence
	var again int
	for range callTries {
		now, again = p.callLost(n)
		if more == nil && (now == isAbsent || again > 0 || was.badPath()) {
			more = make(chan further, 1)
			go func() { more <- p.further(ctx, n) }()
		}
		if now != isAbsent {
			break
		}
	}
	if now == isBack && again == 0 {
		return sight{is: isBack}
	}
	from := scene.Heard(heardWithin, p.doctor.family)
	heard := slices.ContainsFunc(at, func(a netip.Addr) bool { return slices.Contains(from, a) })
	if now == hasEnded {
		if f := p.doctor.moved(n, p.doctor.others(ctx)); f.Why != "" {
			return sight{is: weigh(isMoved, heard, further{}, scene.Exchanged{}), way: f.Why}
		}
	}
	if now != isBack && now != isStopped && now != isAbsent {
		return sight{is: weigh(now, heard, further{}, scene.Exchanged{})}
	}
	var m further
	if more != nil {
		m = <-more
	}
	for range callTries - 1 { // some packets get lost, and it is not clear whether many do
		if now != isBack && m.flows.Late > 0 && m.flows.Late < m.flows.Tried && !m.flows.Lossy() {
			m.flows = m.flows.And(p.knock(ctx, n))
		}
	}
	moved := scene.TrafficWith(at).Since(before)
	moved.Again += uint64(again)
	if !was.badPath() && moved.Acked == 0 {
		moved.Segments = 0
	}
	m.alive = m.alive || was.halted() && (moved.Flows() || !heard && fabric.Neighbour(n.Addr) == fabric.Here)
	s := sight{is: weigh(now, heard, m, moved), shut: now == isAbsent && m.flows.Never == m.flows.Tried, sign: m.sign}
	if s.badPath() {
		s.path, s.some = shows(s.is, m.flows, moved, time.Since(began)), byPort(m.flows)
	}
	return s
}

// further is what more connections show where a call had no answer, or had to send again.
type further struct {
	flows sidechannel.Flows // to launch's port
	alive bool              // the kernel there answers at once: no packet waits or is lost on the way
	sign  fabric.Sign       // what else answers there
}

// further opens more connections to a node.
func (p *companion) further(ctx context.Context, n rendezvous.Partner) (m further) {
	var both sync.WaitGroup
	if p.machine != nil {
		both.Go(func() { m.alive = p.machine(ctx, n.Addr) })
		both.Go(func() { m.sign = fabric.SignOf(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer))) })
	}
	m.flows = p.knock(ctx, n)
	both.Wait()
	return m
}

// machineAnswers reports whether the kernel of a machine answers at once: it refuses calls to a port without a
// listener, and they take no place in a queue. A call that fails for another reason, as where no machine is found, has
// no answer.
func machineAnswers(ctx context.Context, at netip.Addr) bool {
	d := net.Dialer{Timeout: callBudget / callTries}
	for range callTries {
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(at, unusedPort).String())
		if err == nil {
			c.Close()
		}
		if err == nil || errors.Is(err, unix.ECONNREFUSED) {
			return true
		}
	}
	return false
}

// weigh returns what a call to a node, connections to it opened at once, and what the open ones exchanged meanwhile
// show together; heard: data of its ranks has just arrived. A process that is stopped loses nothing: its kernel
// answers, until the queue of its listener is full, and at other ports then, too. One that goes on meanwhile answers
// all late.
func weigh(now presence, heard bool, m further, e scene.Exchanged) presence {
	f, lost := m.flows, e.Unheard || e.Again > 0
	open := f.Tried - f.Never
	switch {
	case now != hasEnded && open > 0 && f.Late > 0 && (lost || f.Lossy() && (f.Late < f.Tried || f.Never > 0)):
		return isLossy
	case now == isAbsent && (open > 0 || m.alive):
		now = isStopped
	case now == isAbsent && (heard || e.Segments > 0), now == isStopped && heard && lost && !m.alive:
		return isSlow
	}
	if heard && (now == hasEnded || now == isStopped || now == isMoved) {
		return isHelper
	}
	return now
}

// shows says what shows that a path is slow or loses packets.
func shows(is presence, f sidechannel.Flows, e scene.Exchanged, span time.Duration) string {
	if is == isLossy && byPort(f) {
		return fmt.Sprintf("%d of %d new connections had no answer, however often they asked, and the rest opened at once: "+
			"their ports decide, as with a dead member of a LAG (bond) or of equal routes (ECMP)", f.Never, f.Tried)
	}
	if is == isLossy {
		return fmt.Sprintf("%d of %d new connections had no answer to their first packet", f.Late, f.Tried)
	}
	text := "data from there arrives, and a call gets no answer in time"
	if e.Waiting && e.Acked > 0 {
		text += fmt.Sprintf("; what this node sends arrives at %s/s", finding.Size(uint64(float64(e.Acked)/span.Seconds())))
	}
	return text
}

// byPort reports whether several of new connections never open, and the others at once: packets are not lost by chance.
func byPort(f sidechannel.Flows) bool {
	return f.Never > 2 && f.Never == f.Late && f.Never < f.Tried && f.Refused == 0
}

// knock opens connections to a node at once.
func (p *companion) knock(ctx context.Context, n rendezvous.Partner) sidechannel.Flows {
	return sidechannel.TryFlows(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), sidechannel.Options{}, p.knocks(),
		callTries*callBudget)
}

// knocks is how many connections this node opens at once.
func (p *companion) knocks() int {
	w := p.doctor.world.Load()
	if w == nil {
		return scene.Knocks
	}
	return max(minKnocks, min(scene.Knocks, allKnocks/max(1, w.Size)))
}

// compare says whether the paths to further nodes are sound, where that to a node is not.
func (p *companion) compare(n rendezvous.Partner) string {
	var third []rendezvous.Partner
	for _, o := range p.doctor.others(p.ctx) {
		if o.Rank != n.Rank && o.Addr.IsValid() && o.Peer != 0 && len(third) < maxThirds {
			third = append(third, o)
		}
	}
	flows := make([]sidechannel.Flows, len(third))
	var all sync.WaitGroup
	for i, o := range third {
		all.Go(func() { flows[i] = p.knock(p.ctx, o) })
	}
	all.Wait()
	var sound, bad []string
	for i, f := range flows {
		switch {
		case f.Tried == 0 || f.Refused > 0:
		case f.Late == 0:
			sound = append(sound, third[i].Name)
		default:
			bad = append(bad, third[i].Name)
		}
	}
	return compared(n.Name, sound, bad)
}

// compared says on whose side a path is at fault: the paths from here to the sound nodes lose nothing, those to the bad
// ones do, as that to the node does.
func compared(node string, sound, bad []string) string {
	switch {
	case len(sound) > 0 && len(bad) == 0:
		return fmt.Sprintf("; %s %s reached without a loss: the fault is on the side of %s", finding.Some(sound),
			isOrAre(sound), node)
	case len(bad) > 0 && len(sound) == 0:
		return fmt.Sprintf("; so it is to %s: the fault is on the side of this node", finding.Some(bad))
	case len(bad) > 0:
		return fmt.Sprintf("; so it is to %s, and %s %s reached without a loss", finding.Some(bad), finding.Some(sound),
			isOrAre(sound))
	}
	return ""
}

// membersFix shows the members of a link.
const membersFix = "cat /proc/net/bonding/*; ip -s link   # on both nodes, and the same LAG at the switches\n" +
	"take the member out that is dead"

func isOrAre(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// goingOn reports a node that was lost and takes part in the job: what was lost is launch's own connection. lost is
// how long ago it was lost.
func (p *companion) goingOn(text, at string, n rendezvous.Partner, now sight, lost time.Duration) finding.Finding {
	switch {
	case now.badPath():
	case now.is == isBack && lost >= backPause:
		return finding.Warnf("node rank %d, %s, answers again (seen at %s), %s after it was lost: it or the network stopped "+
			"for a while, and goes on", n.Rank, n.Name, at, lost.Round(time.Second)).Named("node.lost")
	case now.is == isBack && n.Rank == 0 && p.storeShut(n, callTries*callBudget):
		return finding.Warnf("%s (seen at %s), and it answers at another port: something drops packets of the store's port",
			text, at).Named("node.lost").Do("nft list ruleset; iptables -S   # on that node, on this one and between: the port "+
			"of %s", strings.Join(p.spec.Endpoints, ", "))
	default:
		return finding.Warnf("%s (seen at %s), and %s", text, at, now).Named("node.lost")
	}
	f := finding.Warnf("the network path between this node and node rank %d, %s, %s (seen at %s): %s", n.Rank, n.Name,
		now.is, at, now.path+p.compare(n)).Named("job.path").
		Breaking("what ranks exchange over it is slow by far, or ends by their own timeout")
	if now.some {
		return f.Do(membersFix)
	}
	if now.is == isLossy {
		return f.Do("ip -s link; ethtool -S IFACE   # on both nodes: errors and drops, a duplex of half\n" +
			"then change the cable or the port of the switch")
	}
	return f.Do("ip -s link; tc -s qdisc; ethtool IFACE   # on both nodes: drops, a full queue, a limit of the rate, " +
		"the speed")
}

// storeShut reports whether the store of a job, which a node hosts that answers calls at another port, gets no call. At
// another address of that node a call may have no answer anyway.
func (p *companion) storeShut(host rendezvous.Partner, limit time.Duration) bool {
	if !p.spec.Embedded || len(p.spec.Endpoints) == 0 {
		return false
	}
	name, port, err := net.SplitHostPort(p.spec.Endpoints[0])
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	addr := host.Addr.Unmap()
	if at, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name); err != nil ||
		!slices.ContainsFunc(at, func(a netip.Addr) bool { return a.Unmap() == addr }) {
		return false
	}
	d := net.Dialer{Timeout: limit}
	c, err := d.DialContext(p.ctx, "tcp", net.JoinHostPort(addr.String(), port))
	if err == nil {
		c.Close()
	}
	var late net.Error
	return errors.As(err, &late) && late.Timeout() && p.ctx.Err() == nil
}

// untilGone calls a node that goes on again and again, and returns the first sight of one that does not, or the last
// one of the run.
func (p *companion) untilGone(n rendezvous.Partner, now sight) sight {
	defer p.doctor.slows(n, false)
	for silent := 0; ; {
		if p.doctor.slows(n, now.badPath()); !p.sleep(backPause) {
			return now
		}
		next := p.presenceOf(n, now)
		if now.badPath() && next.is == isAbsent {
			if silent++; silent < maxSilent {
				continue
			}
		}
		if silent = 0; !next.goesOn() {
			return next
		}
		now = next
	}
}

// untilBack calls a node again and again that is stopped or does not answer, and returns once it goes on, and when,
// or once the run has ended. With --fail-fast it ends the command after a time.
func (p *companion) untilBack(n rendezvous.Partner, now sight) (sight, string) {
	began, pause := time.Now(), backPause
	for p.sleep(pause) {
		now = p.presenceOf(n, now)
		waited := time.Since(began)
		switch {
		case now.goesOn():
			p.doctor.remember(n)
			p.blamed.Store(false)
			return now, time.Now().Format("15:04:05")
		case p.spec.FailFast && (now.is != isStopped || waited > haltGrace):
			p.tell(finding.Warnf("node rank %d, %s, has not gone on for %s: %s", n.Rank, n.Name, waited.Round(time.Second),
				now).Named("node.lost"))
			return now, ""
		case now.is == hasEnded:
			return now, ""
		}
		if waited > haltGrace {
			pause = min(2*pause, maxBackPause)
		}
	}
	return now, ""
}

// sleep waits for a pause; false: the run has ended.
func (p *companion) sleep(pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-p.running.Done():
		return false
	}
}
