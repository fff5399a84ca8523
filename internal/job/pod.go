package job

import (
	"regexp"
	"strings"
)

// Pod is the Kubernetes pod that this node is, as far as the pod itself can know it.
type Pod struct {
	Name      string `json:"name"`                // its host name
	Service   string `json:"service,omitempty"`   // the headless Service of its names; "": others cannot resolve its name
	Namespace string `json:"namespace,omitempty"` // known only with a Service
	Owner     string `json:"owner,omitempty"`     // what made it, as kubectl takes it: job/train
	Selector  string `json:"selector,omitempty"`  // the label that the owner's pods have in common

	domain      string // what follows the host name in its full name
	hostNetwork bool
}

// managedHosts begins the /etc/hosts that the kubelet writes.
const managedHosts = "# Kubernetes-managed hosts file"

// readPod reads which pod this is; nil outside Kubernetes.
func (r *resolver) readPod() {
	hosts := ""
	if r.in.Root != nil {
		hosts = head(r.in.Root, "/etc/hosts")
	}
	if r.own["KUBERNETES_SERVICE_HOST"] == "" && !strings.HasPrefix(hosts, managedHosts) && r.own[completionIndex] == "" {
		return
	}
	full := fullName(r.hostname(), hosts)
	p := &Pod{hostNetwork: strings.HasPrefix(hosts, managedHosts+" (host network)")}
	p.Name, p.domain, _ = strings.Cut(full, ".")
	p.Service, p.Namespace, _ = strings.Cut(p.domain, ".")
	p.Namespace, _, _ = strings.Cut(p.Namespace, ".")
	r.job.Pod = p
}

// hostname returns the kernel's host name, else the one that the container's runtime sets.
func (r *resolver) hostname() string {
	if r.in.Hostname != "" {
		return r.in.Hostname
	}
	return r.own["HOSTNAME"]
}

// fullName returns a pod's host name with the domain that the kubelet writes into /etc/hosts, if it has one.
func fullName(host, hosts string) string {
	if strings.Contains(host, ".") || host == "" { // setHostnameAsFQDN
		return host
	}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		for _, name := range strings.Fields(line) {
			if strings.HasPrefix(name, host+".") {
				return name
			}
		}
	}
	return host
}

// ordinal matches the host name of a numbered pod: a name, a dash and a number.
var ordinal = regexp.MustCompile(`^(.+)-(0|[1-9][0-9]{0,5})$`)

// numbered returns the parts of the host name of a numbered pod.
func (p *Pod) numbered() (base, number string, ok bool) {
	m := ordinal.FindStringSubmatch(p.Name)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// sibling returns the name of another pod of the same Service.
func (p *Pod) sibling(name string) string { return strings.TrimSuffix(name+"."+p.domain, ".") }

// FullName returns the pod's name as other pods resolve it; "" if they cannot.
func (p *Pod) FullName() string {
	if p.domain == "" {
		return ""
	}
	return p.sibling(p.Name)
}

// elsewhere reports whether a host name is that of a numbered pod of the same Service, which is not zero: the
// pod with which the names of this pod's own controller begin.
func (p *Pod) elsewhere(host, zero string) bool {
	name, domain, _ := strings.Cut(host, ".")
	service, _, _ := strings.Cut(domain, ".")
	return p.Service != "" && service == p.Service && name != zero && ordinal.MatchString(name)
}

// sharedName reports whether the store's name is a Service's, in a pod whose rank is known. The name of a pod or of a
// machine, which a pod of the host's network may use, is not one.
func (r *resolver) sharedName(s Store) bool {
	p := r.job.Pod
	if p == nil || p.hostNetwork || !s.Embedded || isAddr(s.Host) || r.job.Vouch == NoIndex {
		return false
	}
	name, domain, _ := strings.Cut(s.Host, ".")
	if name == p.Name || s.Host == r.sched.host.V || domain != "" && short(domain) == p.Service {
		return false
	}
	if r.strayIndex() {
		return false
	}
	base, _, _ := p.numbered()
	other, _, numbered := (&Pod{Name: name}).numbered()
	return !numbered || other != base && domain == ""
}

// strayIndex reports whether the index is of an Indexed Job that has not named this pod: a variable from elsewhere,
// which several nodes may have.
func (r *resolver) strayIndex() bool {
	p := r.job.Pod
	if r.job.Index.From.Name != completionIndex || p.hostNetwork {
		return false
	}
	_, number, _ := p.numbered()
	return number != r.own[completionIndex]
}

// named returns the places where the store, or the job's own, is named, the most explicit first.
func (r *resolver) named() []claim {
	all := []claim{claim(r.in.Flags.Store), said(r.line.Endpoint), said(r.line.MasterAddr),
		r.ambient("PET_RDZV_ENDPOINT"), r.ambient("PET_MASTER_ADDR"), r.ambient("MASTER_ADDR")}
	var hosts []claim
	for _, c := range all {
		if host, _, err := splitHostPort(c.V); c.Set && err == nil && host != "" {
			c.V = host
			hosts = append(hosts, c)
		}
	}
	return hosts
}

// samePods returns the first of the named places that is a numbered pod of this pod's Service.
func (r *resolver) samePods() (claim, bool) {
	for _, c := range r.named() {
		if r.job.Pod.elsewhere(c.V, "") {
			return c, true
		}
	}
	return claim{}, false
}
