package start

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/measure"
	"launch/cmd/internal/ui"
	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/outfile"
	"launch/internal/setting"
	"launch/preflight"
	"launch/preflight/peers"
)

// Check is launch check, of this node or of all nodes of a job. It returns the exit status.
func (s *Start) Check(ctx context.Context, argv []string) int {
	s.argv = launcher.Assigned(argv)
	return s.run(ctx, (*Start).resolve, (*Start).threads, func(s *Start, ctx context.Context) error {
		together := s.Job.Several() && !s.Opt.Local && s.Machine == nil
		switch t := s.Job.Tasks; {
		case together && t.Local > 0:
			s.UI.Note("task %d of this node: its first task checks the node", t.Local)
			return nil
		case together:
			return s.do(ctx, (*Start).detect, (*Start).check, (*Start).checkTogether)
		}
		return s.do(ctx, (*Start).detect, (*Start).check, (*Start).checkHosts, (*Start).reportAlone)
	})
}

// reportAlone reports on this node.
func (s *Start) reportAlone(context.Context) error {
	s.UI.Findings(s.Job.Notes, false)
	own := peers.Post{Name: s.Node.Hostname, Local: peers.Problems(s.Local), Outcomes: s.Local.Outcomes()}
	c := s.checked(peers.NewSurvey([]peers.Post{own}, peers.Decision{}, s.Checks.Node))
	if s.hostSurvey != nil {
		c.Survey = *s.hostSurvey
		c.Self = -1 // this host may be none of them
	}
	c.Report = slices.Concat(s.Local, s.Hosts)
	if s.hostBench != nil { // its findings are in the report
		b := s.benched(measure.Result{Verdict: *s.hostBench})
		b.Findings, c.Bench = nil, &b
		s.UI.Bench(b)
	}
	s.UI.Report(c.Report, c.Took)
	if len(c.Unfit()) > 0 || len(s.Hosts.Failed()) > 0 {
		s.status = exit.Unfit
	}
	return s.write(c)
}

// checked returns the outcome of a check.
func (s *Start) checked(survey finding.Survey) ui.Checked {
	return ui.Checked{Survey: survey, Outcome: s.outcome(time.Since(s.began)), Own: s.Local,
		Peers: finding.Map(s.Checks.Peers, func(c preflight.Check) string { return c.ID })}
}

// checkTogether reports on all nodes, the same on each of them.
func (s *Start) checkTogether(ctx context.Context) error {
	s.UI.Findings(s.Job.Notes, false)
	s.UI.Note("checking %s together; --local checks this one alone", ui.Nodes(s.Job.Nodes.V, s.Job.Min))
	if err := s.together(ctx, (*Start).measureFirst, (*Start).decide); err != nil {
		s.UI.Findings(s.Local, false)
		return err
	}
	s.part(ctx)
	s.leave("its check is over")
	if s.UI.JSON() { // the head of an mpirun line starts no second launch on each host for it
		in := s.torchInput()
		in.World.Addr = s.World.Self.Addr
		s.emitPlan(envgen.Make(in), "")
	}
	c := s.checked(*s.decision.Survey)
	c.Self, c.Job, c.Report = s.World.Rank, ui.Identity(s.Job), s.decision.All()
	if s.measured != nil {
		b := s.benched(*s.measured)
		c.Bench, c.Report = &b, slices.Concat(c.Report, b.Findings)
	}
	s.UI.Survey(c)
	if line := excludeLine(s.decision.Exclude); line != "" && s.World.Rank == 0 {
		s.UI.Note("%s", line)
	}
	switch i := slices.IndexFunc(c.Nodes, func(n finding.Surveyed) bool { return n.Rank == c.Self }); {
	case i >= 0 && c.Nodes[i].Unfit:
		s.status = exit.Unfit
	case len(c.Unfit()) > 0:
		s.status = exit.PeerUnfit
	}
	return s.write(c)
}

const (
	// readRound ends when all nodes have read the result of a check; then the store's host may end.
	readRound = "read"
	// partBudget bounds the wait for slow readers; lastWords is how long the store's host lets the
	// others see that all have read it.
	partBudget, lastWords = 2 * time.Second, 200 * time.Millisecond
)

// part waits until all nodes have the result. A node that is lost now delays none.
func (s *Start) part(ctx context.Context) {
	s.wait.setOver()
	all := func([][]byte) ([]byte, bool) { return []byte("{}"), true }
	if _, err := s.comp.Round(ctx, readRound, []byte("{}"), partBudget, all); err != nil || !s.comp.Self.First {
		return
	}
	select {
	case <-time.After(lastWords):
	case <-ctx.Done():
	}
}

// together takes the nodes of a job through steps, under another name: a start of the job is another job.
func (s *Start) together(ctx context.Context, steps ...stage) error {
	s.Job.ID.V = s.Subcommand + "-" + s.Job.ID.V
	s.Opt.StartTimeout = 0 // no node is waited for after it
	return s.do(ctx, (*Start).locate, (*Start).register, func(s *Start, ctx context.Context) error {
		return s.gather(ctx, steps...)
	})
}

// write writes the outcome of a check to --textfile and --html.
func (s *Start) write(c ui.Checked) error {
	if file := s.Opt.Textfile; file != "" {
		if err := ui.WriteMetrics(file, c); err != nil {
			return exit.CannotWrite(s.Opt.From("textfile"), file, err)
		}
	}
	if s.Opt.HTML == "" {
		return nil
	}
	return s.writePage(ui.CheckHTML(c))
}

// Bench is launch bench, between the nodes of a job or two by hand. It returns the exit status.
func (s *Start) Bench(ctx context.Context) int {
	o := s.Opt
	typed := func(flag string) bool { return o.Given[flag] }
	if err := o.Options.Check(o.From, typed, o.NNodes.Set || o.Store.Set); err != nil {
		return s.Fail(err, nil)
	}
	if o.ByHand() {
		return s.run(ctx, (*Start).benchByHand)
	}
	return s.run(ctx, (*Start).resolve, (*Start).benchTogether)
}

// bench returns a bench with this run's settings.
func (s *Start) bench() *measure.Bench {
	return &measure.Bench{Options: s.Opt.Options, JoinTimeout: s.Opt.JoinTimeout, From: s.Opt.From, Token: s.Opt.Token,
		UI: s.UI}
}

// benchByHand measures between two nodes.
func (s *Start) benchByHand(ctx context.Context) error {
	if err := s.TryOutputs(); err != nil { // for nodes of a job resolve does it
		return err
	}
	s.Job.Nodes = setting.Value[int]{V: 2}
	s.Node = s.DetectNode(ctx)
	s.Job = job.Job{Nodes: setting.Value[int]{V: 1}}
	out, err := s.bench().Hand(ctx, s.Node, s.began)
	if err != nil {
		return err
	}
	if out.Status() != 0 {
		s.status = exit.Unfit
	}
	return s.reportBench(out)
}

// benchTogether measures between all nodes of a job.
func (s *Start) benchTogether(ctx context.Context) error {
	if !s.Job.Several() {
		return exit.Errorf(exit.Usage, "a bench needs two nodes, but this line has one").
			Do("launch bench --store HOST --nnodes N   # the same line on each\nor by hand: launch bench --server   # on " +
				"one, and on the other: launch bench --client HOST")
	}
	if t := s.Job.Tasks; t.Local > 0 {
		s.UI.Note("task %d of this node: its first task measures", t.Local)
		return nil
	}
	if err := s.detect(ctx); err != nil {
		return err
	}
	b := s.bench()
	if _, err := b.RailsOf(s.Node, netip.Addr{}); err != nil { // before other nodes wait for this one
		return err
	}
	was, err := b.Past(s.Node.Hostname)
	if err != nil {
		return err
	}
	s.UI.Findings(s.Job.Notes, false)
	var out measure.Result
	err = s.together(ctx, func(s *Start, ctx context.Context) (err error) {
		out, err = b.Nodes(ctx, s.Node, *s.World, benchRounds{s.comp, &s.wait}, was, s.deadline)
		return err
	})
	if err != nil {
		return err
	}
	s.status = out.Status()
	err = s.reportBench(out)
	s.part(ctx)
	s.leave("its bench is over")
	return err
}

// benchRounds is what a bench needs of the joined world.
type benchRounds struct {
	*companion.Client
	*observer
}

// outcome returns what the reports of a check and of a bench have in common.
func (s *Start) outcome(took time.Duration) ui.Outcome {
	return ui.Outcome{Node: s.Node, Titles: s.Checks.Titles(), Version: s.Version, At: time.Now(), Took: took}
}

// benched returns the report of a bench.
func (s *Start) benched(r measure.Result) ui.Benched {
	out := ui.Benched{Verdict: r.Verdict, Outcome: s.outcome(r.Took)}
	out.Self = r.Self
	if s.Job.Several() {
		out.Job = ui.Identity(s.Job)
	}
	return out
}

// reportBench prints the rates, and writes --history and --html.
func (s *Start) reportBench(r measure.Result) error {
	out := s.benched(r)
	s.UI.Bench(out)
	if err := s.bench().Remember(s.Node.Hostname, r, out.At); err != nil || s.Opt.HTML == "" {
		return err
	}
	return s.writePage(ui.BenchHTML(out))
}

// writePage writes the page of --html.
func (s *Start) writePage(page []byte, err error) error {
	if err == nil {
		err = outfile.Write(s.Opt.HTML, page)
	}
	if err != nil {
		return exit.CannotWrite(s.Opt.From("html"), s.Opt.HTML, err)
	}
	return nil
}
