package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/preflight"
	"launch/preflight/checks"
	"launch/preflight/peers"
	"launch/rendezvous"
)

// check runs the checks of this node, or of all nodes of a job, and starts
// nothing.
func (a *app) check(c *cli.Context) error {
	began := time.Now()
	s, err := a.look(c)
	if err != nil {
		return err
	}
	together := s.Job.Several() && !a.o.local && a.from == nil
	if t := s.Job.Tasks; together && t.Local > 0 {
		a.ui.Note("task %d of this node: its first task checks it", t.Local)
		return nil
	}
	in := a.checkInput(&s)
	if c.NArg() == 0 { // nothing is started, so nothing can be missing
		in.Job.Line.Argv, in.LookPath = nil, nil
	}
	var ctx context.Context
	ctx, a.stop, a.caught = handoff.NotifyContext(c.Context)
	defer a.stop()
	if s.Job.Several() && a.from == nil && !ofAPod(s.Job) {
		if p, err := a.place(ctx, &s, firstLook); err == nil {
			in.Addr, in.Serve = p.Addr, p.Serve
		}
	}
	opt, err := a.choice(&in)
	if err != nil {
		return err
	}
	s.Local, err = checks.Local(ctx, in, opt)
	switch {
	case ctx.Err() != nil:
		a.code = a.fail(context.Cause(ctx), a.caught())
		return nil
	case err != nil:
		return &exit.Error{Code: exit.Usage, What: err.Error()}
	}
	a.ui.Findings(s.Job.Notes, false)
	if together {
		a.code, err = a.checkJob(ctx, &s, began)
	} else {
		a.code, err = a.checkNode(&s, began)
	}
	if sig := a.caught(); err != nil && ctx.Err() != nil {
		a.code = a.fail(err, sig)
		return nil
	}
	return err
}

// checkNode reports on this node alone; the code says whether it is fit.
func (a *app) checkNode(s *record.Start, began time.Time) (code int, err error) {
	c := a.checked(s, peers.Post{Name: s.Node.Hostname, Local: peers.Telling(s.Local), Outcomes: peers.Outcomes(s.Local)}, began)
	a.ui.Report(s.Local, c.Took)
	if len(c.Unfit()) > 0 {
		code = exit.Unfit
	}
	return code, a.keep(c)
}

// checked is the outcome of this node's own checks.
func (a *app) checked(s *record.Start, own peers.Post, began time.Time) ui.Checked {
	c := ui.Checked{Survey: peers.NewSurvey([]peers.Post{own}, peers.Decision{}, checks.Node()), Node: s.Node, Own: s.Local, Version: versionText(), At: time.Now()}
	c.Report, c.Took = s.Local, c.At.Sub(began)
	return c
}

// checkJob reports on all nodes, the same on each of them. The code says whether
// this node is fit, and if so whether all are.
func (a *app) checkJob(ctx context.Context, s *record.Start, began time.Time) (code int, err error) {
	s.Job.ID.V = "check-" + s.Job.ID.V // it does not meet a start of the job
	a.o.startTimeout = 0               // nobody is awaited after it
	a.ui.Note("checking %s together; --local checks this one alone", ui.Nodes(s.Job.Nodes.V, s.Job.Min))
	d, measured, err := a.together(ctx, s, began)
	if err != nil {
		a.ui.Findings(s.Local, false)
		return 0, err
	}
	c := a.checked(s, peers.Post{}, began)
	c.Survey, c.Self, c.Job = *d.Survey, s.World.Rank, ui.Identity(s.Job)
	c.Report = d.All()
	if c.Bench = measured; measured != nil {
		c.Report = slices.Concat(c.Report, measured.Findings)
	}
	a.ui.Survey(c)
	unfit := func(n peers.Surveyed) bool { return n.Unfit }
	switch i := slices.IndexFunc(c.Nodes, func(n peers.Surveyed) bool { return n.Rank == c.Self }); {
	case i >= 0 && c.Nodes[i].Unfit:
		code = exit.Unfit
	case slices.ContainsFunc(c.Nodes, unfit):
		code = exit.PeerUnfit
	}
	return code, a.keep(c)
}

// together meets the other nodes, as a start does, and decides with them.
func (a *app) together(ctx context.Context, s *record.Start, began time.Time) (d peers.Decision, measured *ui.Benched, err error) {
	comp, err := a.meet(ctx, s, began)
	if err != nil {
		return d, nil, err
	}
	defer func() {
		why := "its check is over"
		if err != nil {
			why = a.farewell(ctx, err)
		}
		comp.Leave(why)
	}()
	deadline := began.Add(a.o.joinTimeout)
	for {
		if err := a.join(ctx, s, comp, began, deadline); err != nil {
			return d, nil, a.missing(err, s.Job)
		}
		if measured, err = a.benchFirst(ctx, s, comp, &deadline); err == nil {
			d, err = a.decide(ctx, s, comp, deadline)
		}
		if broken, ok := errors.AsType[*rendezvous.BrokenError](err); ok {
			a.anew(broken)
			continue
		}
		if err != nil {
			return d, nil, a.missing(err, s.Job)
		}
		a.part(ctx, comp)
		return d, measured, nil
	}
}

const (
	// readRound is over when all nodes have read the result of a check: then
	// they may leave, and the store with the one that hosts it.
	readRound = "read"
	// partBudget bounds the wait for those that are slow to read; lastWords is
	// how long the store's host lets the others see that all have.
	partBudget, lastWords = 2 * time.Second, 200 * time.Millisecond
)

// part waits until all nodes have the result. One that is lost now keeps nobody.
func (a *app) part(ctx context.Context, comp *companion.Client) {
	all := func([][]byte) ([]byte, bool) { return []byte("{}"), true }
	if _, err := comp.Round(ctx, readRound, []byte("{}"), partBudget, all); err != nil || !comp.Self.First {
		return
	}
	select {
	case <-time.After(lastWords):
	case <-ctx.Done():
	}
}

// join waits for a world.
func (a *app) join(ctx context.Context, s *record.Start, comp *companion.Client, began, deadline time.Time) error {
	defer a.waiting(began)()
	a.joined.Store(false)
	w, err := comp.Join(ctx, time.Until(deadline))
	if err == nil {
		s.World = &w
		a.joined.Store(true)
	}
	return err
}

// keep writes the outcome to the files that were asked for.
func (a *app) keep(c ui.Checked) error {
	if a.o.textfile != "" {
		if err := ui.WriteMetrics(a.o.textfile, c); err != nil {
			return cannotWrite(a.o.from("textfile"), a.o.textfile, err)
		}
	}
	if a.o.html == "" {
		return nil
	}
	return a.writePage(ui.CheckHTML(c, checks.Title))
}

// list is a flag that may be given several times, its values as they were
// typed: cli's own would part them at commas.
type list []string

// Set adds a value.
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func (l *list) String() string { return "" }

// readThresholds takes over LAUNCH_THRESHOLDS and what was typed, which counts
// where both speak of the same.
func (o *options) readThresholds() error {
	o.thresholds = map[string]float64{}
	read := func(from, sep, text string) error {
		name, value, err := preflight.ParseThreshold(text)
		if e, ok := errors.AsType[*preflight.ThresholdError](err); ok {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s: %s", from, e.What), Fix: from + sep + e.Fix}
		}
		o.thresholds[name] = value
		return err
	}
	variable := env("threshold")[0]
	for _, text := range strings.Split(os.Getenv(variable), ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := read(variable, "=", text); err != nil {
			return err
		}
	}
	for _, text := range o.typed {
		if err := read("--threshold", " ", text); err != nil {
			return err
		}
	}
	return nil
}

// choice is which checks run, the user's own among them.
func (a *app) choice(in *preflight.Input) (preflight.Options, error) {
	opt := preflight.Options{Skip: a.o.skip, Only: a.o.only, WarnOnly: a.o.warnOnly}
	if a.o.checkDir == "" {
		return opt, nil
	}
	if !a.o.dryRun { // a dry run executes nothing
		in.UserEnv = handoff.Environ()
	}
	var err error
	if opt.More, err = preflight.CheckDir(a.o.checkDir, *in); err != nil {
		return opt, a.noCheckDir(err)
	}
	return opt, nil
}
