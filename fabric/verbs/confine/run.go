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

// Run runs verbs.Run in a child process, for limit at most, even if the driver hangs. The child
// talks to the other end through its parent, which calls say. The error is a *verbs.Error. If the
// child hangs or crashes, the other end gets the error too.
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

// answerOf reads the other end's message from the parent. When ctx ends first,
// the read goes on until the process exits.
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
