//go:build linux && cgo && !noverbs

package verbs

/*
#include "session.h"
*/
import "C"

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Loop tests a port over a connection to itself and compares every byte. Most
// devices send nothing over the cable. The error is an *Error. Loop returns soon
// after ctx ends, unless a driver hangs; package confine survives that too.
func Loop(ctx context.Context, lt LoopTest) (LoopResult, error) {
	t, e := lt.test()
	if e != nil {
		return LoopResult{}, e
	}
	s, e := open(t)
	if e != nil {
		return LoopResult{}, e
	}
	defer s.close()
	defer s.watch(ctx)()
	out := LoopResult{End: s.end}
	if e := s.loop(t, &out); e != nil {
		var now bool
		if out.End, now = s.state(); !now {
			e = judge(e, after{local: s.end})
		} else {
			e = judge(e, after{local: s.end, remote: s.end, answers: true, heard: true})
		}
		return out, e
	}
	return out, nil
}

func (s *session) loop(t Test, out *LoopResult) *Error {
	if e := s.prepare(t, 1); e != nil {
		return e
	}
	psn := rand.Uint32() & 0xffffff
	if e := s.connect(t, s.end.packets(), psn, s.end, s.address(psn)); e != nil {
		return e
	}
	for i, n := range t.Sizes {
		seed := uint64(i+1)<<32 | uint64(n)<<1
		e := s.renew(n, seed)
		var f Flow
		if e == nil {
			f, e = s.stream(probeQP, 1, n, t)
		}
		if e == nil {
			e = s.check(probeQP, 1, n, seed)
		}
		if e != nil {
			return e
		}
		seed ^= 1 << 63
		if e = s.renew(n, seed); e == nil {
			_, e = s.ended(n, C.lv_send_self(s.c, probeQP, C.size_t(n), C.uint64_t(stall)))
		}
		if e == nil {
			e = s.check(probeQP, 1, n, seed)
		}
		if e != nil {
			e.Text = fmt.Sprintf("send and receive: %s", e.Text)
			return e
		}
		// It is its own other end, so a trip is one way.
		if e = s.clear(probeQP, 1, n); e != nil {
			return e
		}
		l, e := s.pingpong(probeQP, n, true, 1, t)
		if e != nil {
			return e
		}
		out.Sizes = append(out.Sizes, LoopSize{Write: l, Speed: f.Speed})
	}
	return nil
}

// renew prepares a new pattern to send, and clears the memory that receives it.
func (s *session) renew(n int, seed uint64) *Error {
	if e := s.fill(n, seed); e != nil {
		return e
	}
	return s.clear(probeQP, 1, n)
}
