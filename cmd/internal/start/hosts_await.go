package start

import (
	"cmp"
	"context"
	"time"

	"launch/cmd/internal/remote"
	"launch/internal/finding"
)

// comePoll is the pause between two questions to hosts that may still start.
const comePoll = time.Second

// awaitHosts asks again the hosts that are not there, where they are pods that start together with this one. one asks a
// host.
func (s *Start) awaitHosts(ctx context.Context, a *asked, one func(p *pace, i int)) {
	if s.Job.Pod == nil {
		return
	}
	deadline, said := time.Now().Add(s.Opt.JoinTimeout), 0
	for ctx.Err() == nil && time.Now().Before(deadline) {
		var missing []int
		var names []string
		cause := ""
		for i, h := range a.answers {
			if why, ok := h.MayCome(); ok {
				missing, names, cause = append(missing, i), append(names, h.Name), cmp.Or(cause, why)
			}
		}
		if len(missing) == 0 {
			return
		}
		if said != len(missing) {
			said = len(missing)
			s.UI.Note("waiting for %s of %d, until %s (--join-timeout): %s: %s", finding.Count(said, "host"),
				len(a.answers), deadline.Format(time.TimeOnly), finding.Some(names), cause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(comePoll):
		}
		p := newPace(s.root())
		remote.Each(len(missing), askAtOnce, func(k int) {
			i := missing[k]
			if a.sessions[i] != nil {
				a.sessions[i].Close()
			}
			one(p, i)
		})
		p.stop()
	}
}
