package start

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/internal/setting"
	"launch/internal/taskgroup"
)

const (
	// followSlack is what a node's first task may take beyond --join-timeout: checks, release, late
	// tasks.
	followSlack = time.Minute
	// taskBudget bounds how long the first task of a node waits for the others, which started with it and
	// read the same program.
	taskBudget = 20 * time.Second
	// failBudget is the same for a failure, which the others may find on their own.
	failBudget = 2 * time.Second
)

// tasks are the tasks of this node, as its first one sees them; empty: this is the only one.
type tasks struct {
	first *taskgroup.First
	world launcher.World   // as handed on
	held  *masterport.Held // one node: the port of its tasks' store
}

// handed is what the first task of a node hands on to the others.
type handed struct {
	World   launcher.World `json:"world"`
	Plan    envgen.Plan    `json:"plan"`
	Failure *exit.Error    `json:"failure,omitempty"` // there is no start
}

// leadTasks makes this task the first of this node, if there are several.
func (s *Start) leadTasks(context.Context) (err error) {
	t := s.Job.Tasks
	if t.LocalSize < 2 {
		return nil
	}
	if s.tasks.first, err = taskgroup.Listen(groupOf(t), t.LocalSize-1); err != nil || s.Job.Several() {
		return err
	}
	return s.holdPort()
}

// failTasks reports to the other tasks of this node that there is no start. This one has printed why:
// srun or mpirun may kill it when another ends.
func (s *Start) failTasks(f exit.Error) {
	if s.tasks.first != nil {
		s.tasks.first.Gather(context.Background(), failBudget, func([]int) {})
		s.hand(handed{Failure: &f})
		s.tasks.first.Close()
	}
}

// hand gives the other tasks of this node what they wait for, and returns those that did not get it.
func (s *Start) hand(h handed) (lost []int) {
	b, err := json.Marshal(h)
	if err != nil {
		panic("launch: " + err.Error()) // own types: cannot fail
	}
	return s.tasks.first.Hand(b)
}

// gatherTasks waits for the other tasks of this node, before it has a place in the job: a node with a
// task too few would hang with all the others.
func (s *Start) gatherTasks(ctx context.Context) error {
	if s.tasks.first == nil {
		return nil
	}
	missing := s.tasks.first.Gather(ctx, taskBudget, func(missing []int) {
		s.UI.Note("waiting for %s of this node, up to %s", taskNames(missing), taskBudget)
	})
	if len(missing) == 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return exit.Errorf(exit.Missing, "this node has %d tasks (%s), and within %s no launch started in %s",
		s.Job.Tasks.LocalSize, s.Job.Tasks.From, taskBudget, taskNames(missing)).
		Do("start each task of the node with the same line, and look at the output of the missing ones")
}

// releaseTasks lets the other tasks of this node start with this one. From then on no process holds the
// port of their store until the command listens, so it is not the port that every job tries first.
func (s *Start) releaseTasks() error {
	if s.tasks.first == nil {
		return nil
	}
	if lost := s.hand(handed{World: s.tasks.world, Plan: s.Plan}); len(lost) > 0 {
		return exit.Errorf(exit.Unreachable, "%s of this node ended before the start", taskNames(lost)).
			Do("look at the output of that task")
	}
	if s.tasks.held != nil {
		s.tasks.held.Close()
	}
	return nil
}

// taskNames lists tasks by their local number.
func taskNames(local []int) string {
	return finding.Noun(len(local), "task") + " number " + finding.Join(local, strconv.Itoa)
}

// holdPort picks the port of the store of a job of one node, which has no companion. It begins at a
// port of this job's own, so that two jobs that start at the same time take different ones.
func (s *Start) holdPort() (err error) {
	h := fnv.New32a()
	h.Write([]byte(groupOf(s.Job.Tasks)))
	s.tasks.held, err = s.pickPort(func(lo, hi int) int { return lo + int(h.Sum32()%uint32(hi-lo+1)) })
	return err
}

// pickPort holds a port for the job's own store, the one that the user wants or else want, or a free one.
func (s *Start) pickPort(want func(lo, hi int) int) (*masterport.Held, error) {
	lo, hi, err := s.Opt.ports()
	if err != nil {
		return nil, err
	}
	j, first := &s.Job, want(lo, hi)
	if j.MasterPort.Set {
		first = j.MasterPort.V
		if j.MasterPort.From.Tier == setting.Explicit {
			lo, hi = first, first
		}
	}
	held, err := masterport.Pick(first, 0, lo, hi)
	if err != nil {
		return nil, err
	}
	if p := held.Port; !j.MasterPort.Set || p != j.MasterPort.V {
		j.MasterPort = setting.Value[int]{V: p, From: setting.Source{Tier: setting.Derived, Name: "a free port"}, Set: true}
	}
	return held, nil
}

// follow waits for the first task of this node and takes over its plan.
func (s *Start) follow(ctx context.Context) error {
	t := s.Job.Tasks
	if _, err := lookPath(s.Job.Line.Argv[0]); err != nil {
		return s.alike(ctx, notExecutable(s.Job.Line.Argv[0], err))
	}
	b, err := taskgroup.Await(ctx, groupOf(t), t.Local, s.Opt.JoinTimeout+followSlack, func() {
		s.UI.Note("task %d (of 0 to %d) waits for the first task of this node, until %s", t.Rank, t.Size-1, time.Now().
			Add(s.Opt.JoinTimeout+followSlack).Format("15:04:05"))
	})
	if err != nil {
		return err
	}
	var h handed
	if err := json.Unmarshal(b, &h); err != nil {
		return fmt.Errorf("read the plan of this node's first task: %w", err)
	}
	if h.Failure != nil { // the first task has printed the advice
		return exit.Errorf(h.Failure.Code, "the first task of this node did not start: %s", h.Failure.What)
	}
	h.World.Task = task(t)
	return s.commandFor(h.World, without(h.Plan, s.Job.Decided))
}

// without returns the plan without the variables that the task's own environment sets.
func without(p envgen.Plan, decided []setting.Decided) envgen.Plan {
	return slices.DeleteFunc(p, func(v setting.Var) bool {
		return slices.ContainsFunc(decided, func(d setting.Decided) bool { return d.Name == v.Name })
	})
}

// alike returns an error that each task of a node finds on its own. The first task prints it with its
// advice.
func (s *Start) alike(ctx context.Context, err error) error {
	t := s.Job.Tasks
	switch {
	case t.LocalSize < 2 || s.Opt.DryRun:
		return err
	case t.Local == 0:
		s.tasks.first, _ = taskgroup.Listen(groupOf(t), t.LocalSize-1)
		return err
	}
	_, _ = taskgroup.Await(ctx, groupOf(t), t.Local, failBudget, func() {})
	s.Pending = nil
	f := Failure(err, nil)
	return exit.Errorf(f.Code, "%s", f.What)
}

// task returns this task as the launcher takes it.
func task(t job.Tasks) launcher.Task {
	return launcher.Task{Rank: t.Rank, Size: t.Size, Local: t.Local, LocalSize: t.LocalSize}
}

// groupOf returns what only the tasks of this node have in common. MPICH sets no such variable, but its
// daemon starts each task as a process group of its own.
func groupOf(t job.Tasks) string {
	if t.Group != "" {
		return t.Group
	}
	leader, err := process.Read(unix.Getpgrp())
	if err != nil {
		return t.From
	}
	return t.From + " of process " + strconv.Itoa(leader.Parent)
}
