package scene

import (
	"path"
	"slices"
	"strings"
)

// subcommands are those of launch that start no job.
var subcommands = []string{"check", "plan", "bench", "env", "status", "store", "doctor", "fabric", "metrics",
	"version", "completion", "help", "config"}

// mpi are the programs by which MPI and Slurm start ranks.
var mpi = []string{
	"mpirun",
	"mpiexec",
	"mpiexec.hydra",
	"orterun",
	"prterun",
	"orted",
	"prted",
	"prte",
	"hydra_pmi_proxy",
	"hydra_bstrap_proxy",
	"srun",
}

// shells start another program and are no rank themselves.
var shells = []string{
	"sh",
	"bash",
	"dash",
	"zsh",
	"ksh",
	"fish",
	"busybox",
	"env",
	"numactl",
	"taskset",
	"timeout",
	"nice",
	"time",
	"sudo",
	"su",
	"tini",
	"dumb-init",
	"docker-init",
	"setpriv",
	"nohup",
	"stdbuf",
	"tee",
	"script",
	"catatonit",
}

// assign gives the processes of jobs their roles.
func (t *table) assign() {
	for _, p := range t.procs {
		p.role = p.starter()
	}
	for _, p := range t.procs { // the ssh that mpirun starts
		if parent := t.procs[p.stat.parent]; parent != nil && parent.role == MPIRun && p.program() == "ssh" {
			p.role = MPIRun
		}
	}
	t.dead()
	t.parts()
	for _, pid := range t.pids() {
		t.numbered(t.procs[pid])
	}
	t.unnumbered()
	t.hidden()
	for _, pid := range t.pids() {
		if t.procs[pid].role != Rank {
			continue
		}
		for _, b := range t.below(pid) {
			if c := t.procs[b]; c.role == "" {
				c.role = Child
			}
		}
		t.wrap(pid)
	}
	t.findStores()
}

// dead takes the roles of starters from those that have ended: a first process that reaps nothing keeps them
// for good. One below another starter is evidence; a launch starts no launch.
func (t *table) dead() {
	for _, p := range t.procs {
		parent := t.procs[p.stat.parent]
		if p.stat.state == "Z" && (p.role == Launch || parent == nil || parent.role == "") {
			p.role = ""
		}
	}
}

// pids returns all pids, parents before their children where pids have not wrapped around.
func (t *table) pids() []int {
	var out []int
	for pid := range t.procs {
		out = append(out, pid)
	}
	slices.Sort(out)
	return out
}

// Elastic is the name that a torchrun gives itself once it has imported torch, before it opens its store.
const Elastic = "pt_elastic"

// starter returns the role of a process that starts ranks; "": it is none.
func (p *seen) starter() Role {
	name := p.program()
	switch {
	case p.env["LAUNCH_CHILD"] == "companion":
		return Companion
	case p.env["LAUNCH_CHILD"] != "":
		return ""
	case p.stat.comm == "launch" && name == "launch":
		if len(p.argv) > 1 && slices.Contains(subcommands, p.argv[1]) {
			return ""
		}
		return Launch
	case p.stat.comm == Elastic, p.torchrun():
		return Agent
	case slices.Contains(mpi, name), slices.Contains(mpi, p.stat.comm):
		return MPIRun
	}
	return ""
}

// torchrun returns whether the command line is that of torchrun, as a script or a module.
func (p *seen) torchrun() bool {
	if p.program() == "torchrun" {
		return true
	}
	if len(p.argv) == 0 || !strings.HasPrefix(p.program(), "python") {
		return false
	}
	for i, a := range p.argv[1:] {
		switch {
		case a == "-m":
			rest := p.argv[i+2:]
			return len(rest) > 0 && slices.Contains([]string{"torch.distributed.run", "torch.distributed.launch",
				"torch.distributed.elastic"}, rest[0])
		case strings.HasPrefix(a, "-"):
			continue
		}
		return path.Base(a) == "torchrun"
	}
	return false
}

// rankNames are the variables that number ranks, and those that mark a process of MPI or Slurm.
var rankNames = []string{"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}

// number returns which variable numbers this process, and its value.
func (p *seen) number() (name, value string) {
	for _, n := range rankNames {
		if v, ok := p.env[n]; ok {
			return n, v
		}
	}
	return "", ""
}

// numbered makes the process a rank if its environment numbers it and its parent has not the same number. Below
// a shell that is the program which the shell runs. In a container that was given RANK, only a Python counts.
func (t *table) numbered(p *seen) {
	name, value := p.number()
	if name == "" || p.role != "" || p.stat.state == "Z" {
		return
	}
	parent := t.procs[p.stat.parent]
	if parent != nil && (parent.role == "" || parent.role == Rank) && parent.env[name] == value && has(parent.env, name) {
		return
	}
	started := p.pid == t.command || parent != nil && (parent.role == Agent || parent.role == MPIRun ||
		parent.role == Launch || parent.stat.comm == "slurmstepd")
	same := []int{p.pid}
	for _, b := range t.below(p.pid) {
		c := t.procs[b]
		switch v, ok := c.env[name]; {
		case c.role != "" && c.role != Rank:
			if name != "RANK" {
				return // an agent below mpirun's or Slurm's process: the ranks are its own
			}
		case ok && v == value:
			same = append(same, b)
		}
	}
	var rank *seen
	for _, pid := range same {
		if c := t.procs[pid]; c.python() && !t.underAgent(c, p) {
			rank = c
			break
		}
	}
	switch {
	case rank != nil && len(t.spawned(rank)) > 0:
		return
	case rank != nil && (name == "RANK" || started || t.torch(rank)):
	case started:
		rank = p
		for _, pid := range same {
			if c := t.procs[pid]; !slices.Contains(shells, c.program()) {
				rank = c
				break
			}
		}
	default:
		return
	}
	rank.role = Rank
	t.torch(rank)
}

// underAgent returns whether an agent is between a process and its ancestor, or the process itself.
func (t *table) underAgent(p, ancestor *seen) bool {
	if p == ancestor {
		return false
	}
	for _, a := range t.above(p.pid) {
		if a == ancestor.pid {
			return false
		}
		if t.procs[a].role == Agent {
			return true
		}
	}
	return false
}

// ofTorch are beginnings of names that torch's threads have in a rank.
var ofTorch = []string{"gloo_tcp_loop", "pt_gloo_", "pt_tcpstore", "pt_nccl_", "NCCL "}

// unnumbered finds the ranks that set RANK themselves, as those of mp.spawn: /proc shows only the environment
// that a process began with. Torch's threads give them away, and then those next to them.
func (t *table) unnumbered() {
	var found []*seen
	for _, pid := range t.pids() {
		p := t.procs[pid]
		if p.role != "" || !p.python() || p.stat.state == "Z" || t.inJob(p) {
			continue
		}
		if inGroup(pid) || p.env["MASTER_PORT"] != "" && t.torch(p) && !t.spawns(p) {
			found = append(found, p)
		}
	}
	for _, p := range found {
		p.role = Rank
		t.torch(p)
		parent := t.procs[p.stat.parent]
		if parent == nil || !parent.python() || parent.role != "" {
			continue
		}
		for _, c := range t.children[parent.pid] {
			if next := t.procs[c]; next.role == "" && next.python() && t.torch(next) {
				next.role = Rank
			}
		}
	}
}

// inJob returns whether a rank is above the process.
func (t *table) inJob(p *seen) bool {
	return slices.ContainsFunc(t.above(p.pid), func(a int) bool { return t.procs[a].role == Rank })
}

// spawns returns whether the process has a child that is Python with torch.
func (t *table) spawns(p *seen) bool {
	return slices.ContainsFunc(t.children[p.pid], func(c int) bool {
		return t.procs[c].python() && t.torch(t.procs[c])
	})
}

// hidden finds ranks whose environment cannot be read, or that have ended: what an agent has started.
func (t *table) hidden() {
	for _, p := range t.procs {
		parent := t.procs[p.stat.parent]
		if p.role != "" || p.env != nil || parent == nil {
			continue
		}
		ended := p.stat.state == "Z" && p.stat.comm != "launch"
		if parent.role == Agent && (ended || p.python()) || parent.role == MPIRun && p.python() {
			p.role = Rank
		}
	}
}

// wrap marks what is between a rank and what started it.
func (t *table) wrap(rank int) {
	above := t.above(rank)
	end := slices.IndexFunc(above, func(a int) bool { return t.procs[a].role != "" })
	if end < 0 {
		if p := t.procs[rank]; len(above) > 0 && !has(p.env, "RANK") && t.procs[above[0]].python() {
			t.procs[above[0]].role = Wrapper
		}
		return
	}
	for _, a := range above[:end] {
		t.procs[a].role = Wrapper
	}
}
