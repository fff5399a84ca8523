package rendezvous

import (
	"context"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// progress is what stands at c/progress.
type progress struct {
	Attendance
	Final bool `json:"final,omitempty"` // the store's host gave up, and the store goes with it
}

// telling is when the leader last told who has come.
type telling struct {
	due  bool
	last time.Time
	text string
	wake bool // a timer runs
}

// tell writes who has come where that has changed, and not more often than all
// nodes can read it.
func (l *lead) tell(ctx context.Context, ep Epoch) error {
	t := &l.telling
	if !l.heard && time.Since(l.since) >= noteGrace {
		l.heard = true
		t.due = t.due || len(l.notes) > 0
	}
	if !t.due {
		return nil
	}
	every := min(progressEvery, time.Duration(ep.Size)*time.Millisecond)
	if wait := every - time.Since(t.last); wait > 0 {
		if !t.wake {
			t.wake = true
			time.AfterFunc(wait+time.Millisecond, l.s.nudge)
		}
		return nil
	}
	t.due, t.wake = false, false
	v := encode(progress{Attendance: l.attendance(ep)})
	if v == t.text {
		return nil
	}
	t.last, t.text = time.Now(), v
	return l.asLeader(ctx, "tell who has come", clientv3.OpPut(l.s.k.progress(), v))
}

// attendance is who has come and who left.
func (l *lead) attendance(ep Epoch) Attendance {
	here := l.here(ep)
	have := make([]Member, len(here))
	for i, m := range here {
		have[i] = m.Member
	}
	left := l.s.leavers(have)
	a := Attendance{
		Come: len(have), Want: ep.Size, Min: ep.Min,
		Here: names(have[:min(few, len(have))]), Left: left[max(0, len(left)-few):],
	}
	a.Unfit, a.More = l.unfit()
	if l.s.me().Spares == 0 { // else anybody may take any place
		a.Missing = Missing(append(slices.Clone(have), left...), ep.Size)
	}
	return a
}

// leavers are the nodes that left while this one waited, and are not back.
func (s *Session) leavers(have []Member) []Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range have {
		delete(s.left, s.k.member(m))
	}
	return slices.SortedFunc(maps.Values(s.left), func(a, b Member) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return a.Since.Compare(b.Since)
	})
}
