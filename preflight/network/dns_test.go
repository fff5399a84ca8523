package network

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/fabric"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/checktest"
)

// withDNS is a job of four nodes whose store's name is known to name servers
// alone.
func withDNS(said ...dns.Said) preflight.Input {
	in := checktest.Four()
	in.Node.System.Resolver = fabric.Resolver{Ndots: 1, Timeout: 5, Attempts: 2, Services: []string{"files", "dns"}}
	for i := range said {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(200 + i)})
		said[i].Server = netip.AddrPortFrom(a, 53)
		in.Node.System.Resolver.Servers = append(in.Node.System.Resolver.Servers, a)
	}
	in.Servers = func(_ context.Context, host string) []dns.Said { return said }
	return in
}

func storeAt(in preflight.Input, host string) preflight.Input { in.Job.Store.V.Host = host; return in }

func withHosts(in preflight.Input, lines ...string) preflight.Input {
	for _, l := range lines {
		f := strings.Fields(l)
		in.Node.System.Hosts = append(in.Node.System.Hosts, fabric.HostsLine{Addr: netip.MustParseAddr(f[0]), Names: f[1:]})
	}
	return in
}

func found(addrs ...string) dns.Answer {
	a := dns.Answer{Name: "host0.hpc.test", Says: dns.Found, Took: 2 * time.Millisecond}
	for _, s := range addrs {
		a.Addrs = append(a.Addrs, netip.MustParseAddr(s))
	}
	return a
}

func replies(s dns.Says) dns.Answer {
	return dns.Answer{Name: "host0", Says: s, Took: time.Millisecond}
}

func server(answers ...dns.Answer) dns.Said { return dns.Said{Answers: answers} }

func TestNameServers(t *testing.T) {
	good := server(found("10.0.0.1"))
	half := found("10.0.0.1")
	half.Half = true
	refused := dns.Answer{Name: "host0", Says: dns.Unreachable, Why: "connection refused: nothing listens there"}
	for _, tt := range []struct {
		name   string
		in     preflight.Input
		want   []string
		breaks string
	}{
		{"all well", withDNS(good, good), []string{"ok 10.0.0.200, 10.0.0.201, each question within 2ms"}, ""},
		{"well, and no such name", withDNS(server(replies(dns.NotFound))), []string{"ok 10.0.0.200"}, ""},
		{"a name in /etc/hosts", withHosts(withDNS(server(replies(dns.Silent))), "10.0.0.1 HOST0"),
			[]string{"skip no name of this job needs a name server"}, ""},
		{"an address", storeAt(withDNS(server(replies(dns.Silent))), "10.0.0.1"), []string{"skip no name of this job"}, ""},
		{"this machine", storeAt(withDNS(server(replies(dns.Silent))), "localhost"), []string{"skip no name of this job"},
			""},
		{"one node", checktest.Nodes(withDNS(server(replies(dns.Silent))), 1), []string{"skip no name of this job"}, ""},
		{"the first silent", withDNS(server(replies(dns.Silent)), good),
			[]string{"warn name server 10.0.0.200 does not answer; 10.0.0.201 answers"}, "waits 5 s"},
		{"the last silent", withDNS(good, server(replies(dns.Silent))),
			[]string{"warn name server 10.0.0.201 does not answer; 10.0.0.200 answers"}, "takes 10 s"},
		{"two silent", withDNS(server(replies(dns.Silent)), server(replies(dns.Silent)), good),
			[]string{"warn 10.0.0.200 does not answer, 10.0.0.201 does not answer; 10.0.0.202 answers"}, "waits 10 s"},
		{"all silent", withDNS(server(replies(dns.Silent)), server(replies(dns.Silent))),
			[]string{"warn 10.0.0.201 does not answer"}, "after up to 20 s"},
		{"SERVFAIL", withDNS(server(replies(dns.ServFail)), good),
			[]string{"warn name server 10.0.0.200 answers SERVFAIL; 10.0.0.201 answers"}, "fewer servers"},
		{"REFUSED by all", withDNS(server(replies(dns.Refused))), []string{"warn name server 10.0.0.200 answers REFUSED"},
			"only names in /etc/hosts"},
		{"nothing listens", withDNS(server(refused)),
			[]string{"warn name server 10.0.0.200 cannot be asked (connection refused: nothing listens there)"},
			"only names in"},
		{"noise", withDNS(server(dns.Answer{Says: dns.Garbage, Why: "bad header"}), good),
			[]string{"warn cannot be asked (bad header)"}, "waits 5 s"},
		{"one family is not answered", withDNS(server(half), good),
			[]string{"warn name server 10.0.0.200 answers for one address family only"}, "waits 5 s"},
		{"they know different addresses", withDNS(good, server(found("10.0.0.9"))),
			[]string{"warn the name servers disagree on host0: 10.0.0.200 answers 10.0.0.1, 10.0.0.201 answers 10.0.0.9"},
			"the server that is asked decides"},
		{"one does not know the name", withDNS(good, server(replies(dns.NotFound))),
			[]string{"warn 10.0.0.201 answers NXDOMAIN"}, "the server that is asked decides"},
		{"one turns through some of the addresses", withDNS(server(found("10.0.0.1", "10.0.0.2")),
			server(found("10.0.0.2", "10.0.0.3"))), []string{"ok "}, ""},
		{"they differ in how they do not know it", withDNS(server(replies(dns.NoData)), server(replies(dns.NotFound))),
			[]string{"ok "}, ""},
		{"two faults", withDNS(server(replies(dns.Silent)), good, server(replies(dns.NotFound))),
			[]string{"warn does not answer", "warn disagree"}, "waits 5 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := checktest.Verdicts(t, Checks(), "dns.servers", tt.in)
			if len(got) != len(tt.want) {
				t.Fatalf("found %+v, want %v", got, tt.want)
			}
			for i := range got {
				checktest.Wants(t, got[i], tt.want[i])
				if got[i].Status == finding.Warn && (got[i].Fix == "" || len(got[i].Seen) == 0) {
					t.Errorf("no fix or no evidence: %+v", got[i])
				}
			}
			if !strings.Contains(got[0].Breaks, tt.breaks) {
				t.Errorf("breaks %q, want %q", got[0].Breaks, tt.breaks)
			}
		})
	}
	in := withDNS(good)
	in.Servers = nil
	checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.servers", in), "skip this run asks no name server")
	in = withHosts(withDNS(server(replies(dns.Silent))), "10.0.0.1 host0")
	checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.servers", in), "skip no name of this job needs a name server")
	in.Node.System.Resolver.Services = []string{"dns", "files"} // the name in /etc/hosts waits, too
	got := checktest.Verdict(t, Checks(), "dns.servers", in)
	checktest.Wants(t, got, "warn does not answer")
	if !strings.Contains(got.Breaks, "also of a name in /etc/hosts") || !strings.Contains(got.Fix, "hosts: files dns") {
		t.Errorf("%+v", got)
	}
	in = withDNS(server(replies(dns.Silent)))
	in.Node.System.Resolver.Services = []string{"files"}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.servers", in), "skip no name of this job needs a name server")
}

func TestOwnNameIsAskedForWhereNothingElseKnowsIt(t *testing.T) {
	in := withDNS()
	if got := toServers(in); !slices.Equal(got, []string{"host0"}) {
		t.Errorf("names %v, want the store's alone", got)
	}
	in.Node.HostErr = "no such host"
	if got := toServers(in); !slices.Equal(got, []string{"host0", "node5"}) {
		t.Errorf("names %v, want the own one too", got)
	}
}

func TestSearchList(t *testing.T) {
	whole := found("10.0.0.7")
	same := found("10.9.9.9", "10.0.0.7")
	nowhere := replies(dns.NotFound)
	with := func(w *dns.Answer, answers ...dns.Answer) dns.Said { return dns.Said{Answers: answers, Whole: w} }
	for _, tt := range []struct {
		name string
		said dns.Said
		want string
	}{
		{"the first name is right", with(nil, found("10.0.0.1")), "ok the first name"},
		{"the third is", with(nil, nowhere, nowhere, found("10.0.0.1")), "ok 2 names are tried before the right one"},
		{"a domain that answers for any name", with(&whole, found("10.9.9.9")),
			"warn host0.rack1 becomes host0.hpc.test (10.9.9.9) here, but without the search list it is 10.0.0.7"},
		{"both are one host", with(&whole, same), "ok "},
		{"without the search list it does not exist", with(&nowhere, found("10.9.9.9")), "ok "},
		{"nothing", server(nowhere), "skip no name server has an address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := checktest.Verdict(t, Checks(), "dns.search", storeAt(withDNS(tt.said), "host0.rack1"))
			checktest.Wants(t, f, tt.want)
			if f.Status == finding.Warn && !strings.Contains(f.Fix, "--store 10.0.0.7") {
				t.Errorf("fix %q", f.Fix)
			}
		})
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.search", checktest.Nodes(checktest.Four(), 1)), "skip one node")
	checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.search", checktest.Four()), "skip no name of this job")
}

func TestReverseLookup(t *testing.T) {
	slow := dns.Answer{Says: dns.NotFound, Took: 1500 * time.Millisecond}
	quick := dns.Answer{Says: dns.NotFound, Took: time.Millisecond}
	silent := replies(dns.Silent)
	host := withDNS()
	host.Job.Line.Kind = launcher.Torchrun
	host.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
	for _, tt := range []struct {
		name    string
		in      preflight.Input
		answers []dns.Answer
		want    string
	}{
		{"quick", host, []dns.Answer{quick}, "ok answered within 1ms"},
		{"refused is quick, too", host, []dns.Answer{replies(dns.Refused)}, "ok "},
		{"slow", host, []dns.Answer{slow}, "warn a lookup of the name of 10.0.0.5 takes 1.5s"},
		{"no server answers", host, []dns.Answer{silent, silent}, "warn takes 10s or longer"},
		{"the first does not", host, []dns.Answer{silent, quick}, "warn takes 5s or longer"},
		{"in /etc/hosts", withHosts(host, "10.0.0.5 node5"), []dns.Answer{silent}, "skip 10.0.0.5 is in /etc/hosts"},
		{"another node's business", withDNS(), []dns.Answer{silent}, "skip only node 0 needs it"},
		{"mpirun", func() preflight.Input { in := host; in.Job.Line.Kind = launcher.Mpirun; return in }(),
			[]dns.Answer{silent}, "skip torch's store"},
		{"no address yet", func() preflight.Input { in := host; in.Addr = netip.Addr{}; return in }(), []dns.Answer{silent},
			"skip not known"},
		{"no server", host, nil, "skip no name server is listed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Reverse = func(context.Context, netip.Addr) []dns.Answer { return tt.answers }
			checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.reverse", tt.in), tt.want)
		})
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "dns.reverse", host), "skip this run asks no name server")
}

func TestAddressesOfTheStore(t *testing.T) {
	six := checktest.Four()
	six.Node.Interfaces[1].Addrs = []netip.Prefix{netip.MustParsePrefix("fd00::5/64")}
	six.Node.Interfaces[2].Addrs = nil
	onHost0 := checktest.Four()
	onHost0.Node.Hostname = "host0.hpc.test"
	forwarded := onHost0
	forwarded.Serve = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:29377")}
	machines := func(hosts ...string) preflight.Input {
		in := checktest.Four()
		in.Job.Hosts = hosts
		return in
	}
	for _, tt := range []struct {
		name  string
		in    preflight.Input
		host  string
		addrs []string
		want  string
	}{
		{"one of another node", checktest.Four(), "host0", []string{"10.0.0.1"}, "ok host0 is 10.0.0.1"},
		{"both families", checktest.Four(), "host0", []string{"10.0.0.1", "fd00::1"}, "ok "},
		{"two networks of another host", checktest.Four(), "host0", []string{"10.0.0.1", "10.1.0.1"}, "ok "},
		{"loopback on its own host, as Debian has it", onHost0, "host0", []string{"127.0.1.1"}, "ok "},
		{"loopback by an alias of this host", withHosts(checktest.Four(), "127.0.1.1 node5 head"), "head",
			[]string{"127.0.1.1"}, "ok "},
		{"loopback on another host", withHosts(checktest.Four(), "127.0.1.1 host0"), "host0", []string{"127.0.1.1"},
			"warn host0 is 127.0.1.1 on this node, which is node5"},
		{"localhost", checktest.Four(), "localhost", []string{"127.0.0.1"}, "ok "},
		{"localhost of one machine", machines("n1", "n1"), "localhost", []string{"127.0.0.1"}, "ok "},
		{"localhost of several machines", machines("n1", "n2"), "localhost", []string{"127.0.0.1"},
			"warn the store is at localhost, which is each machine itself, and the job has 2: n1, n2"},
		{"the own name at an address of the machine around", onHost0, "host0", []string{"10.0.0.1"},
			"warn host0 is this node's own name, and 10.0.0.1 is no address of this node"},
		{"the own name at a gateway that forwards", forwarded, "host0", []string{"10.0.0.1"}, "ok "},
		{"all addresses of this host", checktest.Four(), "node5", []string{"10.0.0.5", "172.17.0.1"}, "ok "},
		{"of this host and another", checktest.Four(), "head", []string{"10.0.0.5", "10.0.0.6"},
			"ok head is 10.0.0.5, 10.0.0.6"},
		{"a Service of several pods", checktest.Four(), "train.ns.svc.cluster.local", []string{"10.0.0.5", "10.0.0.6"},
			"ok train.ns.svc.cluster.local is 10.0.0.5, 10.0.0.6"},
		{"a line for each node", withHosts(checktest.Four(), "10.0.0.1 all", "10.0.0.5 all", "10.0.0.6 all", "10.0.0.7 all"),
			"all", []string{"10.0.0.1", "10.0.0.5", "10.0.0.6", "10.0.0.7"}, "ok all is 10.0.0.1, 10.0.0.5, "},
		{"an old line of this host", withHosts(checktest.Four(), "10.0.0.5 node5", "10.0.0.9 node5"), "node5",
			[]string{"10.0.0.5", "10.0.0.9"}, "warn /etc/hosts has node5 more than once"},
		{"a pod by its name", checktest.Four(), "train-0.train.ns.svc", []string{"10.0.0.6"}, "ok "},
		{"two lines in one network", withHosts(checktest.Four(), "10.0.0.1 host0", "10.0.0.9 host0"), "host0",
			[]string{"10.0.0.1", "10.0.0.9"}, "warn /etc/hosts has host0 more than once, in one network: 10.0.0.1, 10.0.0.9"},
		{"two lines, two networks", withHosts(checktest.Four(), "10.0.0.1 host0", "10.7.0.9 host0"), "host0",
			[]string{"10.0.0.1", "10.7.0.9"}, "ok "},
		{"IPv6 only, on a node of IPv4", checktest.Four(), "host0", []string{"fd00::1"},
			"warn this node has no IPv6 address"},
		{"IPv4 only, on a node of IPv6", six, "host0", []string{"10.0.0.1"}, "warn this node has no IPv4 address"},
		{"IPv6 on a node of IPv6", six, "host0", []string{"fd00::1"}, "ok "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := storeAt(tt.in, tt.host)
			in.Resolve = func(context.Context, string) (out []netip.Addr, err error) {
				for _, s := range tt.addrs {
					out = append(out, netip.MustParseAddr(s))
				}
				return out, nil
			}
			checktest.Wants(t, checktest.Verdict(t, Checks(), "store.resolves", in), tt.want)
		})
	}
}

func TestUnknownNameIsExplainedByTheServers(t *testing.T) {
	no := replies(dns.NotFound)
	no.TTL = 30 * time.Second
	gone := &net.DNSError{Err: "no such host", IsNotFound: true}
	late := &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	pod := withDNS(server(no))
	pod.Job.Vouch = job.Scheduled
	for _, tt := range []struct {
		name string
		in   preflight.Input
		err  error
		want string
		fix  string
	}{
		{"no server knows it", withDNS(server(no)), gone, "warn host0 does not resolve on this node yet", ""},
		{"about to appear, and a cache keeps that it does not", pod, gone, "skip for up to 30s", "publishNotReadyAddresses"},
		{"the system gave up on a dead server, and the next knows it",
			withDNS(server(replies(dns.Silent)), server(found("10.0.0.1"))), late, "ok host0 is 10.0.0.1, which the system's " +
				"resolver does not find in time", ""},
		{"the system gave up on a dead server, and the next knows no such name",
			withDNS(server(replies(dns.Silent)), server(no)), late, "warn host0 does not resolve on", ""},
		{"no server answers", withDNS(server(replies(dns.Silent))), late, "skip could not tell", ""},
		{"a dot too many", storeAt(withDNS(server(no)), "host0."), gone, "warn host0. does not resolve", "--store host0"},
		{"a pod that is not ready", storeAt(withDNS(server(no)), "train-0.train.ns.svc"), gone, "warn does not resolve",
			"publishNotReadyAddresses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, tt.err }
			f := checktest.Verdict(t, Checks(), "store.resolves", tt.in)
			checktest.Wants(t, f, tt.want)
			if !strings.Contains(f.Fix, tt.fix) {
				t.Errorf("fix %q, want %q", f.Fix, tt.fix)
			}
			if len(f.Seen) == 0 {
				t.Errorf("nothing that the servers said: %+v", f)
			}
		})
	}
}
