package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"launch/diagnose/scene"
	"launch/internal/exit"
	"launch/internal/hostlist"
)

// Budgets of --hosts.
const (
	sshConnect = "5"              // seconds, of ssh itself
	sshLimit   = 25 * time.Second // of one host, with its look
	sshAtOnce  = 32
	sshAfter   = time.Second // for the output of an ssh that was ended
	maxWords   = 8 << 10     // bytes of ssh's errors that are kept
	maxNamed   = 8           // hosts that did not answer are noted one by one
)

// hostsOf returns the hosts of --hosts, each once: a list as Slurm writes it, or @FILE with one on a line.
func hostsOf(text string) (out []string, err error) {
	lists := []string{text}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if lists, err = hostlist.Hostfile(f); err != nil {
			return nil, err
		}
	}
	for _, list := range lists {
		names, err := hostlist.Expand(list)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasPrefix(name, "-") {
				return nil, fmt.Errorf("%q is no host name", name)
			}
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it names no host")
	}
	return out, nil
}

// heard is what one host answered over ssh.
type heard struct {
	host   string
	scenes []scene.Scene
	why    string // there is no answer
}

// askHosts has launch doctor look on each host, by the user's own ssh.
func askHosts(ctx context.Context, hosts []string, job string) []heard {
	out := make([]heard, len(hosts))
	program, err := os.Executable()
	if err != nil {
		program = "launch"
	}
	line := quoted(program) + " doctor --json"
	if job != "" {
		line += " --job " + quoted(job)
	}
	room := make(chan struct{}, sshAtOnce)
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			out[i] = heard{host: host}
			if out[i].scenes, err = askHost(ctx, host, line); err != nil {
				out[i].why = err.Error()
			}
		})
	}
	wg.Wait()
	return out
}

// askHost has launch doctor look on one host.
func askHost(ctx context.Context, host, line string) ([]scene.Scene, error) {
	ctx, cancel := context.WithTimeout(ctx, sshLimit)
	defer cancel()
	words, answer := &tailWriter{most: maxWords}, &boundWriter{most: maxScenes}
	c := exec.CommandContext(ctx, "ssh", "-n", "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout="+sshConnect,
		"--", host, line)
	c.Stdout, c.Stderr, c.WaitDelay = answer, words, sshAfter
	err := c.Run() // the exit status is the doctor's, too
	scenes, unread := scenesIn(answer.text.Bytes())
	switch {
	case unread == nil && !answer.over:
		return scenes, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer within %v", sshLimit)
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("there is no ssh in PATH")
	case answer.over:
		return nil, errors.New("its answer is longer than 64 MiB")
	case words.last() != "":
		return nil, errors.New(words.last())
	case err != nil:
		return nil, fmt.Errorf("ssh: %w", err)
	}
	return nil, fmt.Errorf("its answer %w", unread)
}

// quoted returns one word for the shell on the other host.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// boundWriter keeps at most so many bytes.
type boundWriter struct {
	text bytes.Buffer
	most int
	over bool
}

func (b *boundWriter) Write(p []byte) (int, error) {
	if b.over = b.over || b.text.Len()+len(p) > b.most; b.over {
		return 0, errors.New("too long")
	}
	return b.text.Write(p)
}

// tailWriter keeps the last bytes.
type tailWriter struct {
	text []byte
	most int
}

func (t *tailWriter) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = slices.Clone(t.text[max(0, len(t.text)-t.most):])
	return len(p), nil
}

// last returns the last line that is not empty.
func (t *tailWriter) last() string {
	lines := strings.FieldsFunc(string(t.text), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}

// join adds what other hosts saw. A host without an answer is a gap of this node's scene.
func (a *app) join(own *scene.Scene, all []heard) (scenes []scene.Scene) {
	silent := 0
	for _, h := range all {
		if h.why == "" {
			for _, s := range h.scenes {
				if s.Host != own.Host || s.Boot != own.Boot || s.Net != own.Net {
					scenes = append(scenes, s)
				}
			}
			continue
		}
		if silent++; silent <= maxNamed {
			a.UI.Note("%s has not answered: %s", h.host, h.why)
		}
		own.Gaps = append(own.Gaps, scene.Gap{What: "what " + h.host + " sees", Why: h.why,
			Fix: "ssh " + h.host + " launch doctor --json"})
	}
	if silent > maxNamed {
		a.UI.Note("and %d more have not answered; --json lists all as gaps", silent-maxNamed)
	}
	return scenes
}

// doctorHosts reads --hosts.
func (a *app) doctorHosts() (err error) {
	if a.doc.hosts == "" {
		return nil
	}
	if a.doc.asked, err = hostsOf(a.doc.hosts); err != nil {
		return exit.Errorf(exit.Usage, "%s: %v", a.Opt.From("hosts"), err).
			Do("launch doctor --hosts gpu-[01-04],login1, or --hosts @FILE with one host on a line")
	}
	return nil
}
