// Package confine tests a port in a child process that can be killed, whatever the driver does.
package confine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"launch/fabric/verbs"
	"launch/internal/child"
)

const (
	loopChild = "verbs-loop"
	runChild  = "verbs-run"
)

// Children returns the children of Loop and Run, for child.Dispatch.
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

// Loop runs verbs.Loop in a child process, for limit at most. The error is a *verbs.Error.
func Loop(ctx context.Context, t verbs.Test, limit time.Duration) (verbs.LoopResult, error) {
	var a answer[verbs.LoopResult]
	if err := child.Ask(ctx, loopChild, question[verbs.Test]{t, limit}, &a, limit); err != nil {
		return verbs.LoopResult{}, ofChild(t.Device, err)
	}
	return a.both()
}

// loopAnswer is the child of Loop.
func loopAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	var q question[verbs.Test]
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, inside(q.Limit))
	defer cancel()
	r, err := verbs.Loop(ctx, q.Test)
	return json.NewEncoder(out).Encode(answer[verbs.LoopResult]{r, verbs.AsError(err)})
}

// inside returns the time limit of the test in a child, which has the remaining tenth to answer.
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

// Run runs verbs.Run in a child process, for limit at most, which talks to the other end through say.
// The error is a *verbs.Error; the other end gets it too if the child hangs or crashes.
func Run(ctx context.Context, t verbs.Test, limit time.Duration, say verbs.Exchange) (verbs.Result, error) {
	var a answer[verbs.Result]
	answered := false
	err := child.Talk(ctx, runChild, limit, func(ctx context.Context, to io.Writer, from io.Reader) error {
		asked, err := json.Marshal(question[verbs.Test]{t, limit})
		if err != nil {
			return err
		}
		if err := writeFrame(to, 'q', asked); err != nil {
			return err
		}
		for {
			kind, said, err := readFrame(from)
			if err != nil {
				return err
			}
			if kind == 'r' {
				answered = true
				return json.Unmarshal(said, &a)
			}
			theirs, err := say(ctx, said)
			back := byte('x')
			if err != nil {
				back, theirs = 'e', []byte(err.Error())
			}
			// A child that has run out of time does not read this. Its result is the next frame.
			_ = writeFrame(to, back, theirs)
		}
	})
	if answered && a.Err == nil && err != nil {
		return a.Result, ofChild(t.Device, err)
	}
	if answered {
		return a.both()
	}
	e := ofChild(t.Device, err)
	verbs.Abort(ctx, say, e)
	return verbs.Result{}, e
}

// runAnswer is the child of Run.
func runAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	_, asked, err := readFrame(in)
	if err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	var q question[verbs.Test]
	if err := json.Unmarshal(asked, &q); err != nil {
		return fmt.Errorf("decode question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, inside(q.Limit))
	defer cancel()
	result, err := verbs.Run(ctx, q.Test, func(_ context.Context, mine []byte) ([]byte, error) {
		if err := writeFrame(out, 'x', mine); err != nil {
			return nil, err
		}
		return answerOf(ctx, in)
	})
	said, err := json.Marshal(answer[verbs.Result]{result, verbs.AsError(err)})
	if err != nil {
		return err
	}
	return writeFrame(out, 'r', said)
}

// answerOf reads the other end's message. When ctx ends first, the read goes on until the exit.
func answerOf(ctx context.Context, in io.Reader) ([]byte, error) {
	type frame struct {
		kind byte
		data []byte
		err  error
	}
	read := make(chan frame, 1)
	go func() {
		var f frame
		f.kind, f.data, f.err = readFrame(in)
		read <- f
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case f := <-read:
		if f.err == nil && f.kind == 'e' {
			f.err = errors.New(string(f.data))
		}
		return f.data, f.err
	}
}

// maxFrame is far more than one end sends in a step.
const maxFrame = 1 << 20

// writeFrame writes a frame: its kind, the length of the data in four bytes, the data. The parent sends
// the question 'q', the child messages 'x', each answered by 'x' or an error 'e', then its result 'r'.
func writeFrame(w io.Writer, kind byte, data []byte) error {
	if len(data) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too long", len(data))
	}
	b := append([]byte{kind}, binary.BigEndian.AppendUint32(nil, uint32(len(data)))...)
	_, err := w.Write(append(b, data...))
	return err
}

func readFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a message of %d bytes is too long", n)
	}
	data = make([]byte, n)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}
