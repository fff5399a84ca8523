package start

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/launcher"
	"launch/preflight"
)

// handOver becomes the command, as do the other tasks of this node. It returns only an error.
func (s *Start) handOver(ctx context.Context) error {
	s.announce()
	if err := s.releaseTasks(); err != nil {
		return err
	}
	return s.execute(ctx)
}

// announce prints the plan, on node rank 0 of several, and the record.
func (s *Start) announce() {
	if s.Job.Several() && s.World.Rank == 0 {
		s.UI.Plan(s.Plan, s.Command.Notes)
	}
	s.UI.Emit(false, "start", s.Record)
}

// execute becomes the command. It returns only an error.
func (s *Start) execute(context.Context) error {
	path, env, err := s.prepared()
	if err != nil {
		return err
	}
	s.stop() // from here on a signal is the command's; an earlier one ends this start
	if s.caught() != nil {
		return context.Canceled
	}
	return notExecutable(path, handoff.Exec(path, s.Command.Argv, env))
}

// commandFor fills in the plan and the command of this node in a world.
func (s *Start) commandFor(w launcher.World, plan envgen.Plan) (err error) {
	s.Plan = plan
	s.Command, err = s.Job.Line.Command(w, plan, handoff.Environ())
	s.Command.Set = append(s.Command.Set, s.roleVars()...)
	return err
}

// prepared returns the path and the environment that the command is executed with.
func (s *Start) prepared() (path string, env []string, err error) {
	var set, unset []string
	mpirun := s.Job.Line.Kind == launcher.Mpirun
	for _, v := range slices.Concat(s.Command.Set, s.Plan) {
		if !v.Kept && (!mpirun || envgen.ReadByMpirun(v.Name)) { // -x forwards the rest
			set = append(set, v.Name+"="+v.Value)
		}
	}
	for _, v := range s.Command.Unset {
		unset = append(unset, v.Name)
	}
	if path, err = lookPath(s.Command.Argv[0]); err != nil {
		return "", nil, notExecutable(s.Command.Argv[0], err)
	}
	return path, handoff.Merge(handoff.Environ(), set, unset), nil
}

// lookPath looks for a program as execvp(3) does; os.ErrDeadlineExceeded: a folder of PATH does not answer.
func lookPath(name string) (string, error) {
	return answered(func() (string, error) { return handoff.LookPath(name, handoff.Environ()) })
}

// notExecutable returns status 127 or 126, as a shell does.
func notExecutable(name string, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return exit.Errorf(exit.Unfit, "looking for %s in PATH: %v", name, err).Do(preflight.FixSilent)
	}
	if errors.Is(err, handoff.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.NotFound, "%v", err).
			Do("is it spelled right, and in PATH on this node? (the environment of a batch job is not that of your shell)")
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return exit.Errorf(exit.NotExec, "%q is a directory", name).Do("name the program in it: ls %s", strconv.Quote(name))
	}
	return exit.Errorf(exit.NotExec, "%v", err).
		Do("check its permissions and its first line: ls -l %s", strconv.Quote(name))
}

// planUnknown plans for a dry run, with what only the rendezvous knows left open.
func (s *Start) planUnknown(context.Context) error {
	j := s.Job
	w := alone(j)
	if j.Several() {
		w = launcher.World{Job: j.ID.V, RunID: launcher.Unknown, Nodes: launcher.Known(j.Nodes.V),
			MasterAddr: launcher.Unknown, Addr: launcher.Unknown, KeepRdzv: s.Opt.KeepRdzv, Task: task(j.Tasks)}
		if j.Index.Set && j.Min+j.Spares == 0 {
			w.NodeRank = launcher.Known(j.Index.V)
		}
		if j.Min > 0 {
			w.Nodes = launcher.Number{}
		}
	} else if j.Tasks.Size > 0 && !j.MasterPort.Set {
		w.MasterPort = launcher.Number{}
	}
	return s.plan(w, netip.Addr{})
}

// print prints the record of a start that does not happen, and ends as it would.
func (s *Start) print(context.Context) error {
	s.UI.Emit(true, "start", s.Record)
	s.UI.Dry(s.Job, s.Local, s.Plan, s.Command)
	s.sayLater()
	err := s.unfit()
	if e, ok := errors.AsType[*exit.Error](err); ok {
		e.What = "a start would end here: " + e.What
	}
	return err
}
