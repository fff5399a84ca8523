// Package start owns the record of a run and the order in which it is filled. A start, a dry run,
// launch check, bench and env, a restart and a task that follows another are lists of the same stages.
package start

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"syscall"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/hostwatch"
	"launch/cmd/internal/measure"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/diagnose/scene"
	"launch/fabric/machine"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/internal/secret"
	"launch/preflight"
	"launch/preflight/bandwidth"
	"launch/preflight/peers"
	"launch/rendezvous"
)

// Start is a run of launch on this node: its settings, its record, and what its stages share.
type Start struct {
	Record

	Opt        *Options
	UI         *ui.UI
	Checks     preflight.Table
	Version    string
	Subcommand string          // the subcommand, such as "check"; "" for a start
	Flags      map[string]bool // the flags of a start, and whether each takes a value
	Pending    finding.Report  // findings about the command line that are not printed yet
	// Bundle, if set, writes what all nodes have seen of a job that hangs, and returns the name of the file.
	Bundle func(scenes []scene.Scene) (file string, err error)
	// Hint, if set, adds to an error what a command that was not found may have meant.
	Hint func(err error, argv []string) error

	Machine *machine.Machine // of --from; nil: this machine

	files  fs.FS // see here; nil: not read yet
	argv   []string
	began  time.Time
	status int // the exit status, unless a stage fails

	stop   func()           // stops listening to signals
	caught func() os.Signal // the signal that ended the run; nil: none

	store    *storeaddr.Place  // nil: not located yet
	comp     *companion.Client // nil: not registered
	deadline time.Time         // of the join
	wait     observer
	lastJob  time.Time // when another Job's store answered in the place of this one's; zero: it did not
	tasks    tasks

	secret     secret.Token // before this node has registered
	shared     string       // the variable of the secret that the nodes have from their scheduler; "": none
	saidSecret bool
	twins      bool // another node has this node's rank
	reported   bool // the other nodes know that this one has left

	// of an mpirun line: the unfit hosts, and what all found together
	unfitHosts []string
	hostless   bool // a failure of the mpirun line is about no single host
	hostSurvey *finding.Survey
	hostBench  *bandwidth.Verdict
	hostPlans  []planned
	hostFacts  map[string]mpirun.Facts
	watched    []hostwatch.Host // other hosts that have answered

	decision peers.Decision
	measured *measure.Result
	all      []netip.Addr                    // the addresses of all nodes, of this node's role, where the plan needs them
	roles    map[string][]rendezvous.Partner // the nodes of each role, in rank order
}

// stage is one step of a run: it reads what earlier stages wrote, and writes its own part.
type stage func(s *Start, ctx context.Context) error

// Launch starts a command. It returns an exit status only if launch has not become the command.
func (s *Start) Launch(ctx context.Context, argv []string) int {
	s.argv = launcher.Assigned(argv)
	return s.run(ctx, (*Start).resolve, (*Start).threads, (*Start).byKind)
}

// byKind runs the stages of the kind of start that the resolved job asks for.
func (s *Start) byKind(ctx context.Context) error {
	several, again := s.Job.Several(), s.Opt.Restarts > 0
	switch {
	case s.Opt.DryRun:
		return s.do(ctx, (*Start).detect, (*Start).check, (*Start).planUnknown, (*Start).print)
	case s.Job.Tasks.LocalSize > 1 && s.Job.Tasks.Local > 0:
		return s.do(ctx, (*Start).follow, (*Start).execute)
	}
	node := []stage{(*Start).leadTasks, (*Start).detect, (*Start).check, (*Start).verdict, (*Start).possible,
		(*Start).newGroup, (*Start).gatherTasks}
	last := (*Start).handOver
	switch {
	case again:
		last = (*Start).supervise
	case s.endsHung():
		last = (*Start).guard
	}
	switch {
	case !several && again:
		node = append(node, (*Start).planAlone, (*Start).repeat)
	case !several:
		node = append(node, (*Start).checkHosts, (*Start).hostsVerdict, (*Start).planAlone, (*Start).watchHosts,
			(*Start).handOver)
	default:
		node = append(node, (*Start).locate, (*Start).register, agree, begin, last)
	}
	return s.do(ctx, node...)
}

// begin follows the go, and waits for what the command needs to find.
func begin(s *Start, ctx context.Context) error {
	return s.do(ctx, (*Start).release, (*Start).awaitRoles, (*Start).awaitTurn)
}

// agree gathers the nodes until all of them may start.
func agree(s *Start, ctx context.Context) error {
	return s.gather(ctx, (*Start).welcome, (*Start).measureFirst, (*Start).decide, (*Start).obeyDecision)
}

// run runs stages, prints why they fail, and returns the exit status.
func (s *Start) run(ctx context.Context, stages ...stage) int {
	s.began = time.Now()
	s.wait = observer{ui: s.UI, timeout: s.Opt.JoinTimeout}
	ctx, s.stop, s.caught = handoff.NotifyContext(ctx)
	defer s.stop()
	err := s.do(ctx, stages...)
	if err != nil {
		err = s.anew(ctx, s.depart(ctx, err))
	}
	if err == nil {
		return s.status
	}
	s.stop()
	var sig os.Signal
	if ctx.Err() != nil {
		sig = s.caught()
	}
	if n, ok := sig.(syscall.Signal); ok && s.Subcommand == "bench" {
		err, sig = exit.Errorf(exit.Signal+int(n), "%s before the bench had a result%s", exit.SignalText(n),
			s.seenToLeave()), nil
	}
	if s.Hint != nil && len(s.argv) > 0 {
		err = s.Hint(err, s.argv)
	}
	status := s.Fail(err, sig)
	s.excuse(ctx, err) // a person reads the error meanwhile
	s.failTasks(s.failure(err, sig))
	return status
}

// do runs stages until one fails.
func (s *Start) do(ctx context.Context, stages ...stage) error {
	for _, next := range stages {
		if err := next(s, ctx); err != nil {
			return err
		}
	}
	return nil
}

// errAgain ends a step of gather: the node stays and waits for another world.
var errAgain = errors.New("wait for another world")

// gather joins a world and takes it through steps, and again when the world breaks up or a step returns
// errAgain.
func (s *Start) gather(ctx context.Context, steps ...stage) error {
	for {
		err := s.do(ctx, append([]stage{(*Start).join}, steps...)...)
		if broken, ok := errors.AsType[*rendezvous.BrokenError](err); ok {
			s.UI.Note("%s; joining again", broken.Why)
			continue
		}
		if moves(err) {
			if err = s.again(ctx, err); err == nil {
				continue
			}
		}
		if !errors.Is(err, errAgain) {
			return s.missing(err)
		}
	}
}

// Warn prints the findings about the command line that are not printed yet.
func (s *Start) Warn() {
	s.UI.Findings(s.Pending, false)
	s.Pending = nil
}

// Fail prints why a run fails, and returns the exit status.
func (s *Start) Fail(err error, caught os.Signal) int {
	s.Warn()
	f := s.failure(err, caught)
	if e, ok := errors.AsType[*rendezvous.UnfitError](err); ok {
		f.Do("%s; %s", f.Fix, s.whyNoWait())
		s.exclude(&f, e.Notes)
	} else {
		s.exclude(&f, nil)
	}
	s.UI.Fail(f)
	return f.Code
}

// possible refuses settings that exclude each other.
func (s *Start) possible(context.Context) error {
	what := ""
	switch {
	case s.Opt.Restarts > 0:
		what = "--restarts"
	case s.endsHung():
		what = "--on-hang end"
	case s.Job.Spares > 0:
		what = "--spares"
	case s.Job.Min > 0:
		what = "--nnodes " + rendezvous.Count(s.Job.Nodes.V, s.Job.Min)
	}
	if what != "" && s.Job.Tasks.LocalSize > 1 {
		return exit.Errorf(exit.Config,
			"%s with %d tasks on a node (%s): launch must be the only one that starts processes here", what,
			s.Job.Tasks.LocalSize, s.Job.Tasks.From).
			Do("start one task per node, or omit %s", what)
	}
	if s.Job.Role.Set && s.Opt.EndsHung() {
		return exit.Errorf(exit.Config, "%s end with --role: a role that waits for another one looks as a job that hangs",
			s.Opt.From("on-hang")).Do("omit one of both; launch doctor says what hangs")
	}
	if !s.Job.Several() && len(s.Mpirun.Hosts) < 2 && s.Opt.Given["bench"] {
		s.UI.Note("--bench measures between nodes, but this job has one node: nothing is measured")
	}
	if !s.Job.Several() && s.Opt.EndsHung() {
		s.UI.Note("%s end watches jobs of several nodes, and this job has one: it is not watched", s.Opt.From("on-hang"))
	}
	return nil
}

// planAlone plans a world of one node, which is computed. A plain program of one gets a port that is free now.
func (s *Start) planAlone(context.Context) error {
	if j := s.Job; j.Line.Kind == launcher.Program && !j.Single && j.Tasks.Size == 0 {
		held, err := s.pickPort(func(int, int) int { return job.DefaultMasterPort })
		if err != nil {
			return err
		}
		_ = held.Close()
	}
	return s.plan(alone(s.Job), netip.Addr{})
}

// wantedPort returns the port that the job's own store should have.
func wantedPort(j job.Job) int {
	if j.MasterPort.Set {
		return j.MasterPort.V
	}
	return job.DefaultMasterPort
}
