package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/internal/dns"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/rendezvous"
)

const (
	// noService is after which time a pod whose own name does not exist either blames its Service. Most clusters' DNS
	// remembers for at most 30 s that a name does not exist.
	noService = time.Minute
	// lastJobBudget is how long the pod of a Job that was deleted may take to end, by its name of the next one: the
	// default grace period of a pod is 30 s.
	lastJobBudget = 45 * time.Second
)

// findBy returns the look-up that asks the name servers themselves.
func (s *Start) findBy(servers dns.Config) func(context.Context, string) []netip.Addr {
	if ofAPod(s.Job) {
		return (&dns.Pods{Config: servers}).Find
	}
	return servers.Find
}

// names returns how this pod finds the pod that hosts the store again; nil: it is this one, or it is no pod.
func (s *Start) names() *companion.Names {
	servers := nameServers(s.Node)
	if !ofAPod(s.Job) || s.Job.Store.V.Shared || len(s.store.Serve) > 0 || len(servers.Servers) == 0 {
		return nil
	}
	return &companion.Names{Host: s.Job.Store.V.Host, Servers: servers}
}

// remembered says for how long the name servers may hold that a name does not exist; "": they do not say.
func remembered(ctx context.Context, servers dns.Config, host string) string {
	if ttl, absent := servers.Absent(ctx, host); absent && ttl > 0 {
		return fmt.Sprintf(" (the name servers may remember this for up to %s)", ttl)
	}
	return ""
}

// watchService ends the wait for another pod's name where it cannot help: no name server knows this pod's own name
// either. stop ends the watch.
func (s *Start) watchService(ctx context.Context, servers dns.Config) (watched context.Context, stop func()) {
	if !ofAPod(s.Job) || s.Job.Pod.FullName() == "" || len(servers.Servers) == 0 {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(noService, func() {
		if _, absent := servers.Absent(ctx, s.Job.Pod.FullName()+"."); absent {
			end(withoutService(*s.Job.Pod, s.Job.Store.V.Host))
		}
	})
	return ctx, func() {
		timer.Stop()
		end(nil)
	}
}

// withoutService is the error of a pod whose names do not exist.
func withoutService(p job.Pod, host string) error {
	return exit.Errorf(exit.Config, "no name server knows %s, nor this pod's own name %s: the Service %s of namespace %s "+
		"does not exist, or does not select these pods", host, p.FullName(), p.Service, p.Namespace).
		Do("kubectl -n %s get service %s -o yaml   # clusterIP: None, publishNotReadyAddresses: true, selector: %s",
			p.Namespace, p.Service, selects(p))
}

// selects returns the label by which a Service selects the pods, as YAML.
func selects(p job.Pod) string {
	if p.Selector == "" {
		return "a label that all pods of the job have"
	}
	for i := range p.Selector {
		if p.Selector[i] == '=' {
			return p.Selector[:i] + ": " + p.Selector[i+1:]
		}
	}
	return p.Selector
}

// ofTheLastJob reports whether err may be about the pod of a Job that was deleted: it has the name of this Job's pod
// until it has ended. It waits a second before the next try, and says so once.
func (s *Start) ofTheLastJob(ctx context.Context, err error) bool {
	_, other := errors.AsType[*rendezvous.OtherStoreError](err)
	foreign := other || errors.Is(err, rendezvous.ErrToken) || errors.Is(err, rendezvous.ErrForeign)
	if !foreign || !ofAPod(s.Job) || s.lastJob.Before(time.Now().Add(-lastJobBudget)) && !s.lastJob.IsZero() {
		return false
	}
	if s.lastJob.IsZero() {
		s.lastJob = time.Now()
		s.UI.Note("%s answers, but not for this job: the pod of a Job of the same name may be ending; retrying for %s",
			s.Job.Store.V.Host, lastJobBudget)
	}
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// endpointsAgain looks the store's name up again.
func (s *Start) endpointsAgain(ctx context.Context) ([]string, error) {
	s.store = nil
	place, err := s.find(ctx, time.Until(s.deadline))
	return place.Endpoints, err
}

// inPod gives the error of a pod the remedies of Kubernetes.
func (s *Start) inPod(err error) error {
	p := s.Job.Pod
	if p == nil || err == nil || !s.Job.Several() || s.caught() != nil {
		return err
	}
	f := Failure(err, nil)
	if fix := podFix(*p, s.Job, err, f.Code); fix != "" {
		f.Fix = fix
		return &f
	}
	return err
}

// inNamespace is what kubectl takes for a pod's namespace, with a space after it.
func inNamespace(p job.Pod) string {
	if p.Namespace == "" {
		return ""
	}
	return "-n " + p.Namespace + " "
}

// getPods is the line that shows the job's pods.
func getPods(p job.Pod) string {
	if p.Selector == "" {
		return "kubectl " + inNamespace(p) + "get pods -o wide"
	}
	return "kubectl " + inNamespace(p) + "get pods -l " + p.Selector + " -o wide"
}

// podFix returns what to do about the failure of a pod; "": nothing that Kubernetes knows more of.
func podFix(p job.Pod, j job.Job, err error, code int) string {
	ns, pods := inNamespace(p), getPods(p)
	_, unnamed := errors.AsType[*storeaddr.NameError](err)
	_, other := errors.AsType[*rendezvous.OtherStoreError](err)
	switch {
	case unnamed && p.Service != "":
		return pods + "   # does the pod of that name run?\n" +
			"kubectl " + ns + "get service " + p.Service + " -o yaml   # clusterIP: None, publishNotReadyAddresses: true, " +
			"selector: " + selects(p)
	case unnamed:
		return "in the pod template: subdomain: SERVICE   # with hostNetwork: true also dnsPolicy: ClusterFirstWithHostNet"
	case code == exit.Missing:
		return pods + "   # is one Pending or Failed? a Completed one does not come back\n" + count(p, j)
	case other, errors.Is(err, rendezvous.ErrToken), errors.Is(err, rendezvous.ErrForeign):
		return pods + "   # the pods of a Job of the same name end first; then apply again\n" +
			"else: the same LAUNCH_TOKEN and LAUNCH_JOB in all pods"
	case errors.Is(err, rendezvous.ErrUnreachable):
		return pods + "   # does the pod of the store run?\n" +
			"kubectl " + ns + "get networkpolicy   # the pods of a job connect to each other on all ports"
	}
	return ""
}

// count returns where the number of nodes comes from, and what it must be the same as.
func count(p job.Pod, j job.Job) string {
	from, twins := cmp.Or(j.Nodes.From.Name, "the number of nodes"), ""
	if j.Store.V.Shared && j.Index.V == 0 {
		twins = fmt.Sprintf("\nis %s 0 in other pods, too (one Job each)? Then unset it, and --store POD.SERVICE names one "+
			"of them", j.Index.From.Name)
	}
	if p.Owner == "" {
		return fmt.Sprintf("%s is %d: are there as many pods?%s", from, j.Nodes.V, twins)
	}
	return fmt.Sprintf("kubectl get %s -o yaml   # %s is %d: are there as many pods, all at once "+
		"(of a Job: completions and parallelism)?%s", p.Owner, from, j.Nodes.V, twins)
}
