//go:build linux && cgo && !noverbs

package verbs

/*
#include "session.h"
*/
import "C"

import (
	"fmt"
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

// pingpong sends messages of n bytes back and forth. Only the end that goes first
// measures times; each is divided by ways.
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
