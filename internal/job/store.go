package job

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/setting"
)

// ports resolves the port for the job's own store. With an endpoint in the line
// or PET_*, torchrun takes the port from it and ignores --master-port.
func (r *resolver) ports() error {
	claims := []claim{claim(r.in.Flags.MasterPort)}
	if (r.job.Several() || r.job.Tasks.Size > 0) && !strings.HasPrefix(r.backend(), "etcd") {
		claims = append(claims, endpointPort(said(r.line.Endpoint)), said(r.line.MasterPort),
			endpointPort(r.ambient("PET_RDZV_ENDPOINT")), r.ambient("PET_MASTER_PORT"), r.masterPort())
	}
	v, err := choose(r, "master-port", equal[int], parsePort, claims...)
	r.job.MasterPort = v
	return err
}

func endpointPort(c claim) claim {
	_, port, err := splitHostPort(c.V)
	if _, bad := readPort(port); bad != nil || err != nil { // missing, 0 for any, or for store to refuse
		return claim{}
	}
	return claim{port, c.From, c.Set}
}

// masterPort returns MASTER_PORT, unless it is the URL that Kubernetes sets for a
// Service named "master".
func (r *resolver) masterPort() claim {
	c := r.ambient("MASTER_PORT")
	if _, err := parsePort(c); c.Set && err != nil {
		f := finding.Warnf("%s is not used: it is not a port", c)
		if strings.Contains(c.V, "://") {
			f.Status = finding.Skip
		}
		r.note(f.Named("job.master-port"))
		return claim{}
	}
	return c
}

// store resolves the store address of several nodes.
func (r *resolver) store() error {
	given := claim(r.in.Flags.Store)
	if !r.job.Several() {
		if given.Set {
			_, err := parseStore(given)
			return err
		}
		return nil
	}
	typed := []claim{given, said(r.line.Endpoint), said(r.line.MasterAddr)}
	if !slices.ContainsFunc(typed, func(c claim) bool { return c.Set }) {
		typed = append(typed, r.sched.host) // one of the job's nodes, unless another is named
	}
	v, err := choose(r, "store", agree, r.parseAddress, append(typed,
		r.ambient("PET_RDZV_ENDPOINT"), r.ambient("PET_MASTER_ADDR"), r.ambient("MASTER_ADDR"))...)
	if err != nil {
		return err
	}
	if !v.Set {
		return r.nowhere()
	}
	v.V.Shared = r.sharedName(v.V)
	r.job.Store = v
	if r.job.Nodes.V+r.job.Spares == len(r.sched.hosts) {
		r.job.Hosts, r.job.Step = r.sched.hosts, r.sched.node
	}
	return r.loopback(v)
}

// parseAddress parses --store, or the endpoint or master address of the line or the environment: then
// launch's embedded store runs on that host, on its own port, unless torchrun's backend is an etcd.
func (r *resolver) parseAddress(c claim) (Store, error) {
	if c.From.Tier == setting.Explicit {
		return parseStore(c)
	}
	name := strings.ReplaceAll(strings.ToLower(c.From.Name), "_", "-")
	if strings.HasPrefix(r.backend(), "etcd") && strings.HasSuffix(name, "rdzv-endpoint") {
		scheme := "http://"
		if r.rdzvConf("protocol").V == "https" {
			scheme = "https://"
		}
		c.V = scheme + c.V
		return parseStore(c)
	}
	host, _, err := c.hostPort()
	if err != nil {
		return Store{}, err
	}
	return embedded(host, cmp.Or(r.sched.port, DefaultStorePort)), nil
}

// agree reports whether two stores may be one. An etcd does not contradict torch's host. The port of
// two hosts does not matter, since the others name only a host. A name may mean any address.
func agree(a, b Store) bool {
	if a.Embedded != b.Embedded {
		return true
	}
	if !a.Embedded {
		return slices.Equal(a.Endpoints, b.Endpoints)
	}
	if isAddr(a.Host) != isAddr(b.Host) {
		return true
	}
	one, two := strings.TrimSuffix(a.Host, "."), strings.TrimSuffix(b.Host, ".")
	first, domain, _ := strings.Cut(one, ".")
	second, other, _ := strings.Cut(two, ".")
	begins := strings.HasPrefix(domain+".", other+".") || strings.HasPrefix(other+".", domain+".")
	return strings.EqualFold(one, two) ||
		!isAddr(one) && strings.EqualFold(first, second) && (domain == "" || other == "" || begins)
}

func isAddr(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func (r *resolver) nowhere() error {
	nodes := r.job.Nodes
	e := contradiction(r.with("--store", "HOST")+"   # HOST: one of the nodes, the same on all",
		"this job has %d nodes (%s), but no store address", nodes.V, nodes.From.Name)
	if r.sched.nowhere != "" {
		e.What += "; " + r.sched.nowhere
	}
	if r.sched.fix != "" {
		e.Fix = r.sched.fix
	}
	return e
}

// loopback refuses a store address that every node would look for on itself.
func (r *resolver) loopback(v setting.Value[Store]) error {
	if !isLoopback(v.V) {
		return nil
	}
	kind := "a loopback address"
	if a, err := netip.ParseAddr(v.V.Host); err == nil && a.IsUnspecified() {
		kind = "which is any address of a node itself"
	}
	what := fmt.Sprintf("%s names %s, %s, but the job has %d nodes (%s)",
		v.From.Name, v.V.Host, kind, r.job.Nodes.V, r.job.Nodes.From.Name)
	if v.From.Tier == setting.Explicit {
		r.note(finding.Skipf("%s: this is right only if all of them are on this machine", what).Named("job.store"))
		return nil
	}
	fix := r.paste("--store", "HOST") + "   # HOST: one of the nodes, the same on all\n" +
		r.paste("--store", "127.0.0.1") + "   # all nodes on this machine"
	return contradiction(fix, "%s: each node would wait for the others on itself", what)
}

func isLoopback(s Store) bool {
	if !s.Embedded {
		return false // a local proxy may lead to an external etcd
	}
	host := strings.ToLower(strings.TrimSuffix(s.Host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback() || a.IsUnspecified()
	}
	return host == "localhost" || strings.HasPrefix(host, "localhost.") || host == "ip6-localhost" ||
		host == "ip6-loopback"
}

// defaultEtcdPort is the client port registered for etcd.
const defaultEtcdPort = "2379"

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*)$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
)

// splitHostPort splits host[:port], [v6][:port] or a bare IPv6 address; port is "" if missing.
func splitHostPort(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok = strings.Cut(rest, "]")
		port, colon := strings.CutPrefix(rest, ":")
		if !ok || rest != "" && (!colon || port == "") {
			return "", "", errors.New("an IPv6 address with a port is written [ADDRESS]:PORT")
		}
		return host, port, nil
	}
	switch strings.Count(s, ":") {
	case 0:
		return s, "", nil
	case 1:
		host, port, _ = strings.Cut(s, ":")
		if port == "" {
			return "", "", errors.New("the port after ':' is missing")
		}
		return host, port, nil
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return "", "", errors.New("an IPv6 address with a port is written [ADDRESS]:PORT")
	}
	return s, "", nil
}

// hostPort parses and checks a claim as host[:port]; port is 0 if missing.
func (c claim) hostPort() (string, int, error) {
	const fix = "write it as HOST or HOST:PORT"
	host, text, err := splitHostPort(c.V)
	if err != nil {
		return "", 0, c.refuse(fix, "%v", err)
	}
	if err := c.checkHost(host); err != nil {
		return "", 0, err
	}
	if text == "" {
		return host, 0, nil
	}
	if text == "0" && c.From.Tier != setting.Explicit {
		return host, 0, nil // torchrun's "any port"
	}
	port, err := readPort(text)
	if err != nil {
		return "", 0, c.refuse(fix, "%v", err)
	}
	return host, port, nil
}

func (c claim) checkHost(host string) error {
	if digits.MatchString(host) {
		return contradiction("write it as HOST or HOST:PORT, where HOST is one of the nodes",
			"%s: %q is a number, not a host; is it a port or a count?", c, host)
	}
	if _, err := netip.ParseAddr(host); err == nil || hostName.MatchString(host) {
		return nil
	}
	return c.refuse("write it as HOST or HOST:PORT",
		"%q is not a host name or address (a variable that was not expanded?)", host)
}

func parsePort(c claim) (int, error) {
	n, err := readPort(c.V)
	if err != nil {
		return 0, c.refuse(c.From.Name+" takes a number from 1 to 65535", "%v", err)
	}
	return n, nil
}

func readPort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil && !digits.MatchString(s):
		return 0, fmt.Errorf("%q is not a port", s)
	case err != nil || n < 1 || n > 65535:
		return 0, fmt.Errorf("port %s is out of range: ports run from 1 to 65535", s)
	}
	return n, nil
}

// NextPort returns the endpoint with the next port, for a port in use. An invalid
// endpoint gives a pattern.
func NextPort(endpoint string) string {
	host, text, err := net.SplitHostPort(endpoint)
	port, perr := readPort(text)
	switch {
	case err != nil || perr != nil:
		host, port = "HOST", DefaultStorePort+1
	case port == 65535:
		port--
	default:
		port++
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func embedded(host string, port int) Store {
	endpoint := net.JoinHostPort(host, strconv.Itoa(port))
	return Store{Embedded: true, Host: host, Port: port, Endpoints: []string{endpoint}}
}

// parseStore parses --store: HOST, HOST:PORT and [v6]:PORT name the store host of
// an embedded store, http(s)://HOST:PORT[,HOST:PORT] an etcd that runs already.
func parseStore(c claim) (Store, error) {
	scheme, rest, external := strings.Cut(c.V, "://")
	if !external {
		if strings.Contains(c.V, ",") {
			return Store{}, c.refuse("--store http://"+c.V,
				"several endpoints belong to an etcd that runs already: http://A:2379,B:2379")
		}
		host, port, err := c.hostPort()
		if err != nil {
			return Store{}, err
		}
		if port == 0 {
			port = DefaultStorePort
		}
		return embedded(host, port), nil
	}
	if scheme != "http" && scheme != "https" {
		return Store{}, c.refuse("--store http://HOST:2379", "%q is not http or https", scheme)
	}
	var s Store
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimPrefix(part, scheme+"://")
		u, err := url.Parse(scheme + "://" + part)
		if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
			u.Fragment != "" {
			return Store{}, c.refuse("--store "+scheme+"://HOST:2379", "an endpoint is HOST:PORT and nothing else")
		}
		if err := c.checkHost(u.Hostname()); err != nil {
			return Store{}, err
		}
		port := u.Port()
		if port == "" {
			port = defaultEtcdPort
		}
		if _, err := readPort(port); err != nil {
			return Store{}, c.refuse("--store "+scheme+"://HOST:2379", "%v", err)
		}
		s.Endpoints = append(s.Endpoints, scheme+"://"+net.JoinHostPort(u.Hostname(), port))
	}
	return s, nil
}
