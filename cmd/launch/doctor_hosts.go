package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"launch/cmd/internal/remote"
	"launch/diagnose/scene"
	"launch/internal/exit"
	"launch/internal/hostlist"
)

// Budgets of --hosts.
const (
	sshLimit  = 25 * time.Second // of one host, with its look
	sshAtOnce = 32
	maxNamed  = 8 // hosts that did not answer are noted one by one
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
	line := remote.Quote(program) + " doctor --json"
	if job != "" {
		line += " --job " + remote.Quote(job)
	}
	remote.Each(len(hosts), sshAtOnce, func(i int) {
		out[i] = heard{host: hosts[i]}
		if scenes, err := askHost(ctx, hosts[i], line); err != nil {
			out[i].why = err.Error()
		} else {
			out[i].scenes = scenes
		}
	})
	return out
}

// askHost has launch doctor look on one host.
func askHost(ctx context.Context, host, line string) ([]scene.Scene, error) {
	ctx, cancel := context.WithTimeout(ctx, sshLimit)
	defer cancel()
	answer, err := remote.SSH().Output(ctx, host, line, nil, maxScenes)
	scenes, unread := scene.Lines(answer) // the exit status is the doctor's, too
	switch {
	case unread == nil:
		return scenes, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer within %v", sshLimit)
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("its answer %w", unread)
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
