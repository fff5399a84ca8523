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
	c, err := startTalking(name, limit)
	if err != nil {
		return err
	}
	defer c.from.Close()
	defer c.to.Close()
	speaking, hush := context.WithCancel(ctx)
	defer hush()
	said := make(chan error, 1)
	go func() { said <- talk(speaking, c.to, c.from) }()

	timer := time.NewTimer(limit)
	defer timer.Stop()
	var late error
	for ended, done := false, false; !ended || !done; {
		select {
		case err = <-said:
			done, said = true, nil
			c.to.Close()
		case c.err = <-c.ended:
			ended, c.ended = true, nil
			if !done { // talk may still read what the child has written
				time.AfterFunc(killDelay, hush)
			}
		case <-timer.C:
			late = &TimeoutError{Name: name, Limit: limit, PID: c.cmd.Process.Pid,
				Abandoned: !ended && !endNow(c.cmd.Process.Pid, c.ended, killGroup)}
			ended = true
		case <-ctx.Done():
			if !ended {
				endNow(c.cmd.Process.Pid, c.ended, killGroup)
			}
			late, ended = fmt.Errorf("talk with child %q: %w", name, context.Cause(ctx)), true
		}
		if late != nil && !done {
			hush()
			c.from.Close() // ends a read of talk
			c.to.Close()
			<-said
			return late
		}
	}
	if late != nil {
		return late
	}
	if crash := c.crashed(name); crash != nil {
		return crash
	}
	return err
}

// talking is a child in a conversation.
type talking struct {
	cmd      *exec.Cmd
	to, from *os.File
	stderr   *tail
	ended    chan error
	err      error // of its Wait
}

func startTalking(name string, limit time.Duration) (*talking, error) {
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start child %q: %w", name, err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		to.Close()
		return nil, fmt.Errorf("start child %q: %w", name, err)
	}
	c := &talking{cmd: Command(name), to: to, from: from, stderr: &tail{max: maxStderr}, ended: make(chan error, 1)}
	c.cmd.Env = append(c.cmd.Env, varLimit+"="+limit.String())
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirIn, theirOut, c.stderr
	c.cmd.WaitDelay = killDelay // a grandchild that holds stderr open
	err = c.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		to.Close()
		from.Close()
		return nil, fmt.Errorf("start child %q: %w", name, err)
	}
	go func() { c.ended <- c.cmd.Wait() }() // outlives Talk only when the child is abandoned
	return c, nil
}

// crashed returns how the child crashed, or nil.
func (c *talking) crashed(name string) error {
	if errors.Is(c.err, exec.ErrWaitDelay) {
		killGroup(c.cmd.Process.Pid) // the child has ended, its group has not
	}
	return crashOf(name, c.cmd, c.stderr)
}
