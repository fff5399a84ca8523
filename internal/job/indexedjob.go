package job

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"launch/internal/finding"
)

// random is the form of a random identifier (RFC 9562, version 4).
var random = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// completionIndex is set by Kubernetes in every pod of an Indexed Job.
const completionIndex = "JOB_COMPLETION_INDEX"

// indexedJob reads the pod of an Indexed Job: its host name is JOB-INDEX, and with a headless Service
// (spec.subdomain) the kubelet writes its full name into /etc/hosts. Pod 0 is then the store host.
func (r *resolver) indexedJob() bool {
	if r.own[completionIndex] == "" {
		return false
	}
	p := r.job.Pod
	r.sched.index = r.variable(completionIndex)
	if name := r.own["REPLICATED_JOB_NAME"]; name != "" {
		r.sched.role = schedulersRole(name, "REPLICATED_JOB_NAME")
	}
	r.jobUID("JOB_UID")
	job, ok := strings.CutSuffix(p.Name, "-"+r.own[completionIndex])
	if !ok || job == "" {
		r.sched.nowhere = fmt.Sprintf("the host name %q does not have the form of an Indexed Job's pod (JOB-INDEX)",
			p.sibling(p.Name))
		r.sched.fix = "in the container's env: {name: LAUNCH_STORE, value: JOB-0.SERVICE}   # with hostNetwork: " +
			"true also dnsPolicy: ClusterFirstWithHostNet"
		return true
	}
	p.Owner, p.Selector = "job/"+job, "batch.kubernetes.io/job-name="+job
	if !r.sched.id.Set {
		r.sched.id = scheduled(p.sibling(job), PodHostName)
	}
	if p.domain == "" {
		r.sched.nowhere = fmt.Sprintf("other pods cannot resolve the name of pod %s", p.Name)
		r.sched.fix = "in the pod template: subdomain: SERVICE   # a Service with clusterIP: None and " +
			"publishNotReadyAddresses: true"
		return true
	}
	r.sched.host = scheduled(p.sibling(job+"-0"), PodHostName)
	r.jobSet(job)
	return true
}

// jobUID takes a random identifier of the controller's object, if the pod's env has it, as the job's name and its
// secret: all who may read the object know it, and no other namespace.
func (r *resolver) jobUID(name string) {
	if uid := r.variable(name); uid.Set {
		r.sched.id, r.sched.secret = uid, claim{}
		if random.MatchString(uid.V) {
			r.sched.secret = uid
		}
	}
}

// jobSet reads the pod of a JobSet, whose world may consist of several Jobs: in each of them a pod has index 0, and
// each has a UID of its own. JobSet sets no variable: REPLICATED_JOB_NAME and the others are from its pod labels.
// Source: pkg/controllers/jobset_controller.go of kubernetes-sigs/jobset.
func (r *resolver) jobSet(job string) {
	p := r.job.Pod
	index, replicas := r.own["JOB_INDEX"], r.own["REPLICATED_JOB_REPLICAS"]
	base, indexed := strings.CutSuffix(job, "-"+index)
	named, set := r.samePods()
	switch {
	case set && p.elsewhere(named.V, job+"-0"):
		r.sched.host = scheduled(named.V, named.From.Name)
	case !set && indexed && index != "" && r.own["REPLICATED_JOB_NAME"] != "" && replicas != "1":
		r.sched.host = scheduled(p.sibling(base+"-0-0"), "REPLICATED_JOB_NAME")
	default:
		if set && p.inJobSet(job) { // another of its Jobs may be in this world
			r.sharedID(named.V)
		}
		return
	}
	r.sharedID(r.sched.host.V)
	if name := r.own["JOBSET_NAME"]; name != "" {
		p.Owner, p.Selector = "jobset/"+name, "jobset.sigs.k8s.io/jobset-name="+name
	}
	r.sched.index = claim{}
	if n, ok := r.amongJobs(index, replicas); ok {
		r.sched.index = scheduled(strconv.Itoa(n), "JOB_INDEX and "+completionIndex)
		return
	}
	r.note(finding.Skipf("%s is not used: it is unique in one Job only, and %s may be of another one; node ranks go "+
		"by arrival",
		r.variable(completionIndex), r.sched.host.V).Named("job.index"))
}

// inJobSet reports whether a Job's name has the form that JobSet gives it: JOBSET-REPLICATEDJOB-INDEX.
func (p *Pod) inJobSet(job string) bool {
	rest, ok := strings.CutPrefix(job, p.Service+"-")
	return ok && ordinal.MatchString(rest)
}

// sharedID names the job by the store's host, which all pods of the world know: the UID of a Job is another one in
// the next Job. The UID of the JobSet is the same.
func (r *resolver) sharedID(host string) {
	r.sched.id, r.sched.secret = scheduled(short(host)+"."+r.job.Pod.Service, "the store's host"), claim{}
	r.jobUID("JOBSET_UID")
}

// amongJobs returns this pod's place among the pods of all Jobs of a replicated Job, if they are the whole world.
func (r *resolver) amongJobs(index, replicas string) (int, bool) {
	jobs, err := strconv.Atoi(replicas)
	job, err2 := strconv.Atoi(index)
	pod, err3 := strconv.Atoi(r.own[completionIndex])
	nodes := r.askedNodes()
	if err != nil || err2 != nil || err3 != nil || jobs < 1 || nodes%jobs != 0 || job >= jobs || pod >= nodes/jobs ||
		r.sched.host.From.Name != "REPLICATED_JOB_NAME" {
		return 0, false
	}
	return job*(nodes/jobs) + pod, true
}
