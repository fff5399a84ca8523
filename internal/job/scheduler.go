package job

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/hostlist"
)

// scheduler holds the claims of Kubernetes, Slurm or the MPI that started this process.
type scheduler struct {
	nodes, index, host, id claim
	hosts                  []string // the node list, in index order
	secret                 claim    // what only the job's own processes know

	nowhere, fix string // why it names no store address, and what to do
}

func (r *resolver) scheduler() error {
	if ok, err := r.mpi(); ok || err != nil {
		return err
	}
	if r.own[completionIndex] != "" {
		r.indexedJob()
		return nil
	}
	if r.own["SLURM_JOB_ID"] != "" {
		return r.slurm()
	}
	return nil
}

// random is the form of a random identifier (RFC 9562, version 4).
var random = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// completionIndex is set by Kubernetes in every pod of an Indexed Job.
const completionIndex = "JOB_COMPLETION_INDEX"

// indexedJob reads the pod of an Indexed Job: its host name is JOB-INDEX, and with a headless Service
// (spec.subdomain) the kubelet writes its full name into /etc/hosts. Pod 0 is then the store host.
func (r *resolver) indexedJob() {
	r.sched.index = r.variable(completionIndex)
	if uid := r.variable("JOB_UID"); uid.Set { // by the downward API, see k8s/
		r.sched.id = uid
		if random.MatchString(uid.V) { // whoever may read the Job knows it, and no other namespace
			r.sched.secret = uid
		}
	}
	full := r.podName()
	short, domain, _ := strings.Cut(full, ".")
	name, ok := strings.CutSuffix(short, "-"+r.own[completionIndex])
	if !ok || name == "" {
		r.sched.nowhere = fmt.Sprintf("the host name %q does not have the form of an Indexed Job's pod (JOB-INDEX)",
			full)
		r.sched.fix = "in the container's env: {name: LAUNCH_STORE, value: JOB-0.SERVICE}   # with hostNetwork: " +
			"true also dnsPolicy: ClusterFirstWithHostNet"
		return
	}
	if !r.sched.id.Set {
		id, _ := strings.CutSuffix(name+"."+domain, ".")
		r.sched.id = scheduled(id, PodHostName)
	}
	if domain == "" {
		r.sched.nowhere = fmt.Sprintf("other pods cannot resolve the name of pod %s", short)
		r.sched.fix = "in the pod template: subdomain: SERVICE   # a Service with clusterIP: None and " +
			"publishNotReadyAddresses: true"
		return
	}
	r.sched.host = scheduled(name+"-0."+domain, PodHostName)
}

// podName returns the pod's full name if known, else its host name.
func (r *resolver) podName() string {
	host := r.in.Hostname
	if host == "" {
		host = r.own["HOSTNAME"]
	}
	if strings.Contains(host, ".") || r.in.Root == nil || host == "" { // setHostnameAsFQDN
		return host
	}
	hosts, err := fs.ReadFile(r.in.Root, "etc/hosts")
	if err != nil {
		return host
	}
	for line := range strings.Lines(string(hosts)) {
		line, _, _ = strings.Cut(line, "#")
		for _, name := range strings.Fields(line) {
			if strings.HasPrefix(name, host+".") {
				return name
			}
		}
	}
	return host
}

// slurm reads a job step. Only the tasks of a step have a place in the job: the
// batch script, salloc's shell and what inherits SLURM_* from them run on one node.
func (r *resolver) slurm() error {
	job := r.own["SLURM_JOB_ID"]
	if why := r.noStep(); why != "" {
		total := r.firstOf("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
		if total.V != "" && total.V != "1" {
			r.sched.fix = "srun --ntasks-per-node=1 " + r.paste()
			f := finding.Warnf("Slurm job %s has %s nodes, a number that this start ignores: %s", job, total.V, why)
			if r.severalTyped() { // nothing depends on it
				f.Status = finding.Skip
			}
			r.note(f.Named("job.slurm").See(total.From.Name, "%s", total.V).Do("%s", r.sched.fix))
		}
		return nil
	}
	r.sched.nodes = r.firstOf("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
	r.sched.index = r.variable("SLURM_NODEID")
	r.sched.id = scheduled("slurm-"+job+"."+r.own["SLURM_STEP_ID"], "SLURM_JOB_ID")
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
	hosts, err := hostlist.Expand(r.stepList().V)
	if err != nil {
		return "" // slurm reports it
	}
	short, _, _ := strings.Cut(r.in.Hostname, ".")
	for _, h := range hosts {
		name, _, _ := strings.Cut(h, ".")
		if name == short || h == r.own["SLURMD_NODENAME"] {
			return ""
		}
	}
	return fmt.Sprintf("this host (%s) is not in %s", r.in.Hostname, r.stepList().From.Name)
}
