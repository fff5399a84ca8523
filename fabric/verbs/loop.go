package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"launch/internal/child"
)

// LoopTest is one port by itself.
type LoopTest struct {
	Device string `json:"device"`
	Port   int    `json:"port"`  // from 1
	GID    int    `json:"gid"`   // entry of the table; -1: none on InfiniBand, the best on Ethernet
	PKey   int    `json:"pkey"`  // entry of the table
	Sizes  []int  `json:"sizes"` // bytes of a message; nil: 64 and 1 MiB
	Pings  int    `json:"pings"` // messages whose time is measured, of each size; 0: 100
}

// LoopResult is what a port does by itself: every byte that was written and sent
// came back as it was.
type LoopResult struct {
	End   End        `json:"end"`
	Sizes []LoopSize `json:"sizes"`
}

// LoopSize is one size of message.
type LoopSize struct {
	Write Latency `json:"write"` // from the request until the data is there
	Speed float64 `json:"speed"` // bytes/s of 16 messages that are written at once
}

// loopTest is a LoopTest as a Test, filled.
func (t LoopTest) test() (Test, *Error) {
	if t.Sizes == nil {
		t.Sizes = []int{64, 1 << 20}
	}
	if t.Pings == 0 {
		t.Pings = 100
	}
	return Test{Device: t.Device, Port: t.Port, GID: t.GID, PKey: t.PKey, Depth: 16, Sizes: t.Sizes, Iterations: 16, Pings: t.Pings, PingSpan: loopSpan}.filled()
}

// loopSpan is how long a port's latency is looked at, for each size.
const loopSpan = 200 * time.Millisecond

// The names of this package's children.
const (
	loopChild = "verbs-loop"
	runChild  = "verbs-run"
)

// Children are the functions that LoopInChild and InChild run in children; main
// hands them to child.Dispatch.
func Children() child.Table {
	return child.Table{loopChild: loopAnswer, runChild: runAnswer}
}

// answer is what a child of this package ends with.
type answer[T any] struct {
	Result T
	Err    *Error
}

func (a answer[T]) both() (T, error) {
	if a.Err != nil {
		return a.Result, a.Err
	}
	return a.Result, nil
}

// LoopInChild is Loop in a child process, which costs limit at most, whatever the
// driver does. The error is an *Error.
func LoopInChild(ctx context.Context, t LoopTest, limit time.Duration) (LoopResult, error) {
	var a answer[LoopResult]
	if err := child.Ask(ctx, loopChild, loopQuestion{t, limit}, &a, limit); err != nil {
		return LoopResult{}, ofChild(t.Device, err)
	}
	return a.both()
}

type loopQuestion struct {
	Test  LoopTest
	Limit time.Duration
}

func loopAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var q loopQuestion
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, inside(q.Limit))
	defer cancel()
	r, err := Loop(ctx, q.Test)
	return json.NewEncoder(out).Encode(answer[LoopResult]{r, asError(err)})
}

// inside is how long a child may take that is killed after limit: a tenth is
// left to it for its answer.
func inside(limit time.Duration) time.Duration { return limit - limit/10 }

// ofChild is why a child gave no answer.
func ofChild(device string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if t, ok := errors.AsType[*child.TimeoutError](err); ok {
		e := &Error{Cause: Stuck, Step: "wait", Text: fmt.Sprintf("the driver of %s did not answer within %v", device, t.Limit)}
		if t.Abandoned {
			e.Text += fmt.Sprintf("; process %d hangs in the kernel and cannot be killed", t.PID)
		}
		return e
	}
	if c, ok := errors.AsType[*child.CrashError](err); ok {
		return &Error{Cause: Crashed, Step: "wait", Text: fmt.Sprintf("using %s ended the process that did: %v", device, c)}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &Error{Cause: Late, Step: "wait", Text: "the time ran out"}
	}
	return &Error{Cause: Other, Step: "wait", Text: err.Error()}
}
