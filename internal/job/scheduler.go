package job

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// scheduler holds the claims of Kubernetes, Slurm or the MPI that started this process.
type scheduler struct {
	nodes, index, host, id claim
	hosts                  []string // the node list, in index order
	secret                 claim    // what only the job's own processes know
	node                   string   // Slurm's name of this node
	port                   int      // of an embedded store of its own; 0: DefaultStorePort

	nowhere, fix string // why it names no store address, and what to do
	alone        string // why this process is no task of a job of several nodes
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
