package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Talk starts the named child and connects talk to its standard input and output. When talk
// returns, the child reads an end of file, and is to end. limit, ctx and a child that cannot be
// killed are as in Ask. The ctx of talk ends when the child does.
//
// Errors: *TimeoutError, *CrashError, the cause of ctx, or talk's own.
func Talk(ctx context.Context, name string, limit time.Duration,
	talk func(ctx context.Context, to io.Writer, from io.Reader) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("talk with child %q: %w", name, context.Cause(ctx))
	}
	stderr := &tail{max: maxStderr}
	cmd, to, from, err := startTalking(name, limit, stderr)
	if err != nil {
		return fmt.Errorf("start child %q: %w", name, err)
	}
	defer from.Close()
	defer to.Close()
	pid := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // outlives Talk only when the child is abandoned
	speaking, hush := context.WithCancel(ctx)
	defer hush()
	said := make(chan error, 1)
	go func() { said <- talk(speaking, to, from) }()

	late := &TimeoutError{Name: name, Limit: limit, PID: pid}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	var waited error
	for ended != nil || said != nil {
		select {
		case err = <-said:
			said = nil
			to.Close()
		case waited = <-ended:
			ended = nil
			if said != nil { // talk may still read what the child has written
				time.AfterFunc(killDelay, hush)
			}
		case <-ctx.Done():
			late.Abandoned = ended != nil && !endNow(pid, ended, killGroup)
			if said != nil {
				hush()
				from.Close() // ends a read of talk
				to.Close()
				<-said
			}
			if context.Cause(ctx) == error(late) {
				return late
			}
			return fmt.Errorf("talk with child %q: %w", name, context.Cause(ctx))
		}
	}
	if errors.Is(waited, exec.ErrWaitDelay) {
		killGroup(pid) // the child has ended, its group has not
	}
	if crash := crashOf(name, cmd, stderr); crash != nil {
		return crash
	}
	return err
}

// startTalking starts a child with a pipe to its input and a pipe from its output.
func startTalking(name string, limit time.Duration, stderr io.Writer) (cmd *exec.Cmd, to io.WriteCloser,
	from *os.File, err error) {
	from, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = limited(name, limit)
	cmd.Stdout, cmd.Stderr = theirs, stderr
	if to, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	theirs.Close()
	if err != nil {
		from.Close()
	}
	return cmd, to, from, err
}
