package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Result is the result of Run at this end. After an error it holds what was measured before.
type Result struct {
	Local  End       `json:"local"`
	Remote End       `json:"remote"`
	MTU    int       `json:"mtu"`             // bytes of data in a packet of this connection
	QPs    int       `json:"qps"`             // connections that shared the load
	Out    []Flow    `json:"out,omitempty"`   // streams of this end
	Back   []Flow    `json:"back,omitempty"`  // streams of the other end
	Pings  []Latency `json:"pings,omitempty"` // by size
	Notes  []Error   `json:"notes,omitempty"` // oddities that did not prevent the test
}

// Flow is a stream of messages in one direction. The other end has compared all its bytes.
type Flow struct {
	Size     int           `json:"size"`     // bytes of a message
	Messages uint64        `json:"messages"` // number of acknowledged messages
	Time     time.Duration `json:"time"`     // from the first request to the last acknowledgement
	Speed    float64       `json:"speed"`    // bytes/s
}

// Latency is half the round-trip time of a message.
type Latency struct {
	Size   int           `json:"size"` // bytes of a message
	Pings  int           `json:"pings"`
	Min    time.Duration `json:"min"`
	Median time.Duration `json:"median"`
	T99    time.Duration `json:"t99"` // 99 % are not longer
}

// latency computes a Latency from round trips in nanoseconds, each divided by ways.
func latency(size int, trips []uint64, ways int) Latency {
	if len(trips) == 0 {
		return Latency{Size: size}
	}
	slices.Sort(trips)
	at := func(share float64) time.Duration {
		i := int(share * float64(len(trips)-1))
		return time.Duration(trips[i] / uint64(ways))
	}
	return Latency{Size: size, Pings: len(trips), Min: at(0), Median: at(0.5), T99: at(0.99)}
}

func flow(size int, messages, ns uint64) Flow {
	f := Flow{Size: size, Messages: messages, Time: time.Duration(ns)}
	if ns > 0 {
		f.Speed = float64(messages) * float64(size) / f.Time.Seconds()
	}
	return f
}

// after is what is known after a transfer failed.
type after struct {
	size    int    // of its messages
	worked  int    // this end's largest message that had arrived before; 0: no message
	mtu     int    // of the connection
	probed  bool   // a short message was sent afterwards, over another connection
	probe   *Error // its error; nil: it arrived
	local   End    // its present state
	remote  End
	heard   bool // the other end answers outside the fabric
	answers bool // this end's device answers
}

// judge names the cause of a failed transfer, from the completion and from what was seen after it.
func judge(e *Error, a after) *Error {
	named := func(c Cause, format string, args ...any) *Error {
		out := *e
		out.Cause, out.Text = c, fmt.Sprintf(format, args...)+": "+e.Text
		return &out
	}
	silent := e.Cause == Unreachable || e.Cause == Stuck || e.Cause == Lost
	switch {
	case e.Peer || e.Cause == Corrupt || e.Cause == Late:
		return e
	case !a.answers:
		return named(Gone, "%s no longer answers", a.local.Device)
	case a.local.State != portActive:
		return named(PortDown, "%s port %d is %s", a.local.Device, a.local.Port, stateWord(a.local.State))
	case !a.heard && silent:
		return named(PeerGone, "the other end is gone")
	case a.heard && a.remote.State != portActive:
		return named(PortDown, "the other end's %s port %d is %s", a.remote.Device, a.remote.Port, stateWord(a.remote.State))
	case !silent:
		return e
	case a.worked == 0:
		return named(Unreachable, "nothing arrives from %s at %s, although both ports are up", a.local.way(), a.remote.way())
	case a.probed && a.probe == nil && a.size > a.worked:
		return named(LargeLost, "messages of %d bytes arrive and messages of %d do not, in packets of %d: the MTU in "+
			"between is smaller", a.worked, a.size, min(a.mtu, a.size))
	case a.probed && a.probe == nil:
		return named(Lost, "messages of %d bytes stopped arriving, and short ones still do", a.size)
	}
	return named(Lost, "nothing arrives any more from %s at %s", a.local.way(), a.remote.way())
}

func stateWord(state int) string {
	words := map[int]string{1: "down", 2: "not configured (INIT)", 3: "not yet active (ARMED)", portActive: "active"}
	return cmp.Or(words[state], fmt.Sprintf("in state %d", state))
}

// mtuNote describes two ports with different MTUs.
func mtuNote(l, o End) *Error {
	return &Error{Cause: MTUDiffers, Step: stepConnect,
		Text: fmt.Sprintf("%s sends packets of %d bytes and the other end's %s of %d: both use the smaller", l.Device,
			l.packets(), o.Device, o.packets())}
}

// heavier returns the failure that says more: a device's report before a wait, this end's first.
func heavier(mine, theirs *Error) *Error {
	vague := func(e *Error) bool { return e.Cause == Stuck || e.Cause == Late || e.Cause == Lost }
	switch {
	case mine == nil:
		return theirs
	case theirs == nil, !vague(mine), vague(theirs):
		return mine
	}
	return theirs
}

// AsError returns err as an *Error.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Cause: Other, Text: err.Error()}
}

// status is a status of a work completion (enum ibv_wc_status): its name, its meaning, its cause.
type status struct {
	name, words string
	cause       Cause
}

var statuses = map[int]status{
	1: {"LOC_LEN_ERR", "a message is longer than this end allows", Rejected},
	2: {"LOC_QP_OP_ERR", "this end's device found the request inconsistent", Rejected},
	4: {"LOC_PROT_ERR", "this end's device may not read the memory", Rejected},
	5: {"WR_FLUSH_ERR", "the connection had failed before", Lost},
	7: {"BAD_RESP_ERR", "the answer does not match the request", Rejected},
	8: {"LOC_ACCESS_ERR", "this end's memory was protected", Rejected},
	9: {"REM_INV_REQ_ERR", "the other end's device considers the request invalid: another MTU, or another " +
		"length", Rejected},
	10: {"REM_ACCESS_ERR", "the other end's device protects its memory from the request", Rejected},
	11: {"REM_OP_ERR", "the other end's device could not carry out the request", Rejected},
	12: {"RETRY_EXC_ERR", "the other end's port does not acknowledge", Unreachable},
	13: {"RNR_RETRY_EXC_ERR", "the other end did not become ready to receive", Rejected},
	16: {"REM_ABORT_ERR", "the other end aborted the connection", Lost},
	19: {"FATAL_ERR", "the device has failed", Gone},
	20: {"RESP_TIMEOUT_ERR", "the answer took too long", Unreachable},
	21: {"GENERAL_ERR", "the device does not say why", Other},
}

// completion returns the failure of a work completion.
func completion(step string, code int, vendor uint32) *Error {
	s, ok := statuses[code]
	if !ok {
		s = status{fmt.Sprintf("status %d", code), "the library has no name for it", Other}
	}
	e := &Error{Cause: s.cause, Step: step, Status: code, Text: fmt.Sprintf("%s: %s (%s)", step, s.words, s.name)}
	if vendor != 0 {
		e.Text += fmt.Sprintf(", vendor error %#x", vendor)
	}
	return e
}
