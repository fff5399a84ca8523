package diagnose

import (
	"fmt"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// Stance is where the ranks of a job were in one look. Two of them, taken far apart, show which rank spins.
type Stance struct {
	view  *view                // nil: forgotten
	spins map[string]string    // the ranks that use one core and do nothing else: the lines of their stacks
	waits map[string]string    // the ranks that wait for others, each with where
	bytes uint64               // that have moved between ranks
	taken map[string]time.Time // of each process: when its node was looked at
}

// StanceOf returns where the ranks of the first job of some scenes are; nil: there is no job.
func StanceOf(scenes []scene.Scene) *Stance {
	all := views(scenes)
	if len(all) == 0 {
		return nil
	}
	out := &Stance{view: all[0], spins: map[string]string{}, waits: map[string]string{},
		taken: map[string]time.Time{}}
	for _, s := range all[0].seats {
		out.taken[s.key()] = s.node.scene.Taken
		main := mainStack(s.proc)
		switch s.phase {
		case before, inside:
			if main != nil && onlyComputes(s.proc.Moved, s.node.scene.Span) {
				out.spins[s.key()] = strings.Join(main.Frames, "\n")
			}
		case keys, mesh, counting, collective, group:
			where := string(s.phase)
			if main != nil {
				where += "\n" + strings.Join(main.Frames, "\n")
			}
			out.waits[s.key()] = where
		}
		for _, k := range s.node.scene.Sockets {
			if k.PID == s.proc.PID && k.Info != nil && !out.view.isStore(s.node, k) {
				out.bytes += k.Info.Sent + k.Info.Received
			}
		}
	}
	return out
}

// Forget drops what only the look itself needs, so that a Stance takes little memory.
func (now *Stance) Forget() {
	if now != nil {
		now.view = nil
	}
}

// key names the process of a seat, the same in two looks.
func (s *seat) key() string { return fmt.Sprintf("%s/%d", s.node.name, s.proc.PID) }

// onlyComputes reports whether a process used a core and no more, and did nothing else that a kernel sees: it reads
// nothing, does not grow and starts no child. The first steps of a compiler do.
func onlyComputes(m scene.Moved, span time.Duration) bool {
	return span > 0 && m.CPU > span*8/10 && m.CPU < span*12/10 && m.Read < 64<<10 && m.Memory < 1<<20 &&
		float64(m.Faults) < 50*span.Seconds() && !m.Children && !m.Files
}

// Spins names the ranks that spun in the look before and spin now, at the same line, while all other ranks wait
// for them where they waited before, and no byte has moved between ranks. A loop that polls looks like that, and so
// does a long computation, so that the answer is open.
func (now *Stance) Spins(last *Stance) (verdict.Answer, bool) {
	if now == nil || now.view == nil || last == nil || len(now.waits) == 0 || now.bytes != last.bytes ||
		len(now.waits)+len(now.spins) < len(now.view.seats) {
		return verdict.Answer{}, false
	}
	for key, at := range now.taken {
		if !at.IsZero() && at.Equal(last.taken[key]) {
			return verdict.Answer{}, false // it is the same look, which serves callers for a while
		}
	}
	for key, where := range now.waits {
		if last.waits[key] != where {
			return verdict.Answer{}, false
		}
	}
	var claims []claim
	for _, s := range now.view.seats {
		lines, spins := now.spins[s.key()]
		if !spins {
			continue
		}
		if last.spins[s.key()] != lines {
			return verdict.Answer{}, false // it gets on
		}
		claims = append(claims, about("rank.spins", verdict.Possible, s,
			"uses one core at the same line, and nothing else of it moves: it polls for something, or computes for long").
			see("py-spy", seatName(s)+" at "+line(mainStack(s.proc))))
	}
	if len(claims) == 0 {
		return verdict.Answer{}, false
	}
	a := verdict.Answer{State: verdict.Open, Job: now.view.title(), Ranks: now.view.ranks()}
	for _, c := range fold(claims) {
		a.Why = append(a.Why, c.Verdict)
	}
	return a, true
}
