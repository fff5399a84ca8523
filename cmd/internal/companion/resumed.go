package companion

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/internal/sidechannel"
)

const (
	// goesOnSpan is for how long a job moves again before a look decides whether it goes on, and restSpan the pause
	// that ends such a time: a job that hangs may move for a moment.
	goesOnSpan, restSpan = 15 * time.Second, 10 * time.Second
	// soundPolls is how often in a row no connection is stuck: where packets are lost, one may be sound for a moment.
	soundPolls = 3
)

// standing is what this node has reported of a job that does not go on, until it does.
type standing struct {
	since       time.Time // nothing has moved; zero: nothing is reported
	due         look      // by which that was seen
	began, last time.Time // of the moves since then; zero: nothing moves
	next        time.Time // look whether it goes on
	pause       time.Duration
}

// reports takes in that a hang is reported. Another reason for the same one does not begin it again.
func (s *standing) reports(since time.Time, due look) {
	if s.since.IsZero() {
		s.since, s.due = since, due
	}
	s.began, s.next, s.pause = time.Time{}, time.Time{}, goesOnSpan
}

// saw takes in what the processes have done between two moments. It returns whether a job of which a hang is reported
// has moved for long enough to look again.
func (s *standing) saw(a, b effort) bool {
	if s.since.IsZero() {
		return false
	}
	moves := map[look]func(a, b effort) bool{lookEarly: worked, lookStill: moved, lookSpins: busy}[s.due](a, b)
	switch {
	case moves:
		if s.last = b.at; s.began.IsZero() {
			s.began = a.at
		}
	case b.at.Sub(s.last) >= restSpan:
		s.began = time.Time{}
	}
	return moves && b.at.Sub(s.began) >= goesOnSpan && !b.at.Before(s.next)
}

// judge takes in the answer of a look after saw has asked for one; ok: there is one. Of a job that goes on it returns
// the finding, once. Each look that finds another thing doubles the time until the next one.
func (s *standing) judge(a verdict.Answer, ok bool) (finding.Finding, bool) {
	if !ok || a.State != verdict.Running && a.State != verdict.Slow {
		s.next, s.pause = s.last.Add(s.pause), min(2*s.pause, maxStuckPause)
		return finding.Finding{}, false
	}
	f := finding.Passf("the job goes on again (since %s), after no progress for %s", s.began.Format(time.TimeOnly),
		s.began.Sub(s.since).Round(time.Second)).Named("job.hangs")
	*s = standing{}
	return f, true
}

// stuckPaths are the connections that are reported as stuck, until they carry data again.
type stuckPaths struct {
	at    time.Time // of the report
	of    scene.Traffic
	polls int // in a row in which no connection is stuck
}

// reports takes in that those of the command's connections are reported that are stuck.
func (s *stuckPaths) reports(t scene.Traffic, at time.Time) {
	maps.DeleteFunc(t, func(_ scene.Link, k scene.Socket) bool { return !k.Stuck() })
	*s = stuckPaths{at: at, of: t}
}

// look takes in what open connections to the other nodes have carried, while none is stuck. It returns the finding that
// those of the report carry data again, once none has been stuck for some time.
func (s *stuckPaths) look(now scene.Traffic, at time.Time) (f finding.Finding, ok bool) {
	if s.polls++; len(s.of) == 0 || s.polls < soundPolls {
		return f, false
	}
	maps.DeleteFunc(s.of, func(l scene.Link, was scene.Socket) bool { return now[l].Inode != was.Inode }) // ended
	return s.resumed(now, at)
}

// resumed returns the finding about connections that carry data again after they were reported as stuck, once.
func (s *stuckPaths) resumed(now scene.Traffic, at time.Time) (f finding.Finding, ok bool) {
	var to []string
	for l, was := range s.of {
		k, name := now[l], l.Remote.Addr().Unmap().String()
		if k.Inode == was.Inode && k.Info.Acked > was.Info.Acked && !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	if len(to) == 0 {
		return f, false
	}
	slices.Sort(to)
	f = finding.Passf("the command's connection to %s carries data again (seen at %s), %s after it was reported as stuck",
		finding.Some(to), at.Format(time.TimeOnly), at.Sub(s.at).Round(time.Second)).Named("job.path")
	*s = stuckPaths{}
	return f, true
}

// hasStarted reports, of a node that has not started in time, that it has.
func (p *companion) hasStarted(text string) {
	name, late := strings.CutSuffix(text, ", has not started")
	n, known := p.lostOf(text)
	if !late || !known {
		return
	}
	began, keys := time.Now(), p.spec.Token.Keys(p.spec.Job).Client()
	for pause := backPause; ; pause = min(2*pause, maxBackPause) {
		ctx, cancel := context.WithTimeout(p.running, callBudget)
		_, err := sidechannel.Hear(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), keys, n.ID, 0)
		cancel()
		if err == nil {
			p.say(finding.Passf("%s, has started (seen at %s), %s after it was reported as late", name,
				time.Now().Format(time.TimeOnly), time.Since(began).Round(time.Second)).Named("start.late"), "")
			return
		}
		if !p.sleep(pause) {
			return
		}
	}
}
