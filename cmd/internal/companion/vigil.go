package companion

import (
	"time"

	"launch/diagnose"
)

// maxSpinPause is the longest pause between two looks at a job whose ranks use CPU time and do nothing else that
// can be seen: that may be a healthy training by NCCL.
const maxSpinPause = time.Hour

// vigil decides when a job is looked at, and what of two looks is said.
type vigil struct {
	after        time.Duration
	still, quiet time.Time        // since when nothing has moved; since when nothing but CPU time has been used
	next         time.Duration    // after still: the next look
	nextSpin     time.Duration    // after quiet: the next look while CPU time is used
	last         *diagnose.Stance // of the look before, since quiet
	candidate    string           // what that look found
}

func newVigil(after time.Duration, now time.Time) *vigil {
	return &vigil{after: after, still: now, quiet: now, next: after, nextSpin: after}
}

// saw takes in what the processes have done between two moments.
func (w *vigil) saw(a, b effort) {
	switch {
	case busy(a, b):
		*w = *newVigil(w.after, b.at)
	case moved(a, b):
		w.still, w.next = b.at, w.after
	}
}

// due reports whether it is time for a look, since when nothing moves, and whether CPU time is used.
func (w *vigil) due(now time.Time) (since time.Time, spins, due bool) {
	switch {
	case now.Sub(w.still) >= w.next:
		w.next += w.after
		return w.still, false, true
	case now.Sub(w.still) < w.after && now.Sub(w.quiet) >= w.nextSpin:
		w.nextSpin += min(w.nextSpin, maxSpinPause)
		return w.quiet, true, true
	}
	return now, false, false
}

// hurry makes the next look one that confirms this one.
func (w *vigil) hurry(now time.Time) {
	soon := min(w.after, confirmHang)
	w.next, w.nextSpin = now.Sub(w.still)+soon, now.Sub(w.quiet)+soon
}

// judge returns what is said after a look; hangs: the job hangs or waits, spins: CPU time is used on this node. Then
// only a certain cause that two looks find is said, and no mismatch: stacks of ranks that compute are of different
// moments.
func (w *vigil) judge(f found, hangs, spins bool) (found, bool) {
	last, now := w.last, diagnose.StanceOf(f.scenes)
	defer now.Forget()
	w.last = now
	switch {
	case hangs && !spins:
		return f, true
	case hangs && f.answer.Certain() && f.answer.Why[0].Cause != "collective.mismatch":
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
