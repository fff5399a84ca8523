package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// count is a number of nodes: low are enough, high are wanted.
type count struct{ low, high int }

// parseNodes reads a number of nodes, or a range of it.
func parseNodes(c claim) (count, error) {
	low, high, err := launcher.ParseNNodes(c.raw)
	if from, to, ok := strings.Cut(c.raw, ":"); ok && err != nil {
		if _, _, swapped := launcher.ParseNNodes(to + ":" + from); swapped == nil {
			return count{}, c.refuse("--nnodes "+to+":"+from, "%s nodes as the least and %s as the most: the least is larger than the most", from, to)
		}
	}
	if err != nil {
		return count{}, c.refuse("--nnodes 4", "the number of nodes is a whole number from 1 on, or a range of them (2:4)")
	}
	return count{low, high}, nil
}

func (r *resolver) nodes() error {
	line := said(r.line.NNodes)
	if !line.set && r.line.Standalone.Set {
		line = claim{"1", setting.Source{Tier: setting.Line, Name: r.line.Standalone.From}, true}
	}
	claims := []claim{explicit(r.in.Flags.NNodes), line, r.sched.nodes, r.ambient("PET_NNODES")}
	if r.line.Kind == launcher.Program && r.tasks.Size == 0 {
		claims = append(claims, r.ambient("WORLD_SIZE"))
	}
	v, notes, err := choose("nodes", equal[count], parseNodes, claims...)
	if err != nil {
		return err
	}
	r.note(notes...)
	if err := r.spare(&v); err != nil {
		return err
	}
	r.job.Nodes = setting.Value[int]{V: v.V.high, From: v.From, Set: v.Set}
	if v.V.low < v.V.high {
		r.job.Min = v.V.low
	}
	if n, err := strconv.Atoi(r.sched.nodes.raw); r.sched.nodes.set && err == nil && n < v.V.high {
		// The job reaches beyond this step: rank, host and id of the step
		// are not those of the job.
		r.sched = scheduler{}
	}
	return r.line.CheckNodes(v.V.high)
}

// severalTyped tells whether a person said that the job has several nodes.
func (r *resolver) severalTyped() bool {
	return slices.ContainsFunc([]claim{explicit(r.in.Flags.NNodes), said(r.line.NNodes)}, func(c claim) bool {
		n, err := parseNodes(c)
		return c.set && err == nil && n.high > 1
	})
}

// spare takes the spare nodes off what the scheduler has given: there the number
// is that of all nodes, elsewhere it is that of the nodes that take part.
func (r *resolver) spare(v *setting.Value[count]) error {
	k := r.in.Flags.Spares
	if r.job.Spares = k; k == 0 || v.From.Tier != setting.Scheduler {
		return nil
	}
	if k >= v.V.low {
		return &exit.Error{Code: exit.Config, What: fmt.Sprintf("%d spare nodes of %d (%s) leave none to start on", k, v.V.low, v.From.Name), Fix: fmt.Sprintf("--spares %d", v.V.low-1)}
	}
	v.V = count{v.V.low - k, v.V.high - k}
	v.From.Name += " less --spares"
	return nil
}

func parseIndex(c claim) (int, error) {
	n, err := strconv.Atoi(c.raw)
	if err != nil || n < 0 {
		return 0, c.refuse("--node-rank 0", "a node's rank is a whole number from 0 on")
	}
	return n, nil
}

func (r *resolver) index() error {
	f := r.in.Flags
	line, pet := said(r.line.NodeRank), r.ambient("PET_NODE_RANK")
	if b := r.backend(); r.line.Kind == launcher.Torchrun && b != "" && b != "static" {
		// torchrun itself ignores it there, so the same line, the same 0, may
		// well stand on every node.
		for _, c := range []claim{line, pet} {
			if c.set {
				r.note(finding.Skipf("%s is not used: torchrun ignores it with --rdzv-backend %s", c, b).Named("job.index").
					Do("--node-rank of launch, before torchrun, is used with every backend"))
			}
		}
		line, pet = claim{}, claim{}
	}
	claims := []claim{explicit(f.NodeRank), line, r.sched.index, pet, r.ambient("NODE_RANK")}
	if r.line.Kind == launcher.Program && r.tasks.Size == 0 {
		claims = append(claims, r.ambient("RANK"))
	}
	v, notes, err := choose("index", equal[int], parseIndex, claims...)
	if err != nil {
		return err
	}
	r.note(notes...)
	r.job.Index = v
	if err := r.fit(); err != nil {
		return err
	}
	switch {
	case !r.job.Several():
		r.job.Index = setting.Value[int]{From: setting.Source{Tier: setting.Derived, Name: "the number of nodes"}, Set: true}
	case v.Set && v.From.Tier == setting.Scheduler:
		r.job.Vouch = Scheduled
	case v.Set:
		r.job.Vouch = Typed
	}
	return nil
}

// backend is torchrun's rendezvous backend as the line or PET_* names it.
func (r *resolver) backend() string {
	if r.line.Backend.Set {
		return r.line.Backend.Value
	}
	return r.env["PET_RDZV_BACKEND"]
}

// fit brings count and index together: nobody said how many, or the index is
// not among them.
func (r *resolver) fit() error {
	nodes, index := r.job.Nodes, r.job.Index
	if !nodes.Set {
		if index.Set && (index.From.Tier == setting.Explicit || index.From.Tier == setting.Scheduler || index.V > 0) {
			return r.noCount(fmt.Sprintf("this is node %d (%s)", index.V, index.From.Name))
		}
		if s := explicit(r.in.Flags.Store); s.set {
			if _, err := parseStore(s); err != nil {
				return err
			}
			return r.noCount(s.String() + " is where several nodes meet")
		}
		if k := r.job.Spares; k > 0 {
			return r.noCount(fmt.Sprintf("--spares %d asks for more nodes than take part", k))
		}
		r.job.Nodes = setting.Value[int]{V: 1, From: setting.Source{Tier: setting.Derived, Name: "the default, as nobody says that there are several"}, Set: true}
		r.job.Single = true
		r.behind()
		return nil
	}
	r.job.Single = !r.job.Several() && r.lineAgrees()
	all := nodes.V + r.job.Spares
	if !index.Set || index.V < all {
		return nil
	}
	if all == 1 && index.From.Tier > nodes.From.Tier {
		r.note(finding.Skipf("%s=%d is not used: %s makes each node a world of its own", index.From.Name, index.V, nodes.From.Name).Named("job.index"))
		return nil
	}
	return &exit.Error{
		Code: exit.Config,
		What: fmt.Sprintf("node rank %d (%s) does not exist among %d nodes (%s): ranks run from 0 to %d", index.V, index.From.Name, all, nodes.From.Name, all-1),
		Fix:  fmt.Sprintf("correct %s, or say --nnodes %d", index.From.Name, index.V+1),
	}
}

// noCount refuses what only makes sense with a number of nodes: a world of one
// would be a surprise.
func (r *resolver) noCount(what string) error {
	e := &exit.Error{Code: exit.Config, What: what + ", but nobody says how many nodes there are", Fix: r.with("--nnodes", "4")}
	if r.job.Index.From.Name == completionIndex {
		e.What += "; an Indexed Job does not tell its completions to its pods"
		e.Fix = `in the container's env: {name: LAUNCH_NNODES, value: "4"}  # the Job's completions`
	}
	return e
}

// lineAgrees tells whether torchrun by itself would start one node too.
func (r *resolver) lineAgrees() bool {
	asked := said(r.line.NNodes)
	if !asked.set {
		asked = r.petFor("PET_NNODES")
	}
	if !asked.set {
		return true
	}
	_, high, err := launcher.ParseNNodes(asked.raw)
	return err == nil && high == 1
}

// program checks RANK and WORLD_SIZE around a plain program: they are its
// identity, and launch is about to set them to something else.
func (r *resolver) program() error {
	if r.line.Kind != launcher.Program || r.job.Tasks.Size > 0 {
		return nil
	}
	check := func(name string, ours setting.Value[int]) error {
		c := r.ambient(name)
		if !c.set || !ours.Set || ours.From.Name == name {
			return nil
		}
		if n, err := strconv.Atoi(strings.TrimSpace(c.raw)); err == nil && n == ours.V {
			return nil
		}
		return &exit.Error{
			Code: exit.Config,
			What: fmt.Sprintf("%s contradicts %s=%d: launch starts one process per node and sets RANK and WORLD_SIZE itself", c, ours.From.Name, ours.V),
			Fix:  "unset RANK WORLD_SIZE; " + r.paste(),
		}
	}
	if err := check("WORLD_SIZE", r.job.Nodes); err != nil {
		return err
	}
	if !r.job.Several() {
		return nil
	}
	return check("RANK", r.job.Index)
}
