//go:build linux && cgo && !noverbs

package verbs

import (
	"context"
	"math/rand/v2"
)

// Run tests a port against the port of the other end's Run. The ends may begin in any order. Run
// returns soon after ctx ends, unless a driver hangs; package confine survives that too. The error
// is an *Error, and both ends get one. The Result holds what was measured before the error.
func Run(ctx context.Context, t Test, say Exchange) (Result, error) {
	r := &run{say: say}
	r.t, r.err = t.filled()
	if e := r.all(ctx); e != nil {
		return r.res, e
	}
	return r.res, nil
}

// run is one test, at one end.
type run struct {
	t    Test
	s    *session
	say  Exchange
	res  Result
	err  *Error // reported to the other end in the next step
	sent int    // this end's largest message that has arrived; 0: no message

	phase uint64 // number of phases so far: each has its own pattern
}

// step sends this end's error to the other end, and returns the error of either end that says more.
func (r *run) step(ctx context.Context, m message) (message, *Error) {
	m.Err = r.err
	theirs, err := speak(ctx, r.say, m)
	if theirs.End != nil {
		r.res.Remote = *theirs.End
	}
	if e := AsError(err); e != nil || r.err != nil {
		return theirs, heavier(r.err, e)
	}
	return theirs, nil
}

func (r *run) all(ctx context.Context) *Error {
	if r.err == nil {
		if r.s, r.err = open(r.t); r.s != nil {
			defer r.s.close()
			defer r.s.watch(ctx)()
			r.res.Local = r.s.end
		}
	}
	theirs, e := r.step(ctx, message{Test: &r.t, End: &r.res.Local})
	if e != nil {
		return e
	}
	if e := r.agree(theirs); e != nil {
		return e
	}
	if e := r.connect(ctx); e != nil {
		return e
	}
	return r.phases(ctx)
}

// agree settles the test and its packet size. Both ends arrive at the same.
func (r *run) agree(theirs message) *Error {
	switch {
	case theirs.Test == nil || theirs.End == nil:
		return &Error{Cause: Other, Text: "the other end did not send its test"}
	case theirs.Test.Lead == r.t.Lead:
		return &Error{Cause: Wrong, Text: "one end has to lead, and the other one to follow"}
	}
	if !r.t.Lead {
		var e *Error
		if r.t, e = r.t.led(*theirs.Test).filled(); e != nil {
			return e
		}
	}
	l, o := r.res.Local, r.res.Remote
	if e := match(l, o); e != nil {
		return e
	}
	if len(r.t.PingSizes) > 0 && l.GPU+o.GPU != "" {
		return &Error{Cause: Wrong, Text: "a ping-pong polls the memory, which is not possible with a GPU's"}
	}
	r.res.MTU, r.res.QPs = min(l.packets(), o.packets()), r.t.QPs
	if l.packets() != o.packets() {
		r.res.Notes = append(r.res.Notes, *mtuNote(l, o))
	}
	return nil
}

func (r *run) connect(ctx context.Context) *Error {
	r.err = r.s.prepare(r.t, r.t.QPs+1)
	mine := message{}
	psn := rand.Uint32() & 0xffffff
	if r.err == nil {
		mine = r.s.address(psn)
	}
	r.res.Local = r.s.end
	theirs, e := r.step(ctx, mine)
	if e != nil {
		return e
	}
	r.err = r.s.connect(r.t, r.res.MTU, psn, r.res.Remote, theirs)
	return nil // the first phase begins by reporting it
}

// phases runs the test. This end reports the result of each phase when the next one begins.
func (r *run) phases(ctx context.Context) *Error {
	for _, lead := range []bool{true, false} {
		if _, e := r.stream(ctx, lead, probeSize, true); e != nil {
			return e
		}
	}
	for _, n := range r.t.Sizes {
		for _, lead := range []bool{true, false} {
			if !lead && !r.t.BothWays {
				continue
			}
			f, e := r.stream(ctx, lead, n, false)
			if e != nil {
				return e
			}
			to := &r.res.Back
			if lead == r.t.Lead {
				to = &r.res.Out
			}
			*to = append(*to, f)
		}
	}
	for _, n := range r.t.PingSizes {
		if e := r.ping(ctx, n); e != nil {
			return e
		}
	}
	_, e := r.step(ctx, message{})
	return e
}

// stream runs one direction: either the leading end writes, or the other one does.
func (r *run) stream(ctx context.Context, lead bool, n int, probe bool) (Flow, *Error) {
	sends, first, qps := lead == r.t.Lead, probeQP+1, r.t.QPs
	if probe {
		first, qps = probeQP, 1
	}
	r.phase++
	// No two patterns of a test are the same, at either end.
	seed := r.phase<<32 | uint64(n)<<1
	switch {
	case r.err != nil: // the memory may be missing
	case sends:
		r.err = r.s.fill(n, seed)
	default:
		r.err = r.s.clear(first, qps, n)
	}
	if _, e := r.step(ctx, message{}); e != nil {
		return Flow{}, e
	}
	var f Flow
	var mine message
	if sends {
		if probe {
			r.err = r.s.probe()
		} else {
			f, r.err = r.s.stream(first, qps, n, r.t)
		}
		mine.Flow = &f
	}
	theirs, e := r.step(ctx, mine)
	if e != nil {
		return f, r.explain(ctx, n, e)
	}
	if !sends {
		if theirs.Flow != nil {
			f = *theirs.Flow
		}
		r.err = r.s.check(first, qps, n, seed)
		return f, nil
	}
	r.sent = max(r.sent, n)
	return f, nil
}

func (r *run) ping(ctx context.Context, n int) *Error {
	if r.err == nil {
		r.err = r.s.clear(probeQP+1, 1, n)
	}
	if _, e := r.step(ctx, message{}); e != nil {
		return e
	}
	l, e := r.s.pingpong(probeQP+1, n, r.t.Lead, 2, r.t)
	r.err = e
	theirs, e := r.step(ctx, message{Ping: &l})
	if e != nil {
		return r.explain(ctx, n, e)
	}
	if theirs.Ping != nil && !r.t.Lead {
		l = *theirs.Ping
	}
	r.res.Pings = append(r.res.Pings, l)
	r.sent = max(r.sent, n)
	return nil
}

// explain finds out why a transfer failed. It looks at both ports, and whether a short message
// still arrives over a connection that has not failed. Both ends do so, and report to each other.
func (r *run) explain(ctx context.Context, n int, e *Error) *Error {
	own := r.err
	a := after{size: n, worked: r.sent, mtu: r.res.MTU, heard: e.Cause != PeerGone, remote: r.res.Remote}
	if a.local, a.answers = r.s.state(); a.answers && own != nil && own.Cause != Late && r.sent > 0 {
		a.probed, a.probe = true, r.s.probe()
		a.local, a.answers = r.s.state()
	}
	r.res.Local = a.local
	if a.heard {
		if theirs, err := speak(ctx, r.say, message{End: &a.local}); err != nil {
			a.heard = false
		} else if theirs.End != nil {
			a.remote = *theirs.End
			r.res.Remote = a.remote
		}
	}
	switch {
	case own != nil:
		own = judge(own, a)
	case !a.answers, a.local.State != portActive:
		own = judge(&Error{Cause: Lost, Text: "nothing arrives"}, a)
	}
	if !a.heard {
		return heavier(own, e)
	}
	r.err = own
	if _, last := r.step(ctx, message{}); last != nil {
		return last
	}
	return e
}
