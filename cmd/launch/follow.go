package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/record"
	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/internal/setting"
	"launch/internal/taskgroup"
)

const (
	// followSlack is what the first of a node may take beyond --join-timeout:
	// its checks, the word to start, and other tasks that come late.
	followSlack = time.Minute
	// handBudget bounds how long the first task of a node waits for the others
	// before it starts without them: they were started together.
	handBudget = 10 * time.Second
	// failBudget is the same for bad news, which they may be about to find out
	// by themselves.
	failBudget = 2 * time.Second
)

// crew is the tasks of this node, as its first sees them. The zero crew is a
// node that launch was started on once.
type crew struct {
	first *taskgroup.First
	world launcher.World   // as handed on
	held  *masterport.Held // one node: the port where its tasks meet
}

// handed is what the first task of a node hands on to the others.
type handed struct {
	World   launcher.World `json:"world"`
	Plan    envgen.Plan    `json:"plan"`
	Failure *exit.Error    `json:"failure,omitempty"` // there is no start
}

// task starts one of several tasks of this node: the first starts the node and
// tells the others what came of it.
func (a *app) task(ctx context.Context, s *record.Start, began time.Time) error {
	if s.Job.Tasks.Local > 0 {
		return a.follow(ctx, s)
	}
	var err error
	if a.crew.first, err = taskgroup.Listen(groupOf(s.Job.Tasks), s.Job.Tasks.LocalSize-1); err != nil {
		return err
	}
	if !s.Job.Several() {
		if err := a.holdPort(&s.Job); err != nil {
			return err
		}
	}
	return a.node(ctx, s, began)
}

// handFailure tells the other tasks of this node that there is no start. This
// one has said why by now: srun or mpirun may kill it when another ends.
func (a *app) handFailure(f exit.Error) {
	if a.crew.first != nil {
		a.hand(context.Background(), handed{Failure: &f}, failBudget)
		a.crew.first.Close()
	}
}

// hand gives the other tasks of this node what they wait for, and returns those
// that did not come for it.
func (a *app) hand(ctx context.Context, h handed, budget time.Duration) (missing []int) {
	b, err := json.Marshal(h)
	if err != nil {
		panic("launch: " + err.Error()) // own types: cannot fail
	}
	return a.crew.first.Hand(ctx, b, budget)
}

// handOver lets the other tasks of this node start with this one. From then on
// the port where they meet is task 0's: it would be lost in the command, which
// inherits nothing of launch, and nothing holds it until the command listens.
// That is why it is not the port that every job tries first.
func (a *app) handOver(ctx context.Context, s *record.Start) {
	if a.crew.first == nil {
		return
	}
	if missing := a.hand(ctx, handed{World: a.crew.world, Plan: s.Plan}, handBudget); len(missing) > 0 && ctx.Err() == nil {
		a.ui.Note("starting without %s of this node: not here after %s", taskNames(missing), handBudget)
	}
	if a.crew.held != nil {
		a.crew.held.Close()
	}
}

func taskNames(local []int) string {
	var out []string
	for _, n := range local {
		out = append(out, strconv.Itoa(n))
	}
	if len(out) == 1 {
		return "task number " + out[0]
	}
	return "tasks number " + strings.Join(out, ", ")
}

// holdPort picks the port where the tasks of a job of one node meet; there is
// no companion to do it. It begins at one that is this job's own, so that two
// jobs that start at the same time do not take the same.
func (a *app) holdPort(j *job.Job) error {
	lo, hi, err := a.o.ports()
	if err != nil {
		return err
	}
	h := fnv.New32a()
	h.Write([]byte(groupOf(j.Tasks)))
	want := lo + int(h.Sum32()%uint32(hi-lo+1))
	if j.MasterPort.Set {
		want = j.MasterPort.V
		if j.MasterPort.From.Tier == setting.Explicit {
			lo, hi = want, want
		}
	}
	if a.crew.held, err = masterport.Pick(want, 0, lo, hi); err != nil {
		return err
	}
	if p := a.crew.held.Port; !j.MasterPort.Set || p != j.MasterPort.V {
		j.MasterPort = setting.Value[int]{V: p, From: setting.Source{Tier: setting.Derived, Name: "a free port"}, Set: true}
	}
	return nil
}

// follow waits for the first task of this node and starts as it did.
func (a *app) follow(ctx context.Context, s *record.Start) error {
	t := s.Job.Tasks
	if _, err := lookPath(s.Job.Line.Argv[0]); err != nil {
		return a.alike(ctx, t, notExecutable(s.Job.Line.Argv[0], err))
	}
	b, err := taskgroup.Await(ctx, groupOf(t), t.Local, a.o.joinTimeout+followSlack, func() {
		a.ui.Note("task %d of %d waits for the first one of this node, until %s", t.Rank, t.Size, time.Now().Add(a.o.joinTimeout).Format("15:04:05"))
	})
	if err != nil {
		return err
	}
	var h handed
	if err := json.Unmarshal(b, &h); err != nil {
		return fmt.Errorf("read what the first task of this node says: %w", err)
	}
	if h.Failure != nil { // it has given the advice
		return &exit.Error{Code: h.Failure.Code, What: "the first task of this node did not start: " + h.Failure.What}
	}
	h.World.Task = launcherTask(t)
	s.Plan = keeping(h.Plan, s.Job.Decided)
	if s.Command, err = s.Job.Line.Command(h.World, s.Plan, handoff.Environ()); err != nil {
		return err
	}
	return a.execute(s)
}

// keeping is the plan of a task whose own environment may differ: what is set
// there wins.
func keeping(p envgen.Plan, decided []setting.Decided) envgen.Plan {
	return slices.DeleteFunc(p, func(v setting.Var) bool {
		return slices.ContainsFunc(decided, func(d setting.Decided) bool { return d.Name == v.Name })
	})
}

// alike is an error that the tasks of a node find out each by itself: the first
// says it all, and the others, once it has, what it is.
func (a *app) alike(ctx context.Context, t job.Tasks, err error) error {
	switch {
	case t.LocalSize < 2 || a.o.dryRun:
		return err
	case t.Local == 0:
		a.crew.first, _ = taskgroup.Listen(groupOf(t), t.LocalSize-1)
		return err
	}
	_, _ = taskgroup.Await(ctx, groupOf(t), t.Local, failBudget, func() {})
	a.pending = nil
	f := failure(err, nil)
	return &exit.Error{Code: f.Code, What: f.What}
}

func launcherTask(t job.Tasks) launcher.Task {
	return launcher.Task{Rank: t.Rank, Size: t.Size, Local: t.Local, LocalSize: t.LocalSize}
}

// groupOf is what the tasks of this node have in common, and no others. MPICH
// tells them nothing of the kind; its daemon on this node, though, starts each
// task as a process group of its own.
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
