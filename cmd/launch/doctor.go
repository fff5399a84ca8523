package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"reflect"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"launch/cmd/internal/companion"
	"launch/diagnose"
	"launch/diagnose/bundle"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/fabric"
	"launch/internal/exit"
)

// The exit statuses of launch doctor, besides those of the table: nothing hangs; a cause was found; a job waits,
// and the evidence does not decide.
const (
	doctorWell = 0
	doctorHung = 1
	doctorOpen = 2
)

// Budgets of launch doctor.
const (
	doctorBudget = 20 * time.Second // of one look, whatever hangs
	watchPause   = 10 * time.Second // between two looks with --watch
	maxScenes    = 64 << 20         // bytes of one file of --merge
)

// doctorOptions are the settings of launch doctor alone.
type doctorOptions struct {
	pid        int
	merge, log bool
	hosts      string
	asked      []string // the hosts of --hosts
	bundle     string
	job        bool // --job was typed
}

// diagnosed is what launch doctor --json prints, and what --merge reads.
type diagnosed struct {
	Answers []verdict.Answer `json:"answers"`
	Scenes  []scene.Scene    `json:"scenes,omitempty"`
	news    bool             // the first verdict has what launch last said of its wait
}

// doctor says why the job of this node does not go on.
func (a *app) doctor(c *cli.Context) error {
	if err := a.doctorFlags(); err != nil {
		return err
	}
	switch {
	case a.doc.log:
		return a.doctorLog(c)
	case a.doc.merge:
		return a.doctorMerge(c.Args().Slice())
	case c.NArg() > 0:
		return exit.Errorf(exit.Usage, "launch doctor does not take %q", c.Args().First()).
			Do("launch doctor --log %s, or launch doctor --merge %s", c.Args().First(), c.Args().First())
	}
	ctx, stop := signal.NotifyContext(c.Context, unix.SIGINT, unix.SIGTERM)
	defer stop()
	if a.doc.pid != 0 && !alive(a.doc.pid) {
		return exit.Errorf(exit.Usage, "--pid %d: no such process on this node", a.doc.pid).
			Do("ps -eo pid,args | grep -e torchrun -e python")
	}
	last, err := a.look(ctx)
	if err != nil || !a.watch {
		return a.said(last, err)
	}
	if err := doctorFailure(a.said(last, nil)); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil // a signal ends a watch
		case <-time.After(watchPause):
		}
		now, err := a.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !sameCauses(last, now) {
			a.UI.Clear()
			if err := doctorFailure(a.said(now, nil)); err != nil {
				return err
			}
		}
		last = now
	}
}

// doctorFlags refuses flags that exclude each other, and files that cannot be written.
func (a *app) doctorFlags() error {
	d := a.doc
	d.job = a.Opt.Given["job"]
	for _, x := range []struct {
		both bool
		one  string
		two  string
		do   string
	}{
		{d.log && d.merge, "--log", "--merge", "launch doctor --log FILE..."},
		{d.hosts != "" && d.log, "--hosts", "--log", "launch doctor --log FILE..."},
		{d.hosts != "" && d.merge, "--hosts", "--merge", "launch doctor --merge FILE..."},
		{d.hosts != "" && d.pid != 0, "--hosts", "--pid", "launch doctor --hosts HOST,HOST"},
		{d.log && d.job, "--log", "--job", "launch doctor --log FILE..."},
		{d.merge && d.job, "--merge", "--job", "launch doctor --merge FILE..."},
		{d.pid != 0 && d.job, "--pid", "--job", "launch doctor --job ID"},
		{d.log && d.bundle != "", "--log", a.Opt.From("bundle"), "launch doctor --log FILE..."},
		{d.log && a.Opt.HTML != "", "--log", a.Opt.From("html"), "launch doctor --log FILE..."},
	} {
		if x.both {
			return exit.Errorf(exit.Usage, "%s and %s exclude each other", x.one, x.two).Do("%s", x.do)
		}
	}
	if err := a.doctorHosts(); err != nil {
		return err
	}
	if err := a.TryOutput("bundle", d.bundle); err != nil {
		return err
	}
	return a.TryOutputs()
}

func alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return pid > 0 && (err == nil || errors.Is(err, unix.EPERM))
}

// consulting asks the companions of this node while it is looked at.
type consulting struct {
	sync.WaitGroup
	scenes []scene.Scene
	news   []companion.News
}

// look gathers what this node sees, and what other nodes of the job see where launch has started it, and judges.
func (a *app) look(ctx context.Context) (diagnosed, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hosts := make(chan []heard, 1)
	go func() { hosts <- askHosts(ctx, a.doc.asked, a.Opt.Job.V) }()
	here, cancel := context.WithTimeout(ctx, doctorBudget)
	defer cancel()
	nodes := consulting{}
	o := scene.Options{PID: a.doc.pid, Job: a.Opt.Job.V, Stacks: true, Processor: fabric.Processor,
		Freezer: fabric.Freezer, Broken: fabric.AskStale}
	o.Found = func(launches []scene.Proc) {
		nodes.Go(func() { nodes.scenes, nodes.news = companion.Consult(here, launches) })
	}
	own, err := scene.Take(here, o)
	if err != nil {
		stop()
		<-hosts // each ssh has ended
	}
	nodes.Wait()
	switch {
	case errors.As(err, new(*scene.UnknownJobError)):
		return diagnosed{}, exit.Errorf(exit.Usage, "%s: %v", a.Opt.From("job"), err).
			Do("launch doctor   # all jobs of this node")
	case err != nil && a.doc.pid != 0:
		return diagnosed{}, exit.Errorf(exit.Usage, "--pid %d: %v", a.doc.pid, err).
			Do("run it as the user of the job, or as root; without --pid it looks at all jobs of this node")
	case err != nil:
		return diagnosed{}, exit.Errorf(exit.Bug, "look at this node: %v", err)
	}
	more := append(nodes.scenes, a.join(&own, <-hosts)...)
	scenes := append([]scene.Scene{own}, more...)
	answers := diagnose.Judge(scenes)
	if len(nodes.news) > 0 && len(answers[0].Why) > 0 && answers[0].Why[0].Cause == "launch.waits" {
		say(&answers[0].Why[0], nodes.news[0])
		return diagnosed{answers, scenes, true}, nil
	}
	return diagnosed{answers, scenes, false}, nil
}

// said prints what was found, writes the files that were asked for, and returns the exit status.
func (a *app) said(d diagnosed, err error) error {
	if err != nil {
		return err
	}
	if a.UI.JSON() {
		a.UI.Emit(true, "doctor", d)
	} else {
		for _, one := range d.Answers {
			a.UI.Diagnosis(one)
		}
	}
	if err := a.doctorFiles(d); err != nil {
		return err
	}
	return end(doctorStatus(d.Answers))
}

func doctorStatus(all []verdict.Answer) int {
	status := doctorWell
	for _, one := range all {
		switch one.State {
		case verdict.Hung:
			return doctorHung
		case verdict.Open:
			status = doctorOpen
		}
	}
	return status
}

// sameCauses reports whether two looks found the same causes.
func sameCauses(a, b diagnosed) bool {
	causes := func(d diagnosed) (out []any) {
		for _, one := range d.Answers {
			out = append(out, one.State)
			for _, v := range one.Why {
				out = append(out, v.Cause, v.Ranks, v.Nodes)
			}
		}
		return out
	}
	return reflect.DeepEqual(causes(a), causes(b))
}

// doctorMerge judges what several nodes have written with --json.
func (a *app) doctorMerge(files []string) error {
	if len(files) == 0 {
		return exit.Errorf(exit.Usage, "--merge needs files that launch doctor --json has written").
			Do("launch doctor --json > $(hostname).json on each node; then: launch doctor --merge *.json")
	}
	var all []scene.Scene
	for _, file := range files {
		scenes, err := readScenes(file)
		if err != nil {
			return exit.Errorf(exit.Usage, "--merge %s: %v", file, err).
				Do("launch doctor --json > NODE.json   # on each node, again")
		}
		all = append(all, scenes...)
	}
	return a.said(diagnosed{diagnose.Judge(all), all, false}, nil)
}

// readScenes reads the scenes of one file: lines of launch doctor --json, or a bundle.
func readScenes(file string) (out []scene.Scene, err error) {
	in := os.Stdin
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return nil, errors.Unwrap(err)
		}
		defer in.Close()
	}
	text, err := io.ReadAll(io.LimitReader(in, maxScenes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxScenes:
		return nil, errors.New("longer than 64 MiB")
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("empty")
	}
	if bundle.IsPacked(text) {
		if text, err = bundle.Unpack(text, maxBundle); err != nil {
			return nil, err
		}
	}
	return scene.Lines(text)
}
