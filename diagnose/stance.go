package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// Stance is where the ranks of a job were in one look. Two of them, taken far apart, show which rank spins.
type Stance struct {
	view  *view                // nil: forgotten
	spins map[string]spin      // the ranks that use a core or less and do nothing else that is seen
	waits map[string]string    // the ranks that wait for others, each with where
	bytes uint64               // that have moved between ranks
	taken map[string]time.Time // of each process: when its node was looked at
}

// spin is where a rank goes round.
type spin struct {
	frames []string // of its stack
	core   bool     // it uses a core
	asks   string   // what outside of the job it exchanges data with during the look; "": nothing is seen
	bytes  uint64   // that it has exchanged with that so far
	polls  bool     // its main thread waits for data of that, or sleeps: another thread may ask while it computes
}

// StanceOf returns where the ranks of the first job of some scenes are; nil: there is no job.
func StanceOf(scenes []scene.Scene) *Stance {
	all := views(scenes)
	if len(all) == 0 {
		return nil
	}
	out := &Stance{view: all[0], spins: map[string]spin{}, waits: map[string]string{},
		taken: map[string]time.Time{}}
	for _, s := range all[0].seats {
		out.taken[s.key()] = s.node.scene.Taken
		main := mainStack(s.proc)
		switch s.phase {
		case before, inside:
			sp, span := out.view.asksOne(s), s.node.scene.Span
			if main != nil && onlyComputes(s.proc.Moved, span, sp.asks != "") {
				sp.frames, sp.core = main.Frames, onlyComputes(s.proc.Moved, span, false)
				out.spins[s.key()] = sp
			}
		case keys, mesh, counting, collective, group:
			where := string(s.phase)
			if main != nil {
				where += "\n" + strings.Join(main.Frames, "\n")
			}
			out.waits[s.key()] = where
		}
		for _, k := range s.node.scene.Sockets {
			if k.PID == s.proc.PID && k.Info != nil && !out.view.isStore(s.node, k) && !out.view.outward(s.node, k) {
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

// asksOne returns what outside of the job a rank exchanges data with during the look, if that is one address.
func (v *view) asksOne(s *seat) (out spin) {
	call := s.proc.Syscall
	out.polls = s.proc.Retries()
	for _, k := range s.node.scene.Sockets {
		if k.PID != s.proc.PID || k.State != "established" || k.Info == nil ||
			max(k.Info.LastSent, k.Info.LastRecv) >= s.node.scene.Span || !v.outward(s.node, k) {
			continue
		}
		at := k.Remote.String()
		if out.asks != "" && out.asks != at {
			return spin{}
		}
		out.asks, out.bytes = at, out.bytes+k.Info.Sent+k.Info.Received
		out.polls = out.polls || call != nil && k.Inode != 0 && k.Inode == call.Socket
	}
	return out
}

// onlyComputes reports whether a process used a core, or a part of one where it asks something, and did nothing else
// that a kernel sees: it reads nothing, does not grow and starts no child. The first steps of a compiler do.
func onlyComputes(m scene.Moved, span time.Duration, asks bool) bool {
	least := span * 8 / 10
	if asks {
		least = 0
	}
	return span > 0 && m.CPU > least && m.CPU < span*12/10 && m.Read < 64<<10 && m.Memory < 1<<20 &&
		float64(m.Faults) < 50*span.Seconds() && !m.Children && !m.Files
}

// pollBytes is how much a rank that asks one address again and again may exchange with it in a second: more is data.
const pollBytes = 64 << 10

// round says where a rank went round between two looks, taken so far apart; "": it may have gone on. One that asks an
// address may be at any line of the loop.
func (now spin) round(last spin, apart time.Duration) string {
	place := ""
	for i, j := len(now.frames)-1, len(last.frames)-1; i >= 0 && j >= 0; i, j = i-1, j-1 {
		file, _, _ := strings.Cut(where(now.frames[i]), ":")
		before, _, _ := strings.Cut(where(last.frames[j]), ":")
		called, _, _ := strings.Cut(now.frames[i], " (")
		if was, _, _ := strings.Cut(last.frames[j], " ("); called != was || file != before {
			break
		}
		if place == "" || !strings.Contains(now.frames[i], "site-packages") && !startsWith(file, local) {
			place = called + " (" + file + ")"
		}
	}
	few := float64(max(now.bytes, last.bytes)-min(now.bytes, last.bytes)) <= pollBytes*apart.Seconds()
	switch {
	case now.asks != "" && now.asks == last.asks && (now.polls || last.polls) && place != "" && few:
		return fmt.Sprintf("goes round in %s and asks %s again and again: it waits for what that answers", place, now.asks)
	case now.core && last.core && slices.Equal(now.frames, last.frames):
		return "uses one core at the same line, and does nothing else that is seen: it polls for something, or computes " +
			"for long"
	}
	return ""
}

// Spins names the ranks that spun in the look before and spin now, at the same line or asking the same address, while
// all other ranks wait for them where they waited before, and no byte has moved between ranks. A loop that polls looks
// like that, and so does a long computation, so that the answer is open.
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
		is, spins := now.spins[s.key()]
		if !spins {
			continue
		}
		was, spun := last.spins[s.key()]
		round := is.round(was, now.taken[s.key()].Sub(last.taken[s.key()]))
		if !spun || round == "" {
			return verdict.Answer{}, false // it gets on
		}
		claims = append(claims, about("rank.spins", verdict.Possible, s, round).
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
