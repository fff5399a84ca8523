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
	"syscall"
	"unsafe"
)

// probeQP is the connection for probes; those after it carry the load.
const probeQP = 0

// stream writes messages of n bytes over qps connections, starting with first.
func (s *session) stream(first, qps, n int, t Test) (Flow, *Error) {
	if t.Warm > 0 {
		if _, e := s.ended(n, C.lv_stream(s.c, C.int(first), C.int(qps), C.size_t(n), 0, C.uint64_t(t.Warm),
			C.uint64_t(stall))); e != nil {
			return Flow{}, e
		}
	}
	end, e := s.ended(n, C.lv_stream(s.c, C.int(first), C.int(qps), C.size_t(n), C.uint64_t(t.Iterations),
		C.uint64_t(t.Span), C.uint64_t(stall)))
	return flow(n, uint64(end.messages), uint64(end.ns)), e
}

// probe writes one short message.
func (s *session) probe() *Error {
	_, e := s.ended(probeSize, C.lv_stream(s.c, probeQP, 1, probeSize, 1, 0, C.uint64_t(stallProbe)))
	return e
}

// pingpong sends messages of n bytes back and forth. The first end measures times, divided by ways.
func (s *session) pingpong(qp, n int, first bool, ways int, t Test) (Latency, *Error) {
	trips := make([]uint64, t.Pings)
	end, e := s.ended(n, C.lv_pingpong(s.c, C.int(qp), C.int(map[bool]int{true: 1}[first]), C.size_t(n),
		C.uint64_t(t.Pings), C.uint64_t(t.PingSpan), (*C.uint64_t)(unsafe.Pointer(&trips[0])), C.uint64_t(stall)))
	if e != nil || !first {
		return Latency{Size: n}, e
	}
	return latency(n, trips[:end.messages], ways), nil
}

// fill writes the pattern to send.
func (s *session) fill(n int, seed uint64) *Error {
	return s.cuda(stepGPUCopy, C.lv_fill(s.c, C.size_t(n), C.uint64_t(seed)))
}

// clear overwrites what arrived before, so that it is not mistaken for new data.
func (s *session) clear(first, qps, n int) *Error {
	for i := range qps {
		if e := s.cuda(stepGPUCopy, C.lv_clear(s.c, C.int(first+i), C.size_t(n))); e != nil {
			return e
		}
	}
	return nil
}

// check compares what each of the connections received.
func (s *session) check(first, qps, n int, seed uint64) *Error {
	for i := range qps {
		var at C.int64_t
		if e := s.cuda(stepGPUCopy, C.lv_check(s.c, C.int(first+i), C.size_t(n), C.uint64_t(seed), &at)); e != nil {
			return e
		}
		if at >= 0 {
			e := &Error{Cause: Corrupt, Step: "compare",
				Text: fmt.Sprintf("%s port %d: a message of %d bytes arrived with another byte at %d", s.end.Device, s.end.Port, n,
					at)}
			if s.end.GPU != "" {
				e.Text += " in the memory of GPU " + s.end.GPU
			}
			return e
		}
	}
	return nil
}

// ended returns the end of a loop as an error.
func (s *session) ended(n int, end C.struct_lv_end) (C.struct_lv_end, *Error) {
	step := fmt.Sprintf("write %d bytes", n)
	switch end.how {
	case C.LV_DONE:
		return end, nil
	case C.LV_STOPPED:
		return end, &Error{Cause: Late, Step: step, Text: "the time ran out: " + step}
	case C.LV_STALLED:
		return end, &Error{Cause: Stuck, Step: step, Text: step + ": no progress"}
	case C.LV_POST:
		e := subject{device: s.end.Device, port: s.end.Port, memlock: ^uint64(0)}.of(stepPost, syscall.Errno(end.err))
		return end, e
	case C.LV_FAILED:
		return end, completion(step, int(end.status), uint32(end.vendor))
	case C.LV_DIFFERS:
		return end, &Error{Cause: Corrupt, Step: step, Text: step + ": a message arrived with another length"}
	}
	return end, &Error{Cause: Gone, Step: step, Text: s.end.Device + " no longer reports which requests have ended"}
}

// Loop tests a port over a connection to itself and compares every byte; most devices use no cable. The
// error is an *Error. Loop returns soon after ctx ends, unless a driver hangs (package confine).
func Loop(ctx context.Context, t Test) (LoopResult, error) {
	t, e := t.alone()
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
		var f Flow
		e := s.compare(n, seed, func() (e *Error) {
			f, e = s.stream(probeQP, 1, n, t)
			return e
		})
		if e != nil {
			return e
		}
		e = s.compare(n, seed^1<<63, func() *Error {
			_, e := s.ended(n, C.lv_send_self(s.c, probeQP, C.size_t(n), C.uint64_t(stall)))
			return e
		})
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

// compare sends a new pattern with transfer, and compares what arrives.
func (s *session) compare(n int, seed uint64, transfer func() *Error) *Error {
	e := s.fill(n, seed)
	if e == nil {
		e = s.clear(probeQP, 1, n)
	}
	if e == nil {
		e = transfer()
	}
	if e == nil {
		e = s.check(probeQP, 1, n, seed)
	}
	return e
}
