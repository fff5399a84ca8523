package hostwatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"launch/cmd/internal/remote"
	"launch/diagnose"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/fabric"
	"launch/internal/mpirun"
)

const (
	// maxPause is the longest pause between two looks.
	maxPause = time.Hour
	// confirm is the most that passes until a second look, once one has found that the job hangs.
	confirm = 30 * time.Second
	// lookLimit bounds a look at one host, and copyLimit a copy of launch to it.
	lookLimit, copyLimit = 25 * time.Second, time.Minute
	// copyAtOnce bounds the copies, which would take the network from the job.
	copyAtOnce = 4
	// stillCPU, stillRead and stillFaults are what a rank that waits uses at most in a second: of a core, of
	// bytes that it reads, and of page faults.
	stillCPU, stillRead, stillFaults = 0.06, 64 << 10, 50
)

// look looks at all hosts after some time, and then more and more rarely: each look is work for them. It says why the
// job hangs once two looks find the same reason.
func (w *watch) look(ctx context.Context, first time.Duration) {
	pause, wait := w.spec.HangAfter, first
	var before found
	said := ""
	for sleep(ctx, wait) {
		now := w.judged(w.scenes(ctx))
		if ctx.Err() != nil {
			return
		}
		wait = pause
		pause = min(2*pause, maxPause)
		switch {
		case !now.hangs():
		case now.key() != before.key():
			wait = min(wait, confirm)
		case now.key() != said && (now.answer.Certain() && !now.moving() || now.still && before.still):
			said = now.key()
			w.say(now.answer.Finding(fmt.Sprintf("the job of mpirun (pid %d) does not go on", w.mpirun)).Named("job.hangs"), "")
		}
		before = now
	}
}

// found is what one look found.
type found struct {
	answer verdict.Answer
	still  bool // no rank has moved
}

func (f found) hangs() bool {
	return len(f.answer.Why) > 0 && (f.answer.State == verdict.Hung || f.answer.State == verdict.Open)
}

func (f found) key() string { return f.answer.Key() }

// moving reports whether the cause is one that ranks which compute may show too: their stacks are of different moments.
func (f found) moving() bool { return !f.still && f.answer.Why[0].Cause == "collective.mismatch" }

// judged judges the job of this mpirun.
func (w *watch) judged(scenes []scene.Scene) (f found) {
	f.still = still(scenes)
	all := diagnose.Judge(scenes)
	for _, a := range all {
		if len(all) == 1 || strings.Contains(a.Job, fmt.Sprintf("pid %d on %s", w.mpirun, scenes[0].Host)) {
			f.answer = a
		}
	}
	return f
}

// still reports whether no rank has done more than waiting takes.
func still(scenes []scene.Scene) bool {
	for _, s := range scenes {
		for _, p := range s.Procs {
			m, span := p.Moved, s.Span.Seconds()
			more := func(n int64, each float64) bool { return float64(n) > each*span }
			if p.Role == scene.Rank && (m.CPU.Seconds() > stillCPU*span || more(m.Read, stillRead) ||
				more(m.Faults, stillFaults) || m.Children || m.Files) {
				return false
			}
		}
	}
	return true
}

// scenes returns what this host and the others see of the job, this one first. A host without an answer is a gap of it.
func (w *watch) scenes(ctx context.Context) []scene.Scene {
	mine := make(chan scene.Scene, 1)
	go func() {
		limited, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		s, _ := scene.Take(limited, scene.Options{PID: w.mpirun, Stacks: true, Processor: fabric.Processor,
			Freezer: fabric.Freezer, Broken: fabric.AskStale})
		mine <- s
	}()
	var mu sync.Mutex
	var others []scene.Scene
	var gaps []scene.Gap
	remote.Each(len(w.hosts), copyAtOnce, func(i int) { w.hosts[i].place() })
	remote.Each(len(w.hosts), len(w.hosts), func(i int) {
		h := w.hosts[i]
		seen, err := h.look()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			gaps = append(gaps, scene.Gap{What: "what " + h.Name + " sees", Why: err.Error()})
		}
		others = append(others, seen...)
	})
	own := <-mine
	own.Gaps = append(own.Gaps, gaps...)
	return append([]scene.Scene{own}, others...)
}

// place finds launch on the host, or copies it there.
func (h *host) place() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == nil || h.program != "" {
		return
	}
	spec := h.watch.spec
	printed, err := h.session.Do(mpirun.Run{}.Script(mpirun.Ask{Self: spec.Program, Hash: spec.Hash}))
	if err != nil {
		return
	}
	switch f, _ := mpirun.ReadFacts(printed); {
	case f.Self != "":
		h.program = f.Self
	case f.Tmp != "":
		file := f.Tmp + "/launch"
		if h.session.Place(h.watch.copies, f.Unpacks, file, copyLimit) == nil {
			h.program = file
		}
	}
}

// look has launch doctor look at the host.
func (h *host) look() ([]scene.Scene, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == nil || h.program == "" {
		return nil, errors.New("launch does not run there")
	}
	late := time.AfterFunc(lookLimit, h.session.End)
	defer late.Stop()
	printed, err := h.session.Run("unset LAUNCH_JOB; " + remote.Await + " " + remote.Quote(h.program) +
		" doctor --json 2>/dev/null")
	if err != nil {
		return nil, err
	}
	return scene.Lines([]byte(strings.Join(printed, "\n")))
}
