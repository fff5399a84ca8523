package main

import (
	"context"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
)

// What --bench may be. Rank 0's counts for all nodes, so that they agree about it
// without another question, and a line that differs keeps nobody waiting.
const (
	benchNo    = "no"
	benchShort = "short"
	benchFull  = "full"
)

// benchFirst has all nodes measure their rails where rank 0 was told so, before they
// decide; nil: nothing was. What is slow is a warning: a slow job runs. The deadline
// of the join is put off by as long as it took.
func (a *app) benchFirst(ctx context.Context, s *record.Start, comp *companion.Client, deadline *time.Time) (*ui.Benched, error) {
	asks := func(level string) bool { return level == benchShort || level == benchFull }
	asked := s.World.Master.Bench
	if !asks(asked) {
		if own := a.o.measure; asks(own) {
			a.ui.Note("%s is %s here, but not on rank 0, %s: nothing is measured", a.o.from("bench"), own, s.World.Master.Name())
		}
		return nil, nil
	}
	a.o.full = asked == benchFull
	a.o.memory = memoryHost // CUDA's start would take longer than the rest
	out, _, err := a.rates(ctx, s, comp, nil, *deadline)
	if err != nil {
		return nil, err
	}
	*deadline = deadline.Add(out.Took)
	return &out, nil
}
