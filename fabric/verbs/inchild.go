package verbs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"launch/internal/child"
)

// InChild is Run in a child process, which costs limit at most, whatever the
// driver does. The child never speaks with the other end itself: say is called
// here. The error is an *Error; of a child that hangs or has crashed the other
// end is told.
func InChild(ctx context.Context, t Test, limit time.Duration, say Exchange) (Result, error) {
	var a answer[Result]
	answered := false
	err := child.Talk(ctx, runChild, limit, func(ctx context.Context, to io.Writer, from io.Reader) error {
		question, err := json.Marshal(runQuestion{t, limit})
		if err != nil {
			return err
		}
		if err := writeFrame(to, 'q', question); err != nil {
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
			// A child whose time ran out meanwhile does not read this; its
			// result is there.
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
	// The other end waits for this one's next word.
	_, _ = speak(ctx, say, message{Err: e})
	return Result{}, e
}

type runQuestion struct {
	Test  Test
	Limit time.Duration
}

// runAnswer is the child: its Exchange goes through its parent.
func runAnswer(ctx context.Context, in io.Reader, out io.Writer) error {
	_, question, err := readFrame(in)
	if err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	var q runQuestion
	if err := json.Unmarshal(question, &q); err != nil {
		return fmt.Errorf("understand question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, inside(q.Limit))
	defer cancel()
	result, err := Run(ctx, q.Test, func(_ context.Context, mine []byte) ([]byte, error) {
		if err := writeFrame(out, 'x', mine); err != nil {
			return nil, err
		}
		return answerOf(ctx, in)
	})
	said, err := json.Marshal(answer[Result]{result, asError(err)})
	if err != nil {
		return err
	}
	return writeFrame(out, 'r', said)
}

// answerOf reads what the parent has been told. A read that the end of ctx
// overtakes is left behind: its process ends.
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

// maxFrame is far above what one end says at a step.
const maxFrame = 1 << 20

// A frame is its kind, the length of what follows in four bytes, and that. The
// parent begins with the question 'q'; then the child says 'x' and is answered
// 'x', or 'e' with why there is no answer; with its result 'r' it ends.
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
