package companion

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/diagnose/scene"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// presence is what calls to a node that was lost show.
type presence string

const (
	notCalled presence = ""
	isBack    presence = "answers again: it or the network stopped for a while"
	hasEnded  presence = "its machine answers, and launch has ended there"
	isStopped presence = "its machine takes connections, and launch does not answer there: stopped, frozen or without " +
		"processor time"
	isAbsent presence = "nothing answers at its address"
	isHelper presence = "its ranks still send data: launch's own process there is stopped or has ended"
	isSlow   presence = "is slow or full, or loses packets"
	isLossy  presence = "loses packets"
)

// sight is a presence, and what shows it where that is a path.
type sight struct {
	is   presence
	path string // isLossy and isSlow
}

// goesOn reports whether a node that was lost takes part in the job.
func (s sight) goesOn() bool { return s.is == isBack || s.is == isHelper || s.badPath() }

// badPath reports whether the path to the node is at fault, and carries something.
func (s sight) badPath() bool { return s.is == isSlow || s.is == isLossy }

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
	// standGrace is how long --fail-fast waits for a node that stands still: a machine that moves to another host stands
	// for seconds, and ranks wait for minutes.
	standGrace = time.Minute
	// maxSilent is how often in a row nothing answers over a path that is slow or loses packets until the node is lost:
	// TCP sends again after longer and longer pauses.
	maxSilent = 3
	// minKnocks is how few connections to the node are opened at once, and allKnocks how many by all nodes together: a
	// process that stands still takes none from the queue of its listener, which has 128 places before Linux 5.4.
	minKnocks, allKnocks = 3, 96
	// maxThirds is how many further nodes are called to compare their paths.
	maxThirds = 3
)

// presenceOf calls a node that was lost. Its ranks may go on without launch, and what looks like a process that stands
// still may be a path that loses the answers: many connections at once show that, and what the open ones exchange.
// was is the sight before. What arrives without an end, and acknowledges nothing, may be sent again and again over a
// path that is dead the other way: that does not make a path slow, but one that was slow remains so.
func (p *companion) presenceOf(n rendezvous.Partner, was sight) sight {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	at, began := append([]netip.Addr{n.Addr}, n.Addrs...), time.Now()
	before, knocked := scene.TrafficWith(at), make(chan sidechannel.Flows, 1)
	go func() { knocked <- p.knock(ctx, n) }()
	var now presence
	var again int
	for range callTries {
		if now, again = p.callLost(n); now != isAbsent {
			break
		}
	}
	if now == isBack && again == 0 {
		return sight{is: isBack}
	}
	from := scene.Heard(heardWithin, p.doctor.family)
	heard := slices.ContainsFunc(at, func(a netip.Addr) bool { return slices.Contains(from, a) })
	if now != isBack && now != isStopped && now != isAbsent {
		return sight{is: weigh(now, heard, sidechannel.Flows{}, scene.Exchanged{})}
	}
	flows := <-knocked
	for range callTries - 1 { // some packets get lost, and it is not clear whether many do
		if now != isBack && flows.Late > 0 && flows.Late < flows.Tried && !flows.Lossy() {
			flows = flows.And(p.knock(ctx, n))
		}
	}
	moved := scene.TrafficWith(at).Since(before)
	moved.Again += uint64(again)
	if !was.badPath() && moved.Acked == 0 {
		moved.Segments = 0
	}
	s := sight{is: weigh(now, heard, flows, moved)}
	if s.badPath() {
		s.path = shows(s.is, flows, moved, time.Since(began)) + p.compare(n)
	}
	return s
}

// weigh returns what a call to a node, connections to it opened at once, and what the open ones exchanged meanwhile
// show together; heard: data of its ranks has just arrived. A process that stands still loses nothing: its kernel
// answers, until the queue of its listener is full. One that goes on meanwhile answers all late.
func weigh(now presence, heard bool, f sidechannel.Flows, e scene.Exchanged) presence {
	open, lost := f.Tried-f.Never, e.Unheard || e.Again > 0
	switch {
	case now != hasEnded && open > 0 && f.Late > 0 && (lost || f.Lossy() && (f.Late < f.Tried || f.Never > 0)):
		return isLossy
	case now == isAbsent && open == 0 && (heard || e.Segments > 0), now == isStopped && heard && lost:
		return isSlow
	case now == isAbsent && open > 0:
		now = isStopped
	}
	if heard && (now == hasEnded || now == isStopped) {
		return isHelper
	}
	return now
}

// shows says what shows that a path is slow or loses packets.
func shows(is presence, f sidechannel.Flows, e scene.Exchanged, span time.Duration) string {
	if is == isLossy {
		return fmt.Sprintf("%d of %d new connections had no answer to their first packet", f.Late, f.Tried)
	}
	text := "data from there arrives, and a call gets no answer in time"
	if e.Waiting && e.Acked > 0 {
		text += fmt.Sprintf("; what this node sends arrives at %s/s", finding.Size(uint64(float64(e.Acked)/span.Seconds())))
	}
	return text
}

// knock opens connections to a node at once.
func (p *companion) knock(ctx context.Context, n rendezvous.Partner) sidechannel.Flows {
	count := max(minKnocks, min(scene.Knocks, allKnocks/max(1, p.world.Size)))
	return sidechannel.TryFlows(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), sidechannel.Options{}, count,
		callTries*callBudget)
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

func isOrAre(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// goingOn reports a node that was lost and takes part in the job: what was lost is launch's own connection. stood is
// how long ago it was lost.
func (p *companion) goingOn(text, at string, n rendezvous.Partner, now sight, stood time.Duration) finding.Finding {
	switch {
	case now.badPath():
	case now.is == isBack && stood >= backPause:
		return finding.Warnf("node rank %d, %s, answers again (seen at %s), %s after it was lost: it or the network stopped "+
			"for a while, and goes on", n.Rank, n.Name, at, stood.Round(time.Second)).Named("node.lost")
	default:
		return finding.Warnf("%s (seen at %s), and %s", text, at, now.is).Named("node.lost")
	}
	f := finding.Warnf("the network path between this node and node rank %d, %s, %s (seen at %s): %s", n.Rank, n.Name,
		now.is, at, now.path).Named("job.path").
		Breaking("what ranks exchange over it is slow by far, or ends by their own timeout")
	if now.is == isLossy {
		return f.Do("ip -s link; ethtool -S IFACE   # on both nodes: errors and drops, a duplex of half\n" +
			"then change the cable or the port of the switch")
	}
	return f.Do("ip -s link; tc -s qdisc; ethtool IFACE   # on both nodes: drops, a full queue, a limit of the rate, " +
		"the speed")
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

// untilBack calls a node again and again that stands still or does not answer, and returns once it goes on, and when,
// or once the run has ended. With --fail-fast it ends the command after a time.
func (p *companion) untilBack(n rendezvous.Partner, now sight) (sight, string) {
	began, pause := time.Now(), backPause
	for p.sleep(pause) {
		now = p.presenceOf(n, sight{})
		stood := time.Since(began)
		switch {
		case now.goesOn():
			p.doctor.remember(n)
			p.blamed.Store(false)
			return now, time.Now().Format("15:04:05")
		case p.spec.FailFast && (now.is != isStopped || stood > standGrace):
			p.tell(finding.Warnf("node rank %d, %s, has not gone on for %s: %s", n.Rank, n.Name, stood.Round(time.Second),
				now.is).Named("node.lost"))
			return now, ""
		case now.is == hasEnded:
			return now, ""
		}
		if stood > standGrace {
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

// callLost calls a node, and returns also how many segments it had to send again.
func (p *companion) callLost(n rendezvous.Partner) (now presence, again int) {
	ctx, cancel := context.WithTimeout(p.ctx, callBudget)
	defer cancel()
	a, err := sidechannel.Probe(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), p.spec.Token.Keys(p.spec.Job).Client(),
		sidechannel.Options{})
	if sidechannel.Here(err) {
		return presence("this node could not call it: " + err.Error()), 0
	}
	switch sidechannel.CauseOf(err) {
	case "":
		return isBack, a.Retrans
	case sidechannel.Refused:
		return hasEnded, 0
	case sidechannel.Silent:
		return isStopped, a.Retrans
	case sidechannel.Dropped, sidechannel.NoHost, sidechannel.NoRoute, sidechannel.Unknown:
		return isAbsent, 0
	}
	return notCalled, 0
}
