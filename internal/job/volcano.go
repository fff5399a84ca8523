package job

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// volcanoHosts matches the variable of a task's hosts, which Volcano's plugin svc sets in all pods of a job.
// Source: pkg/controllers/job/plugins of volcano-sh/volcano.
var volcanoHosts = regexp.MustCompile(`^VC_([A-Z0-9_]+)_HOSTS$`)

// volcano reads the pod of a Volcano job. A job has tasks, such as master and worker, and an index counts the pods of
// one task: which tasks make the world follows from the number of nodes.
func (r *resolver) volcano() bool {
	p := r.job.Pod
	index := r.firstOf("VC_TASK_INDEX", "VK_TASK_INDEX")
	tasks := map[string][]string{} // hosts by variable
	for name, hosts := range r.own {
		if volcanoHosts.MatchString(name) && hosts != "" {
			tasks[name] = strings.Split(hosts, ",")
		}
	}
	if len(tasks) == 0 {
		if index.Set && index.V != "0" {
			r.sched.alone = fmt.Sprintf("this pod (%s) is one of several of a Volcano job, but does not see their names", index)
			r.sched.fix = "in the Volcano job: plugins: {env: [], svc: []}   # svc names the pods"
			r.sched.nowhere = "Volcano's plugin svc is not on"
		}
		return index.Set
	}
	own, all := "", []string{}
	for _, name := range slices.SortedFunc(maps.Keys(tasks), masterFirst) {
		all = append(all, tasks[name]...)
		if slices.ContainsFunc(tasks[name], func(host string) bool { return short(host) == p.Name }) {
			own = name
		}
	}
	if own == "" {
		return false
	}
	r.sched.role = schedulersRole(volcanoHosts.FindStringSubmatch(own)[1], own)
	p.Owner, p.Selector = "vcjob", "volcano.sh/job-name"
	if job, _, _ := strings.Cut(p.domain, "."); job != "" { // its Service has the job's name
		p.Owner, p.Selector = "vcjob/"+job, "volcano.sh/job-name="+job
	}
	switch n := r.askedNodes(); {
	case len(tasks) == 1, n == len(tasks[own]) && n != len(all):
		r.volcanoWorld(own, tasks[own], len(tasks) == 1)
	case n == len(all):
		r.volcanoWorld("VC_*_HOSTS", all, false)
	case n == 0:
		r.sched.alone = fmt.Sprintf("this is one of %d pods of %s, and of %d pods of the Volcano job", len(tasks[own]), own,
			len(all))
		r.sched.fix = r.paste("--nnodes", fmt.Sprint(len(tasks[own]))) + "   # the pods of this task are the job\n" +
			r.paste("--nnodes", fmt.Sprint(len(all))) + "   # the pods of all tasks are"
	default:
		r.sched.nowhere = fmt.Sprintf("%d pods are neither all of %s (%d) nor all of the Volcano job (%d)", n, own,
			len(tasks[own]), len(all))
	}
	return true
}

// volcanoWorld makes the world of hosts, in their order. The number is a claim of Volcano only where nothing else
// could be meant.
func (r *resolver) volcanoWorld(from string, hosts []string, sure bool) {
	i := slices.IndexFunc(hosts, func(host string) bool { return short(host) == r.job.Pod.Name })
	r.sched.index = scheduled(fmt.Sprint(i), from)
	r.sched.host, r.sched.id = scheduled(hosts[0], from), scheduled(hosts[0], from)
	r.sched.hosts = hosts
	if sure {
		r.sched.nodes = scheduled(fmt.Sprint(len(hosts)), from)
	}
}

// masterFirst orders the variables of tasks: a master's first.
func masterFirst(a, b string) int {
	rank := func(name string) string {
		if name == "VC_MASTER_HOSTS" {
			return ""
		}
		return name
	}
	return strings.Compare(rank(a), rank(b))
}
