package job

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// count is a number of nodes: low suffices, high is wanted.
type count struct{ low, high int }

// parseNodes parses a number of nodes, or a range.
func parseNodes(c claim) (count, error) {
	low, high, err := launcher.ParseNNodes(c.V)
	if from, to, ok := strings.Cut(c.V, ":"); ok && err != nil {
		if _, _, swapped := launcher.ParseNNodes(to + ":" + from); swapped == nil {
			return count{}, c.refuse("--nnodes "+to+":"+from, "the minimum %s is larger than the maximum %s", from, to)
		}
	}
	if err != nil {
		return count{}, c.refuse("--nnodes 4", "the number of nodes is an integer from 1, or a range (2:4)")
	}
	if high > maxNodes {
		return count{}, c.refuse("--nnodes 4", "a job has at most %d nodes", maxNodes)
	}
	return count{low, high}, nil
}

// maxNodes is more than any job has: the other nodes read no larger number (protocol.MaxNodes).
const maxNodes = 1 << 20

func (r *resolver) nodes() error {
	r.dropSingle()
	line := said(r.line.NNodes)
	if !line.Set && r.line.Standalone.Set {
		line = claim{"1", setting.Source{Tier: setting.Line, Name: r.line.Standalone.From}, true}
	}
	claims := []claim{claim(r.in.Flags.NNodes), line, r.sched.nodes, r.ambient("PET_NNODES")}
	if r.line.Kind == launcher.Program && r.tasks.Size == 0 {
		claims = append(claims, r.ambient("WORLD_SIZE"))
	}
	v, err := choose(r, "nodes", equal[count], parseNodes, claims...)
	if err != nil {
		return err
	}
	if err := r.spare(&v); err != nil {
		return err
	}
	r.job.Nodes = setting.Value[int]{V: v.V.high, From: v.From, Set: v.Set}
	if v.V.low < v.V.high {
		r.job.Min = v.V.low
	}
	if n, err := strconv.Atoi(r.sched.nodes.V); r.sched.nodes.Set && err == nil && n < v.V.high {
		// The job is larger than this step, whose rank, host and id are not the job's.
		r.sched = scheduler{}
	}
	for _, check := range []func(int) error{r.total, r.fits, r.deepspeedHosts} {
		if err := check(v.V.high); err != nil {
			return err
		}
	}
	return nil
}

// spare subtracts the standby nodes from the scheduler's number of nodes, which
// includes them. Other sources count only the nodes of the world.
func (r *resolver) spare(v *setting.Value[count]) error {
	k := r.in.Flags.Spares
	if r.job.Spares = k; k == 0 || v.From.Tier != setting.Scheduler {
		return nil
	}
	if k >= v.V.low {
		return contradiction(fmt.Sprintf("--spares %d", v.V.low-1),
			"%d standby nodes of %d (%s) leave no node to start on", k, v.V.low, v.From.Name)
	}
	v.V = count{v.V.low - k, v.V.high - k}
	v.From.Name += " minus --spares"
	return nil
}

func parseIndex(c claim) (int, error) {
	n, err := strconv.Atoi(c.V)
	if err != nil || n < 0 {
		return 0, c.refuse("--node-rank 0", "a node rank is an integer from 0")
	}
	return n, nil
}

func (r *resolver) index() error {
	f := r.in.Flags
	line, pet := said(r.line.NodeRank), r.ambient("PET_NODE_RANK")
	if r.job.Pod == nil && pet.Set && r.otherJob("PET_NNODES") {
		r.note(finding.Warnf("%s is not used: PET_NNODES=%s is of another job", pet, r.env["PET_NNODES"]).Named("job.index").
			Do("unset PET_NNODES PET_NODE_RANK"))
		pet = claim{}
	}
	if b := r.backend(); r.line.Kind == launcher.Torchrun && b != "" && b != "static" {
		// torchrun ignores it there, so every node may have the same line with the same 0.
		for _, c := range []claim{line, pet} {
			if c.Set {
				r.note(finding.Skipf("%s is not used: torchrun ignores it with --rdzv-backend %s", c, b).
					Named("job.index").Do("use launch's own --node-rank, before torchrun: it works with every backend"))
			}
		}
		line, pet = claim{}, claim{}
	}
	claims := []claim{claim(f.NodeRank), line, r.sched.index, pet, r.ambient("NODE_RANK")}
	if r.line.Kind == launcher.Program && r.tasks.Size == 0 {
		claims = append(claims, r.ambient("RANK"))
	}
	v, err := choose(r, "index", equal[int], parseIndex, claims...)
	if err != nil {
		return err
	}
	r.job.Index = v
	if err := r.fit(); err != nil {
		return err
	}
	v = r.job.Index
	switch {
	case !r.job.Several():
		r.job.Index = derived(0, "the number of nodes")
	case v.Set && v.From.Tier == setting.Scheduler && !r.strayIndex():
		r.job.Vouch = Scheduled
	case v.Set:
		r.job.Vouch = Typed
	}
	return nil
}

// otherJob reports whether a variable has a number of nodes that is not this job's.
func (r *resolver) otherJob(name string) bool {
	low, high, err := launcher.ParseNNodes(r.env[name])
	n := r.job.Nodes
	return err == nil && n.Set && (n.V < low || n.V > high)
}

// backend returns torchrun's rendezvous backend from the line or PET_*.
func (r *resolver) backend() string {
	if r.line.FT {
		return "c10d"
	}
	if r.line.Backend.Set {
		return r.line.Backend.Value
	}
	return r.env["PET_RDZV_BACKEND"]
}

// rdzvConf returns the claim of a key of torchrun's rdzv_conf, from the line or PET_*.
func (r *resolver) rdzvConf(key string) claim {
	c := said(r.line.RdzvConf)
	if !r.line.RdzvConf.Set {
		c = r.petFor("PET_RDZV_CONF")
	}
	text := c.V
	c.V, c.From.Name = "", c.From.Name+" "+key
	for kv := range strings.SplitSeq(text, ",") { // the last one counts
		if k, v, _ := strings.Cut(kv, "="); strings.TrimSpace(k) == key {
			c.V = strings.TrimSpace(v)
		}
	}
	c.Set = c.V != ""
	return c
}

// wait resolves how long torchrun would wait for all nodes: static and etcd have another key than the
// backends of torch's dynamic rendezvous.
func (r *resolver) wait() (err error) {
	key := "join_timeout"
	if b := r.backend(); b == "" || b == "static" || b == "etcd" {
		key = "timeout"
	}
	r.job.Wait, err = choose(r, "wait", equal[int], parseSeconds, r.rdzvConf(key))
	return err
}

func parseSeconds(c claim) (int, error) {
	n, err := strconv.Atoi(c.V)
	if err != nil || n < 1 {
		return 0, c.refuse("--rdzv-conf "+c.From.Name[strings.LastIndex(c.From.Name, " ")+1:]+"=1800",
			"it is a number of seconds, an integer from 1")
	}
	return n, nil
}

// fit checks the index against the number of nodes, which is 1 where no source has
// it and nothing suggests several.
func (r *resolver) fit() error {
	nodes, index := r.job.Nodes, r.job.Index
	if !nodes.Set {
		if index.Set && (index.From.Tier == setting.Explicit || index.From.Tier == setting.Scheduler || index.V > 0) {
			return r.noCount(fmt.Sprintf("this is node %d (%s)", index.V, index.From.Name))
		}
		if s := claim(r.in.Flags.Store); s.Set {
			if _, err := parseStore(s); err != nil {
				return err
			}
			return r.noCount(s.String() + " is a store address for several nodes")
		}
		if k := r.job.Spares; k > 0 {
			return r.noCount(fmt.Sprintf("--spares %d allows standby nodes", k))
		}
		if err := r.standsAlone(); err != nil {
			return err
		}
		r.job.Nodes = derived(1, "the default")
		r.job.Single = true
		r.trailing()
		return nil
	}
	asked := r.line.Kind == launcher.Program && nodes.From.Tier == setting.Explicit // who types 1 wants a world of one
	r.job.Single = !r.job.Several() && r.lineAgrees() && !asked
	all := nodes.V + r.job.Spares
	if !index.Set || index.V < all {
		return nil
	}
	if all == 1 && index.From.Tier > nodes.From.Tier {
		r.note(finding.Skipf("%s=%d is not used: with %s each node is a world of its own",
			index.From.Name, index.V, nodes.From.Name).Named("job.index"))
		return nil
	}
	if index.From.Tier == setting.Ambient && nodes.From.Tier < setting.Ambient {
		r.note(finding.Warnf("%s=%d is not used: %d nodes (%s) have the node ranks 0 to %d", index.From.Name, index.V, all,
			nodes.From.Name, all-1).Named("job.index").Do("unset %s, which may be of an old job", index.From.Name))
		r.job.Index = setting.Value[int]{}
		return nil
	}
	do := fmt.Sprintf("correct %s, or use --nnodes %d", index.From.Name, index.V+1)
	if index.From.Name == completionIndex { // the controller sets it
		do = fmt.Sprintf("set %s to the completions of the Job: this pod's index is %d, so it has more than %d",
			cmp.Or(nodes.From.Name, "--nnodes"), index.V, all)
	}
	return contradiction(do,
		"node rank %d (%s) is out of range: %d nodes (%s) have the node ranks 0 to %d",
		index.V, index.From.Name, all, nodes.From.Name, all-1)
}

// noCount refuses a setting for several nodes without the number of nodes: a world
// of one would be a surprise.
func (r *resolver) noCount(what string) error {
	if _, high, err := launcher.ParseNNodes(r.typedNodes()); err == nil && high > 1 && r.line.CheckNodes(high) != nil {
		return r.fits(high)
	}
	e := contradiction(r.with("--nnodes", r.typedNodes()), "%s, but the number of nodes is not set", what)
	if argv, ok := r.respelled("--nnodes"); ok {
		e.Fix = r.pasteOf(argv)
	}
	if r.job.Index.From.Name == completionIndex {
		e.What += "; the pods of an Indexed Job do not see its completions"
		e.Fix = `in the container's env: {name: LAUNCH_NNODES, value: "4"}  # the Job's completions`
	}
	return e
}

// lineAgrees reports whether torchrun alone would start one node too.
func (r *resolver) lineAgrees() bool {
	asked := said(r.line.NNodes)
	if !asked.Set {
		asked = r.petFor("PET_NNODES")
	}
	if !asked.Set {
		return true
	}
	_, high, err := launcher.ParseNNodes(asked.V)
	return err == nil && high == 1
}

// dropSingle drops the RANK and WORLD_SIZE of a single process, which a shell keeps of an earlier job, where
// --nnodes asks for several nodes: launch sets both itself. A controller's own are no leftover.
func (r *resolver) dropSingle() {
	asked := claim(r.in.Flags.NNodes)
	n, err := parseNodes(asked)
	if r.line.Kind != launcher.Program || r.tasks.Size > 0 || r.sched.nodes.Set || !asked.Set || err != nil ||
		n.low < 2 || r.env["WORLD_SIZE"] != "1" || r.env["RANK"] != "" && r.env["RANK"] != "0" {
		return
	}
	r.note(finding.Skipf("RANK and WORLD_SIZE=1 of the environment are of a single process: launch sets its own").
		Named("job.rank"))
	delete(r.env, "RANK")
	delete(r.env, "WORLD_SIZE")
}

// program refuses a RANK or WORLD_SIZE in the environment of a plain program that
// differs from the value that launch would set.
func (r *resolver) program() error {
	if r.line.Kind != launcher.Program || r.job.Tasks.Size > 0 {
		return nil
	}
	check := func(name string, ours setting.Value[int]) error {
		c := r.ambient(name)
		if !c.Set || !ours.Set || ours.From.Name == name {
			return nil
		}
		if n, err := strconv.Atoi(strings.TrimSpace(c.V)); err == nil && n == ours.V {
			return nil
		}
		return contradiction("unset RANK WORLD_SIZE; "+r.paste(),
			"%s contradicts %s=%d: launch starts one process per node and sets RANK and WORLD_SIZE itself",
			c, ours.From.Name, ours.V)
	}
	if err := check("WORLD_SIZE", r.job.Nodes); err != nil {
		return err
	}
	if !r.job.Several() {
		return nil
	}
	return check("RANK", r.job.Index)
}
