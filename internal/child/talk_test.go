package child

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

func TestTalkSpeaksBothWaysUntilItReturns(t *testing.T) {
	err := Talk(t.Context(), "echo", ample, func(_ context.Context, to io.Writer, from io.Reader) error {
		r := bufio.NewReader(from)
		for _, line := range []string{"one\n", "two\n"} {
			if _, err := io.WriteString(to, line); err != nil {
				return err
			}
			if got, err := r.ReadString('\n'); err != nil || got != line {
				t.Errorf("got %q, %v; want %q", got, err, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTalkReturnsWhatEndedIt(t *testing.T) {
	mine := errors.New("enough")
	read := func(_ context.Context, _ io.Writer, from io.Reader) error {
		_, err := io.ReadAll(from)
		return err
	}
	waits := func(ctx context.Context, _ io.Writer, _ io.Reader) error {
		<-ctx.Done()
		return ctx.Err()
	}
	asks := func(ctx context.Context, to io.Writer, from io.Reader) error {
		if _, err := io.WriteString(to, `"/dev/null/none"`); err != nil {
			return err
		}
		return read(ctx, to, from)
	}
	for _, tt := range []struct {
		name, child string
		talk        func(context.Context, io.Writer, io.Reader) error
		want        func(error) bool
	}{
		{"its own error", "echo", func(context.Context, io.Writer, io.Reader) error { return mine },
			func(err error) bool { return errors.Is(err, mine) }},
		{"the child's error", "error", read, isCrash},
		{"the child's death", "kill9", read, isCrash},
		{"the child's death while it waits for another", "kill9", waits, isCrash},
		{"a child that says nothing", "deaf", asks, isTimeout},
		{"a child that says nothing to who waits for another", "deaf", waits, isTimeout},
		{"a name that is not in the table", "nosuch", read, isCrash},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := Talk(t.Context(), tt.child, 2*time.Second, tt.talk); !tt.want(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func isCrash(err error) bool {
	e, ok := errors.AsType[*CrashError](err)
	return ok && e.Name != ""
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[*TimeoutError](err)
	return ok && !e.Abandoned
}

func TestTalkEndsWithItsContext(t *testing.T) {
	reason := errors.New("the user pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Talk(ctx, "echo", ample, func(_ context.Context, to io.Writer, from io.Reader) error {
		if _, err := io.WriteString(to, "x"); err != nil {
			return err
		}
		var b [1]byte
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return err
		}
		cancel(reason)
		_, err := io.ReadFull(from, b[:])
		return err
	})
	if !errors.Is(err, reason) {
		t.Errorf("error %v, want %v", err, reason)
	}
	if err := Talk(ctx, "echo", ample, nil); !errors.Is(err, reason) {
		t.Errorf("with a context that is done: %v, want %v", err, reason)
	}
}
