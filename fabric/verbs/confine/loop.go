// Package confine runs a test of a port in a child process that can be killed,
// whatever the driver does.
package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"launch/fabric/verbs"
	"launch/internal/child"
)

// The names of this package's children.
const (
	loopChild = "verbs-loop"
	runChild  = "verbs-run"
)

// Children returns the functions that Loop and Run call in children. A program
// passes them to child.Dispatch.
func Children() child.Table { return child.Table{loopChild: loopAnswer, runChild: runAnswer} }

// answer is the last message of a child of this package.
type answer[T any] struct {
	Result T
	Err    *verbs.Error
}

func (a answer[T]) both() (T, error) {
	if a.Err != nil {
		return a.Result, a.Err
	}
	return a.Result, nil
}

// question is the first message to a child of this package.
type question[T any] struct {
	Test  T
	Limit time.Duration
}

// Loop runs verbs.Loop in a child process, for limit at most, even if the driver
// hangs. The error is a *verbs.Error.
func Loop(ctx context.Context, t verbs.LoopTest, limit time.Duration) (verbs.LoopResult, error) {
	var a answer[verbs.LoopResult]
	if err := child.Ask(ctx, loopChild, question[verbs.LoopTest]{t, limit}, &a, limit); err != nil {
		return verbs.LoopResult{}, ofChild(t.Device, err)
	}
	return a.both()
}

// loopAnswer is the child of Loop.
func loopAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var q question[verbs.LoopTest]
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, inside(q.Limit))
	defer cancel()
	r, err := verbs.Loop(ctx, q.Test)
	return json.NewEncoder(out).Encode(answer[verbs.LoopResult]{r, verbs.AsError(err)})
}

// inside returns the time limit of the test in a child that is killed after
// limit. The child has the remaining tenth to answer.
func inside(limit time.Duration) time.Duration { return limit - limit/10 }

// ofChild returns the reason that a child gave no answer.
func ofChild(device string, err error) *verbs.Error {
	if e, ok := errors.AsType[*verbs.Error](err); ok {
		return e
	}
	e := &verbs.Error{Cause: verbs.Other, Step: "wait", Text: err.Error()}
	if t, ok := errors.AsType[*child.TimeoutError](err); ok {
		e.Cause, e.Text = verbs.Stuck, fmt.Sprintf("the driver of %s did not answer within %v", device, t.Limit)
		if t.Abandoned {
			e.Text += fmt.Sprintf("; process %d hangs in the kernel and cannot be killed", t.PID)
		}
	} else if c, ok := errors.AsType[*child.CrashError](err); ok {
		e.Cause, e.Text = verbs.Crashed, fmt.Sprintf("the process that used %s crashed: %v", device, c)
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Cause, e.Text = verbs.Late, "the time ran out"
	}
	return e
}
