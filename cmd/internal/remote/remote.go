// Package remote runs commands on other hosts through the user's own agent (ssh), many at once. It asks nothing
// and answers nothing: where the agent would, the host has an error.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"launch/internal/process"
)

const (
	connect  = "8"         // seconds that ssh tries to connect; the verdict on a dead host is to come within 15
	after    = time.Second // for the output of an agent that was ended
	maxWords = 8 << 10     // bytes of an agent's errors that are kept
)

// Agent is a program that runs a command on a host. The zero Agent is this host's own shell.
type Agent struct {
	Argv []string
	Srun bool // Slurm's: the host is an option's value
	// Connect is how long ssh tries to connect; 0: as always.
	Connect time.Duration
	// Began, if set, is called when a session's agent has been started. answers reports whether the host's sshd has sent
	// something and its kernel acknowledges what is sent to it; false: it does not, or the agent has no connection.
	Began func(answers func() bool)
	// Sockets is the table in which sessions look for their connections, shared by many; nil: one for each session.
	Sockets *process.Table
}

// SSH is the user's own ssh.
func SSH() Agent { return Agent{Argv: []string{"ssh"}} }

// args returns the words that run a shell command on a host.
func (a Agent) args(host, command string) []string {
	switch {
	case len(a.Argv) == 0:
		return []string{"/bin/sh", "-c", command}
	case a.Srun:
		return append(slices.Clone(a.Argv), "--nodelist="+host, "/bin/sh", "-c", command)
	}
	words := []string{a.Argv[0]}
	if path.Base(a.Argv[0]) != "ssh" {
		return append(append(words, a.Argv[1:]...), host, command)
	}
	seconds := connect
	if a.Connect > 0 {
		seconds = strconv.Itoa(int(a.Connect.Seconds()))
	}
	words = append(words, "-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout="+seconds)
	return append(append(words, a.Argv[1:]...), "--", host, command)
}

func (a Agent) command(ctx context.Context, host, command string) *exec.Cmd {
	words := a.args(host, command)
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.WaitDelay = after
	return c
}

// Failed is an agent that did not do what was asked.
type Failed struct {
	Agent  string // its name
	Words  string // its last output on stderr
	Status int    // its exit status; -1: it did not end by itself
	Late   bool   // it was ended
	Loss   *Loss  // it was ended, since long packets get lost; nil: not seen
	Unrun  *Unrun // the host logs in, but does not run the command; nil: not seen
	Err    error
}

func (f *Failed) Error() string {
	switch {
	case f.Loss != nil:
		return "long packets " + f.Loss.Way + " get lost: " + f.Loss.Seen
	case f.Unrun != nil:
		return "it logs in, but runs no command: a start-up file of its shell, or sshd, starts something else"
	case errors.Is(f.Err, exec.ErrNotFound):
		return fmt.Sprintf("there is no %s in PATH", f.Agent)
	case last(f.Words) != "":
		return last(f.Words)
	case f.Late:
		return "no answer in time"
	case f.Err == nil:
		return f.Agent + " ended with status 0, and the command did not run"
	}
	return fmt.Sprintf("%s: %v", f.Agent, f.Err)
}

func (f *Failed) Unwrap() error { return f.Err }

// failed returns the error of an agent that has ended.
func (a Agent) failed(ctx context.Context, err error, words string) *Failed {
	f := &Failed{Agent: "sh", Words: words, Err: err, Status: -1, Late: ctx.Err() != nil}
	if len(a.Argv) > 0 {
		f.Agent = path.Base(a.Argv[0])
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		f.Status = e.ExitCode()
	}
	return f
}

// Output runs a command on a host, with an input (nil: none), and returns what it wrote, at most so many bytes.
// The error is a *Failed; there may be output with it.
func (a Agent) Output(ctx context.Context, host, command string, input io.Reader, most int) ([]byte, error) {
	c := a.command(ctx, host, command)
	words, out := &tail{}, &bound{most: most}
	c.Stdin, c.Stdout, c.Stderr = input, out, words
	err := c.Run()
	if out.over {
		return nil, fmt.Errorf("its answer is longer than %d MiB", most>>20)
	}
	if err != nil {
		return out.text.Bytes(), a.failed(ctx, err, words.String())
	}
	return out.text.Bytes(), nil
}

// Each does something for each of n hosts, some at once, and returns when all have ended.
func Each(n, atOnce int, do func(i int)) {
	room := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			do(i)
		})
	}
	wg.Wait()
}

// Quote returns one word for the shell on the other host.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// bound keeps at most so many bytes.
type bound struct {
	text bytes.Buffer
	most int
	over bool
}

func (b *bound) Write(p []byte) (int, error) {
	if b.over = b.over || b.text.Len()+len(p) > b.most; b.over {
		return 0, errors.New("too long")
	}
	return b.text.Write(p)
}

// tail keeps the last bytes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = slices.Clone(t.text[max(0, len(t.text)-maxWords):])
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// last returns the last line that is not empty.
func last(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}
