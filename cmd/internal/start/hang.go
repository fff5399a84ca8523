package start

import (
	"context"
	"fmt"
	"time"

	"launch/cmd/internal/companion"
	"launch/diagnose/scene"
	"launch/internal/exit"
	"launch/internal/supervise"
)

// The values of --on-hang.
const (
	hangSay = "say" // print why
	hangEnd = "end" // and end the job
)

// bundleLimit bounds the writing of what was seen: its folder may be what hangs.
const bundleLimit = 30 * time.Second

// EndsHung reports whether --on-hang is end.
func (o *Options) EndsHung() bool { return o.OnHang == hangEnd }

// endsHung reports whether launch ends the job if it hangs: then it remains the parent of the command.
func (s *Start) endsHung() bool { return s.Opt.EndsHung() && s.Job.Several() && s.Subcommand == "" }

// guard runs the command as a child, so that launch can end it, with a status of its own, if the job hangs.
func (s *Start) guard(ctx context.Context) error {
	s.announce()
	run, err := s.spawn()
	if err != nil {
		return err
	}
	select {
	case h := <-s.hung(ctx, run):
		return s.endHung(ctx, run, h)
	case <-run.Done():
		s.status = run.Status()
		return nil
	case <-ctx.Done():
		return s.end(run)
	}
}

// hung returns a channel that has why the job is to end; nil without --on-hang end.
func (s *Start) hung(ctx context.Context, run *supervise.Attempt) <-chan companion.Hang {
	if !s.endsHung() {
		return nil
	}
	out := make(chan companion.Hang, 1)
	comp := s.comp
	go func() {
		if h, err := comp.Hung(context.WithoutCancel(ctx), run.PID()); err == nil {
			out <- h
		}
	}()
	return out
}

// endHung ends the job, after what was seen is written, and returns why.
func (s *Start) endHung(ctx context.Context, run *supervise.Attempt, h companion.Hang) error {
	why := exit.Errorf(exit.Hung, "the job hangs: %s", h.Why).Do("%s", h.Fix)
	if h.Scenes != nil {
		s.UI.Note("ending the command on all nodes: %s end", s.Opt.From("on-hang"))
		s.keep(h.Scenes)
		if err := s.comp.Halt(ctx, h.Why); err != nil {
			s.UI.Note("end the job by hand on nodes where it runs on: %v", err)
		}
	} else {
		why.Fix = "see the output of node rank 0, which has also written what was seen"
		s.UI.Note("node rank 0 ends the job: %s end", s.Opt.From("on-hang"))
	}
	if err := run.Stop(companion.KillGrace); err != nil {
		return stuck(err)
	}
	return why
}

// keep writes what all nodes have seen. A file that cannot be written does not keep the job alive.
func (s *Start) keep(scenes []scene.Scene) {
	type written struct {
		file string
		err  error
	}
	done := make(chan written, 1)
	go func() {
		file, err := s.Bundle(scenes)
		done <- written{file, err}
	}()
	var w written
	select {
	case w = <-done:
	case <-time.After(bundleLimit):
		w.err = fmt.Errorf("not written within %s", bundleLimit)
	}
	if w.err != nil {
		s.UI.Note("what was seen is lost: %v", w.err)
		return
	}
	s.UI.Note("launch doctor --merge %s   # judges again what was seen", w.file)
}
