package remote

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"launch/internal/process"
)

// Session is a shell on one host, which reads what it does from its standard input. So what it is told is on no
// command line, and it ends when this process does.
type Session struct {
	agent Agent
	ctx   context.Context
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at its end
	words *tail
	mark  string
	ended error

	losses losses
	loss   *Loss

	writing sync.Mutex    // of the input of the shell
	feeding atomic.Bool   // what is written is no line for the shell
	over    chan struct{} // closed when the shell has ended

	// Before is what the host printed before its shell was ready: a start-up file that prints.
	Before []string
}

// maxLine bounds a line of a shell's output, in bytes: what launch doctor has seen there is one.
const maxLine = 64 << 20

// AtEnd is the variable of the shell that has the command with which it ends, also where this process was killed.
const AtEnd = "launch_at_end"

// Open starts a shell on a host. ctx ends it. The error is a *Failed.
func Open(ctx context.Context, agent Agent, host string) (*Session, error) {
	s := &Session{agent: agent, ctx: ctx, cmd: agent.command(ctx, host, command), lines: make(chan string, 16),
		words: &tail{}, mark: "launch-" + rand.Text(), losses: losses{sockets: cmp.Or(agent.Sockets, new(process.Table))},
		over: make(chan struct{})}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.cmd.Stderr = in, s.words
	if err := s.cmd.Start(); err != nil {
		return nil, agent.failed(ctx, err, "")
	}
	if agent.Began != nil {
		agent.Began(s.answers)
	}
	context.AfterFunc(ctx, func() { time.AfterFunc(after, func() { _ = out.Close() }) }) // a child of it may have the pipe
	go s.read(out)
	go s.showLife()
	if s.Before, err = s.Do(atEnd + showRan); err != nil {
		return s, err
	}
	at := slices.Index(s.Before, ran) // a start-up file may print later, in the background
	if at < 0 {
		f := agent.failed(ctx, nil, s.words.String())
		f.Unrun = s.unrun()
		return s, f
	}
	s.Before = strip(slices.Delete(s.Before, at, at+1))
	return s, nil
}

// answers is what Began gets.
func (s *Session) answers() bool {
	sockets := cmp.Or(s.agent.Sockets, new(process.Table))
	return slices.ContainsFunc(sockets.Connections(s.cmd.Process.Pid), func(c process.Connection) bool {
		return c.Received > 0 && c.Retransmits == 0
	})
}

// read passes the lines on until the shell has ended.
func (s *Session) read(out io.Reader) {
	b := bufio.NewScanner(out)
	b.Buffer(nil, maxLine)
	for b.Scan() {
		s.lines <- b.Text()
	}
	_, _ = io.Copy(io.Discard, out)
	s.ended = s.cmd.Wait()
	close(s.over)
	close(s.lines)
}

// Do has the shell run a script, and returns what it printed. The error is a *Failed.
func (s *Session) Do(script string) (printed []string, err error) {
	// The shell has read all of it before a command of it runs.
	return s.tell(fmt.Sprintf("{ :\n%s\n} </dev/null\nprintf '\\n%%s\\n' %s\n"+lifeLine, script, s.mark), nil)
}

// Await is the function of the shell that runs a command of a script of Run.
const Await = "launch_await"

// Run is Do for commands that take a while: they end with the shell, and the shell with this process. They are words
// after Await.
func (s *Session) Run(script string) (printed []string, err error) {
	return s.tell(fmt.Sprintf("{ trap 'kill $launch_child 2>/dev/null; exit 1' TERM\n"+
		Await+"() { \"$@\" & launch_child=$!; wait $launch_child; }\n%s\nprintf '\\n%%s\\n' %s\n} </dev/null &\n"+
		"launch_run=$!\n"+lifeLine, script, s.mark), nil)
}

// block is how much of an input goes to the command at once, in bytes: a pipe's size. head would pass on 8 KiB at a
// time, and each wakes the command.
const block = 64 << 10

// Feed has the shell run a command that reads these bytes from its standard input, and no more. The error is a *Failed.
func (s *Session) Feed(command string, input []byte) error {
	// A dd that does not know the flag has read nothing.
	take := fmt.Sprintf("{ dd bs=%d count=%d iflag=fullblock 2>/dev/null && head -c %d || head -c %d; }", block,
		len(input)/block, len(input)%block, len(input))
	// One compound command: bash runs a line before it reads the next one, which would then be part of the input.
	// After a failure the shell ends, so that what remains of the input does not become a command.
	printed, err := s.tell(fmt.Sprintf("{ launch_long=%[4]d\n"+lifeLine+
		"{ printf '%%s\\n' %[1]s; %[2]s | { %[3]s; } 2>&1; } || exit\n"+
		"launch_long=\n"+lifeLine+"printf '\\n%%s\\n' %[1]s\n}\n", s.mark, take, command, long), input)
	if f, ok := errors.AsType[*Failed](err); ok && last(f.Words) == "" {
		f.Words = strings.Join(printed, "\n")
	}
	return err
}

// tell writes to the shell, and then an input when the shell asks for it by the mark. It returns what was printed
// until the last mark.
func (s *Session) tell(text string, input []byte) (printed []string, err error) {
	written := make(chan struct{})
	write := func(b []byte) {
		defer close(written)
		s.writing.Lock()
		defer s.writing.Unlock()
		_, _ = s.in.Write(b) // an error shows at the end of the lines
	}
	s.feeding.Store(input != nil)
	defer s.feeding.Store(false)
	go write([]byte(text))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case line, open := <-s.lines:
			switch {
			case !open:
				<-written
				return strip(printed), s.failed()
			case line == s.mark && input != nil:
				<-written
				written = make(chan struct{})
				go write(input)
				input = nil
			case line == s.mark:
				<-written
				return strip(printed), nil
			default:
				printed = append(printed, line)
			}
		case <-tick.C:
			if s.loss == nil {
				if s.loss = s.losses.look(s.ctx, s.cmd.Process.Pid); s.loss != nil {
					s.End()
				}
			}
		}
	}
}

// failed returns the error of a session whose shell has ended.
func (s *Session) failed() error {
	f := s.agent.failed(s.ctx, s.ended, s.words.String())
	f.Loss = s.loss
	return f
}

// strip removes empty lines at the end.
func strip(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// End ends the shell at once.
func (s *Session) End() { _ = s.cmd.Process.Kill() }

// closing is how long a shell may take to end when there is nothing more to read.
const closing = 2 * time.Second

// Close ends the shell, which removes what it has made, and waits for it.
func (s *Session) Close() {
	_ = s.in.Close()
	late := time.AfterFunc(closing, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	for range s.lines {
	}
}
