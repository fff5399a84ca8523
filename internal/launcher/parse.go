package launcher

import (
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
	"launch/internal/setting"
)

// Parse parses a command line: the prefixes, the launcher after them, and the
// options about the job. as is the value of --as: "" finds the launcher, "torchrun"
// is for a script that calls torchrun, "program" makes the line a plain program.
// Parse does not read the environment (PET_*). The error is an *exit.Error.
func Parse(argv []string, as string) (Line, error) {
	l := Line{Argv: argv, Kind: Program}
	if len(argv) == 0 {
		return l, &exit.Error{Code: exit.Usage, What: "no command to run", Fix: "launch [flags] torchrun … train.py"}
	}
	if as != "" && as != string(Torchrun) && as != string(Program) {
		return l, exit.Errorf(exit.Usage, "--as %q: launch knows torchrun and program", as)
	}
	module, notes := l.locate()
	l.Rest = l.At
	if l.Env.Clear {
		l.Notes = append(l.Notes, l.Env.By+" starts the command with another environment: it does not get the "+
			"variables that launch sets")
	}
	switch {
	case as == string(Program):
		l.Kind, l.Starter, l.At, l.AsTyped = Program, "", l.Program, true
		l.Rest = l.At
	case l.Kind == Torchrun:
		return l, l.parseTorchrun(module)
	case l.Kind.Torch():
		return l, l.parseStarter()
	case as == string(Torchrun):
		l.wrapped()
		l.Kind, l.Inside, l.Hint = Torchrun, true, ""
	case l.Kind == Mpirun:
		l.parseMpirun()
	case l.Starter == "" && l.wrapped():
		l.Hint = ""
	default:
		l.Notes = append(l.Notes, notes...)
	}
	return l, nil
}

// Environ returns env as the launcher will see it, after the line's env(1)
// prefixes: "NAME=VALUE" texts, of which the last of a name counts.
func (l Line) Environ(env []string) []string {
	var out []string
	if !l.Env.Clear {
		out = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(l.Env.Unset, name)
		})
	}
	for _, o := range l.Env.Set {
		out = append(out, o.Name+"="+o.Value)
	}
	return out
}

// Command returns what the line becomes in a world. Of the plan mpirun forwards the constants of the
// job; env is what launch inherited, as os.Environ returns it. The error is an *exit.Error.
func (l Line) Command(w World, plan []setting.Var, env []string) (Exec, error) {
	switch l.Kind {
	case Torchrun:
		return l.torchrun(w, env)
	case Mpirun:
		return l.mpirun(w, plan, env), nil
	case Accelerate, Lightning, DeepSpeed, VLLM, SGLang, Ray:
		return l.place(w, env)
	default:
		return l.program(w, plan, env), l.CheckNodes(w.Nodes.V)
	}
}

// lookup returns the value of name in a list of NAME=VALUE texts; the last counts,
// as for shells and for programs that build a map.
func lookup(env []string, name string) (string, bool) {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// said returns the Ask of an option of the line.
func said(from, value string) Ask { return Ask{Value: value, From: from, Set: true} }

// program sets a plain program's identity in the variables that torch's env://
// initialization reads: one process per node, or one per task.
func (l Line) program(w World, plan []setting.Var, env []string) Exec {
	e := Exec{Argv: slices.Clone(l.Argv)}
	if w.Single {
		return e
	}
	if b, ok := l.NIXLBench(); ok && w.Several {
		b.gather(&e, w)
	}
	const one, task = "one process per node", "as srun or mpirun numbers its tasks"
	t, rank, size := w.Task, Known(w.Task.Rank), Known(w.Task.Size)
	whyRank, whySize, whyLocal := task, "the number of tasks", task
	if t.Size == 0 {
		t.LocalSize, rank, size = 1, w.NodeRank, w.Nodes
		whyRank, whySize, whyLocal = "this node's rank: "+one, "the number of nodes: "+one, one
	}
	e.Set = []setting.Var{
		identity("RANK", rank.String(), setting.Node, whyRank),
		identity("WORLD_SIZE", size.String(), setting.Job, whySize),
		identity("LOCAL_RANK", strconv.Itoa(t.Local), setting.Node, whyLocal),
		identity("LOCAL_WORLD_SIZE", strconv.Itoa(t.LocalSize), setting.Node, whyLocal),
		identity("NODE_RANK", w.NodeRank.String(), setting.Node, "this node's rank"),
		identity("NNODES", w.Nodes.String(), setting.Job, "the number of nodes, for a program that starts torchrun itself"),
		identity("MASTER_ADDR", w.MasterAddr, setting.Job,
			"the address of node rank 0, so that no name has to resolve"),
		identity("MASTER_PORT", w.MasterPort.String(), setting.Job, "reserved for this job on node rank 0"),
	}
	// A process of torchrun has it: its store is torchrun's, so that init_process_group on rank 0 hosts no store
	// (torch/distributed/rendezvous.py, _torchelastic_use_agent_store).
	const agent = "TORCHELASTIC_USE_AGENT_STORE"
	if v, ok := lookup(env, agent); ok {
		e.Unset = append(e.Unset, identity(agent, v, setting.Node, "no torchrun hosts a store for this program: rank 0 does"))
	}
	if l.Spawns != "" && t.Size == 0 {
		e.Set = e.Set[4:]
		e.Unset = append(e.Unset, l.notSpawned(env)...)
	}
	if l.JAX && t.Size == 0 {
		e.Set = append(e.Set, jaxVars(w, plan, env)...)
	}
	return e
}

// jaxVars returns the variables by which jax.distributed.initialize() finds its processes: of all that a
// program can set, jax reads only those of Slurm (jax/_src/clusters/slurm_cluster.py), here with the place of
// this node. jax then takes one GPU, unless JAX_LOCAL_DEVICE_IDS says which.
func jaxVars(w World, plan []setting.Var, env []string) []setting.Var {
	for _, name := range []string{"SLURM_JOB_ID", "OMPI_MCA_orte_hnp_uri"} { // jax finds its processes alone
		if _, ok := lookup(env, name); ok {
			return nil
		}
	}
	const devices = "JAX_LOCAL_DEVICE_IDS"
	if _, ok := lookup(env, devices); !ok && !slices.ContainsFunc(plan,
		func(v setting.Var) bool { return v.Name == devices }) {
		return nil
	}
	const why = "jax.distributed.initialize() reads no other variables than Slurm's for this"
	return []setting.Var{
		identity("SLURM_JOB_ID", "0", setting.Job, why),
		identity("SLURM_STEP_NODELIST", w.MasterAddr, setting.Job, why),
		identity("SLURM_NTASKS", w.Nodes.String(), setting.Job, why),
		identity("SLURM_PROCID", w.NodeRank.String(), setting.Node, why),
		identity("SLURM_LOCALID", "0", setting.Node, why),
	}
}

// notSpawned returns the variables that a library which starts the node's processes itself must not see: it
// would take its process for one of those (lightning/fabric/plugins/environments/lightning.py).
func (l Line) notSpawned(env []string) (out []setting.Var) {
	for _, name := range []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} {
		if v, ok := lookup(env, name); ok {
			out = append(out, identity(name, v, setting.Node, l.Spawns+" starts the processes of a node itself, unless "+
				"this says that it is one of them"))
		}
	}
	return out
}
