package companion

import (
	"slices"
	"time"

	"launch/diagnose"
	"launch/diagnose/verdict"
)

// earlyLook is how long nothing has moved at the first look for what a healthy job hardly ever has. Each look that
// finds no such thing doubles the time until the next one: a job that pauses often is looked at less and less.
const earlyLook = 10 * time.Second

// namedWait is how long a rank has waited for what a look can name, such as a child or the answer of a server, when
// that is said. It may go on without help.
const namedWait = 45 * time.Second

// look is why a job is looked at.
type look int

const (
	noLook    look = iota
	lookEarly      // nothing has moved for a short time
	lookStill      // nothing has moved for as long as --hang-after says
	lookSpins      // nothing has, but for CPU time
)

// maxSpinPause is the longest pause between two looks at a job whose ranks use CPU time and do nothing else that
// can be seen: that may be a healthy training by NCCL.
const maxSpinPause = time.Hour

// vigil decides when a job is looked at, and what of two looks is said.
type vigil struct {
	after        time.Duration
	still, quiet time.Time        // since when nothing has moved; since when nothing but CPU time has been used
	calm         time.Time        // since when nothing has moved but threads that only poll
	next         time.Duration    // after still: the next look
	nextSpin     time.Duration    // after quiet: the next look while CPU time is used
	pause, early time.Duration    // after calm: the first early look, and the next; at least after: no look
	last         *diagnose.Stance // of the look before, since quiet
	candidate    string           // what that look found
	said         string           // the key of what was said last, since quiet
	saidAt       time.Time        // the look that said it first since nothing moves
	passing      []string         // the keys of what was said after namedWait; the waits before this one have ended
}

func newVigil(after time.Duration, now time.Time) *vigil {
	w := &vigil{after: after, pause: earlyLook}
	w.begin(now)
	return w
}

// begin starts the time of all looks anew.
func (w *vigil) begin(now time.Time) {
	*w = vigil{after: w.after, pause: w.pause, still: now, quiet: now, calm: now, next: w.after, nextSpin: w.after,
		early: w.pause, passing: w.passing}
}

// saw takes in what the processes have done between two moments.
func (w *vigil) saw(a, b effort) {
	switch {
	case busy(a, b):
		w.begin(b.at)
	case worked(a, b):
		w.still, w.calm, w.next, w.early = b.at, b.at, w.after, w.pause
	case moved(a, b):
		w.still, w.next = b.at, w.after
	}
}

// due returns whether it is time for a look, and which, and since when nothing moves.
func (w *vigil) due(now time.Time) (since time.Time, due look) {
	switch still := now.Sub(w.still); {
	case still >= w.next:
		w.next += w.after
		return w.still, lookStill
	case still < w.after && now.Sub(w.quiet) >= w.nextSpin:
		w.nextSpin += min(w.nextSpin, maxSpinPause)
		return w.quiet, lookSpins
	}
	if calm := now.Sub(w.calm); calm >= w.early && calm < w.after {
		return w.calm, lookEarly
	}
	return now, noLook
}

// repeats takes in what a look found after nothing had moved since a moment. It returns whether that was said before,
// and whether a look since that moment had found it already.
func (w *vigil) repeats(key string, since, now time.Time) (again, confirmed bool) {
	again = key == w.said
	if confirmed = again && w.saidAt.After(since); !confirmed {
		w.said, w.saidAt = key, now
	}
	return again, confirmed
}

// goesOn takes in that it is said that the job goes on: the same reason is news after that.
func (w *vigil) goesOn() { w.said, w.candidate = "", "" }

// hurry makes the next look one that confirms this one.
func (w *vigil) hurry(now time.Time) {
	soon := min(w.after, confirmHang)
	w.next, w.nextSpin = now.Sub(w.still)+soon, now.Sub(w.quiet)+soon
}

// judge returns what is said after a look; hangs: the job hangs or waits. While CPU time is used on this node, only a
// certain cause that two looks find is said, and no mismatch: stacks of ranks that compute are of different moments. Of
// early looks two must find the same, too.
func (w *vigil) judge(f found, hangs bool, l look) (found, bool) {
	if l == lookEarly {
		says := w.judgeEarly(f, hangs)
		if says && !held(f.answer.Why[0]) {
			f.answer.Why = slices.Clone(f.answer.Why)
			f.answer.Why[0].Do = "does a healthy run also wait there for so long? Then it goes on without help; else:\n" +
				f.answer.Why[0].Do
		}
		return f, says
	}
	last, now := w.last, diagnose.StanceOf(f.scenes)
	defer now.Forget()
	w.last = now
	switch {
	case hangs && l == lookStill:
		return f, true
	case hangs && f.answer.Certain() && !ofStacks(f.answer.Why[0].Cause):
		same := f.key == w.candidate
		w.candidate = f.key
		return f, same
	}
	w.candidate = ""
	if a, ok := now.Spins(last); ok {
		return found{answer: a, key: a.Key(), scenes: f.scenes}, true
	}
	return f, false
}

// judgeEarly reports whether a second early look has found the same: what ends only by help from outside the job, or
// what a rank waits for since namedWait. That is said once: a job that goes on, and waits there again, is a healthy one
// until --hang-after.
func (w *vigil) judgeEarly(f found, hangs bool) bool {
	first := verdict.Verdict{}
	if hangs {
		first = f.answer.Why[0]
	}
	same := f.key == w.candidate
	w.candidate = f.key
	switch {
	case hangs && held(first):
		if same {
			w.early = w.after
		}
		return same
	case first.Idle > 0:
		if same && first.Idle >= namedWait {
			w.early = w.after
			again := slices.Contains(w.passing, f.key)
			if !again {
				w.passing = append(w.passing, f.key)
			}
			return !again
		}
		w.pause = min(2*w.pause, w.after)
		w.early += max(namedWait-first.Idle, hangPoll)
		return false
	}
	w.pause = min(2*w.pause, w.after)
	w.candidate, w.early = "", w.pause // a rank that still starts may call by then
	return false
}

// ofStacks reports whether the stacks of several ranks show a cause: they are of different moments.
func ofStacks(cause string) bool {
	return slices.Contains([]string{"collective.mismatch", "collective.crossed", "collective.arguments"}, cause)
}

// held reports whether a job certainly waits for what no rank of it will do, or one of them tries again and again to
// use a file system that gives an error.
func held(v verdict.Verdict) bool {
	if v.Cause == "rank.storage" && v.Blocked || v.Cause == "collective.arguments" { // which rank differs may be open
		return true
	}
	return v.Sure == verdict.Certain && (v.Blocked || slices.Contains([]string{"rank.stopped", "rank.traced",
		"rank.failed", "rank.thread", "rank.frozen", "rank.lock", "rank.child", "rank.events", "rank.storage",
		"rank.memory", "agent.stopped", "store.stopped", "store.key", "store.elsewhere", "collective.mismatch",
		"collective.crossed", "collective.worker", "init.barrier", "world.counted", "world.larger",
		"rank.duplicate", "exit.barrier"}, v.Cause))
}
