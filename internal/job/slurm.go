package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/hostlist"
)

// slurm reads a job step. Only the tasks of a step have a place in the job: the
// batch script, salloc's shell and what inherits SLURM_* from them run on one node.
func (r *resolver) slurm() error {
	job := r.own["SLURM_JOB_ID"]
	if why := r.noStep(); why != "" {
		total := r.firstOf("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
		if total.V != "" && total.V != "1" {
			r.sched.fix = "srun --ntasks-per-node=1 " + r.paste()
			r.sched.alone = fmt.Sprintf("Slurm job %s has %s nodes (%s), but %s", job, total.V, total.From.Name, why)
		}
		return nil
	}
	r.sched.nodes = r.firstOf("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
	r.sched.index = r.variable("SLURM_NODEID")
	r.sched.id = scheduled(r.stepName(job), "SLURM_JOB_ID")
	r.sched.port = stepPort(job, r.own["SLURM_STEP_ID"])
	r.sched.node = cmp.Or(r.own["SLURMD_NODENAME"], short(r.in.Hostname))
	list := r.stepList()
	if list.Set {
		hosts, err := hostlist.Expand(list.V)
		if err != nil {
			return contradiction(r.without("SLURM_JOB_ID"), "%s: %v", list.From.Name, err)
		}
		if n, err := strconv.Atoi(r.sched.nodes.V); r.sched.nodes.Set && (err != nil || n != len(hosts)) {
			return contradiction(r.without("SLURM_JOB_ID"), "%s contradicts %s, which has %d nodes",
				r.sched.nodes, list, len(hosts))
		}
		r.sched.nodes.V, r.sched.nodes.Set = strconv.Itoa(len(hosts)), true
		if r.sched.nodes.From.Name == "" {
			r.sched.nodes.From = list.From
		}
		r.sched.hosts = hosts
		r.sched.host = claim{hosts[0], list.From, true}
	}
	return r.slurmTasks()
}

// stepName names a step, and each run of a requeued one: its number and the job's remain.
func (r *resolver) stepName(job string) string {
	name := "slurm-" + job + "." + r.own["SLURM_STEP_ID"]
	if n := r.own["SLURM_RESTART_COUNT"]; n != "" && n != "0" {
		name += "." + n
	}
	return name
}

// The ports of the steps' stores lie below DefaultStorePort and outside Linux's default ephemeral range.
// Their number is a prime, so that jobs whose numbers differ by a round one share no port.
const (
	firstStepPort = 25000
	stepPorts     = 4093
)

// stepPort returns the port of a step's store. Steps of one job, and tasks of one array, may run side by
// side on the same first node: of the next 60 steps and the next 60 jobs none has the same port. It is 0 if
// job or step is not a number.
func stepPort(job, step string) int {
	j, err := strconv.ParseUint(job, 10, 64)
	s, err2 := strconv.ParseUint(step, 10, 64)
	if err != nil || err2 != nil {
		return 0
	}
	return firstStepPort + int((j%stepPorts*61+s%stepPorts)%stepPorts)
}

// standsAlone refuses a start that would be one node of a Slurm job of several, unless a number was typed.
func (r *resolver) standsAlone() error {
	onlyTask := func(m mpi) bool { return r.own[m.rank] == "0" && r.own[m.size] == "1" } // mpirun -np 1
	if r.sched.alone == "" || slices.ContainsFunc(mpis(), onlyTask) {
		return nil
	}
	if r.looking() {
		r.note(finding.Warnf("this looks at one node: %s", r.sched.alone).Named("job.slurm").Do("%s", r.sched.fix))
		return nil
	}
	return contradiction(r.sched.fix+"\n"+r.paste("--nnodes", "1")+"   # for this node alone",
		"%s: it would start one node", r.sched.alone)
}

// allocation returns the hosts of a Slurm job, which its mpirun takes where the line names none.
func (r *resolver) allocation() []string {
	list := r.firstOf("SLURM_NODELIST", "SLURM_JOB_NODELIST") // in the order of Open MPI's and Hydra's readers
	if r.own["SLURM_JOB_ID"] == "" || !list.Set {
		return nil
	}
	hosts, err := hostlist.Expand(list.V)
	if err != nil {
		r.note(finding.Skipf("%s: %v", list.From.Name, err).Named("job.slurm"))
	}
	return hosts
}

func (r *resolver) stepList() claim {
	return r.firstOf("SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST")
}

func (r *resolver) firstOf(names ...string) claim {
	for _, name := range names {
		if c := r.variable(name); c.Set {
			return c
		}
	}
	return claim{}
}

// lastOrdinaryStep bounds the numbers of steps that srun made: the batch script,
// the interactive shell and the like have 0xfffffff0 and above (slurm.h).
const lastOrdinaryStep = 0xfffffff0

// noStep returns why this process is not a task of a step of all its nodes, or "".
func (r *resolver) noStep() string {
	step, err := strconv.ParseUint(r.own["SLURM_STEP_ID"], 10, 64)
	switch {
	case r.own["SLURM_STEP_ID"] == "" || r.own["SLURM_NODEID"] == "" || r.own["SLURM_PROCID"] == "":
		return "srun did not start this process"
	case err != nil || step >= lastOrdinaryStep:
		return "this is its interactive shell"
	case r.own["SLURM_PTY_PORT"] != "":
		return "this is a terminal of srun --pty on one node"
	}
	list := r.stepList()
	if !list.Set {
		return "no variable lists the nodes of its step, as srun's do"
	}
	hosts, err := hostlist.Expand(list.V)
	if err != nil {
		return "" // slurm reports it
	}
	node := r.own["SLURMD_NODENAME"]
	here := slices.ContainsFunc(hosts, func(h string) bool { return short(h) == short(r.in.Hostname) })
	switch there := slices.Contains(hosts, node); {
	case here && there && short(node) != short(r.in.Hostname):
		return fmt.Sprintf("its variables are those of another node (SLURMD_NODENAME=%s, this is %s)", node, r.in.Hostname)
	case !here && !there:
		return fmt.Sprintf("this host (%s) is not in %s", r.in.Hostname, list.From.Name)
	}
	return ""
}

// short returns a host name without its domain.
func short(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}
