package faultbench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// naming is how the hosts find each other.
type naming struct {
	dns     []string // how the name server behaves; nil: hosts files alone
	search  []string
	options []string // lines of resolv.conf
	lines   func(h *host, lines []string) []string
	spell   func(h *host) string // the store's name
	own     string               // the kind of own host names; "": one name for all
}

// storeOddities returns oddities in the store's address and in the names of the hosts.
func storeOddities() []oddity {
	spelled := func(f func(s *healthy, h *host) string) func(*healthy) {
		return func(s *healthy) { s.naming.spell = func(h *host) string { return f(s, h) } }
	}
	// served puts the names into a name server.
	served := func(how ...string) func(*healthy) {
		return func(s *healthy) { s.naming.dns = append([]string{}, how...) }
	}
	resolver := func(lines ...string) func(*healthy) {
		return func(s *healthy) { s.naming.options = append(s.naming.options, lines...) }
	}
	hosts := func(f func(s *healthy, h *host, lines []string) []string) func(*healthy) {
		return func(s *healthy) {
			s.naming.lines = func(h *host, lines []string) []string { return f(s, h, lines) }
		}
	}
	return []oddity{
		{name: "names by DNS", takes: "names", make: served()},
		// A server that drops questions for AAAA is missing on purpose: with it each
		// lookup of glibc takes 5 s or longer, which launch reports.
		{name: "a slow name server", takes: "names", make: served("slow")},
		{name: "a name server that denies AAAA", takes: "names family", make: served("denies")},
		{name: "a name server that answers for any name", takes: "names search family own", make: func(s *healthy) {
			s.naming.dns, s.naming.own = []string{"any"}, "short"
		}},
		{name: "six domains to search", takes: "search", make: func(s *healthy) {
			s.naming.search = []string{"train.svc.cluster.local", "svc.cluster.local", "cluster.local", "eu.example.com",
				"example.com", "example.net"}
		}},
		{name: "ndots:5", make: resolver("options ndots:5 timeout:2 attempts:2")},
		{name: "comments and options in resolv.conf", make: resolver("# made by a tool", "; do not edit",
			"options edns0 trust-ad rotate single-request-reopen", "sortlist 10.0.0.0/255.0.0.0")},
		{name: "own host names", takes: "own", needs: "unshare", make: func(s *healthy) { s.naming.own = "short" }},
		{name: "own host names with a domain", takes: "own", needs: "unshare",
			make: func(s *healthy) { s.naming.own = "lab" }},
		{name: "all are called localhost", takes: "own hosts names", needs: "unshare", make: func(s *healthy) {
			s.naming.own = "localhost"
			s.naming.lines = func(_ *host, lines []string) []string {
				return append([]string{"127.0.0.1 localhost.localdomain localhost4"}, lines...)
			}
		}},
		{name: "uneven hosts files", takes: "hosts names", make: hosts(func(s *healthy, h *host, lines []string) []string {
			s.r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			more := []string{"# by hand", "203.0.113.7 license.example.com license", "::1 ip6-localhost ip6-loopback", "",
				"ff02::1 ip6-allnodes", "10.9.9.9\told-login # gone"}
			return append(more[:s.r.IntN(len(more))], lines...)
		})},
		{name: "aliases in the hosts files", takes: "hosts names",
			make: hosts(func(_ *healthy, _ *host, lines []string) []string {
				for i, l := range lines {
					if f := strings.Fields(l); strings.HasPrefix(f[1], "host") {
						lines[i] = l + " " + f[1] + "-ib " + strings.ToUpper(f[1]) + " node-" + f[1] + ".old.example.com"
					}
				}
				return lines
			})},
		{name: "the own name on 127.0.1.1", takes: "hosts names own", needs: "unshare", make: func(s *healthy) {
			s.naming.own = "short"
			s.naming.lines = func(h *host, lines []string) []string {
				for i, l := range lines {
					if f := strings.Fields(l); slices.Contains(f[1:], h.Name) {
						lines[i] = "127.0.1.1 " + strings.Join(f[1:], " ")
					}
				}
				return lines
			}
		}},
		{name: "only the store's and the own host in the hosts files", takes: "hosts names",
			make: hosts(func(_ *healthy, h *host, lines []string) []string {
				return slices.DeleteFunc(lines, func(l string) bool {
					f := strings.Fields(l)
					return strings.HasPrefix(f[1], "host") && f[1] != "host0" && f[1] != h.Name
				})
			})},
		{name: "the store by its address", takes: "store",
			make: spelled(func(s *healthy, _ *host) string { return s.addr(s.hosts[0]) })},
		{name: "the store by its full name", takes: "store",
			make: spelled(func(*healthy, *host) string { return "host0.lab" })},
		{name: "the store by a name with a dot at its end", takes: "store names", make: func(s *healthy) {
			s.naming.dns = []string{}
			s.naming.spell = func(*host) string { return "host0.lab." }
		}},
		{name: "the store in capital letters", takes: "store",
			make: spelled(func(*healthy, *host) string { return "HOST0.Lab" })},
		{name: "the store with a port", takes: "store ports",
			make: spelled(func(*healthy, *host) string { return "host0.lab:28400" })},
		{name: "each spells the store in another way", takes: "store", make: func(s *healthy) {
			ways := map[*host]string{}
			s.each(func(h *host) { ways[h] = one(s, "host0.lab", "host0", s.addr(s.hosts[0])) })
			s.naming.search = append(s.naming.search, "lab")
			s.naming.spell = func(h *host) string { return ways[h] }
		}},
		{name: "an etcd that runs already", takes: "store", needs: "etcd", make: func(s *healthy) {
			at := "http://" + net.JoinHostPort(s.server(), "2379")
			s.serve("ready to serve", nil, "etcd", "--data-dir", s.extra.Dir()+"/etcd", "--listen-client-urls", at,
				"--advertise-client-urls", at,
				"--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
				"--initial-cluster", "default=http://127.0.0.1:2380")
			s.naming.spell = func(*host) string { return at }
		}},
		{name: "a launch store that runs already", takes: "store", make: func(s *healthy) {
			scheme, env := "http", []string{}
			if i := slices.IndexFunc(s.hosts[0].env, func(e string) bool {
				return strings.HasPrefix(e,
					"LAUNCH_TOKEN=")
			}); i >= 0 {
				scheme, env = "https", s.hosts[0].env[i:i+1]
			}
			s.serve("", env, tools.launch, "store", "--store", s.server())
			s.naming.spell = func(*host) string { return scheme + "://" + net.JoinHostPort(s.server(), "29377") }
		}},
	}
}

// serve runs a program on the host outside the job until the start is over. It
// returns when the program has printed a text on stderr.
func (s *healthy) serve(ready string, env []string, argv ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.extra.Command(ctx, argv...)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	said, found := make(chan bool), false
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !found && strings.Contains(lines.Text(), ready) {
				found = true
				said <- true
			}
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		for range said {
		}
		_ = cmd.Wait()
	})
	select {
	case ok := <-said:
		if !ok {
			s.t.Fatalf("%s ended", argv[0])
		}
	case <-time.After(joinTimeout):
		s.t.Fatalf("%s did not print %q", argv[0], ready)
	}
}

// name writes the files by which the hosts find each other.
func (s *healthy) name() {
	n := s.naming
	if n.dns != nil {
		spec := strings.Join(append([]string{"zone", s.at(0, "10.77.0.1")}, n.dns...), "-")
		assist(s.trial, s.extra, spec, net.JoinHostPort(s.server(), "53"))
		n.search = append(n.search, "lab")
	}
	kernel, _ := os.Hostname()
	for _, h := range s.hosts {
		lines := []string{"127.0.0.1 localhost"}
		if n.own == "" {
			lines = append(lines, "127.0.1.1 "+kernel)
		} else {
			own := map[string]string{"short": h.Name, "lab": h.Name + ".lab", "localhost": "localhost.localdomain"}[n.own]
			h.wrap = append([]string{"unshare", "--uts", "sh", "-c", `hostname "$0" && exec "$@"`, own}, h.wrap...)
		}
		if n.dns == nil {
			for _, o := range s.hosts {
				lines = append(lines, fmt.Sprintf("%s %s %s.lab", s.addr(o), o.Name, o.Name))
			}
		}
		if n.lines != nil {
			lines = n.lines(h, lines)
		}
		h.Etc("hosts", strings.Join(lines, "\n")+"\n")
		h.Etc("resolv.conf", s.resolvConf(n))
		h.flags = append(h.flags, "--store", cmp.Or(n.spelled(h), "host0"))
	}
}

func (n naming) spelled(h *host) string {
	if n.spell == nil {
		return ""
	}
	return n.spell(h)
}

// resolvConf returns the text of resolv.conf. Without a name server the resolver
// asks this host's port 53, which refuses at once.
func (s *healthy) resolvConf(n naming) string {
	lines := slices.Clone(n.options)
	if len(n.search) > 0 {
		lines = append(lines, "search "+strings.Join(n.search, " "))
	}
	if n.dns != nil {
		lines = append(lines, "nameserver "+s.server())
	}
	return strings.Join(lines, "\n") + "\n"
}

// zone serves the zone lab: host0 to host9 from the first address on, and NXDOMAIN
// for all other names. "slow" takes 400 ms, "denies" answers NXDOMAIN to an AAAA
// where there is an A, "lacks2" does not have host2: "zone-10.77.0.1-slow".
func zone(spec, addr string) error {
	words := strings.Split(spec, "-")
	first, how := net.ParseIP(words[1]), words[2:]
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	soa, _ := dns.NewRR("lab. 30 IN SOA ns.lab. root.lab. 1 60 60 60 30")
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if slices.Contains(how, "slow") {
			<-time.After(400 * time.Millisecond)
		}
		m := new(dns.Msg).SetReply(q)
		m.RecursionAvailable = true
		name, kind := strings.ToLower(q.Question[0].Name), dns.TypeA
		at := slices.Clone(first.To16())
		if first.To4() == nil {
			kind = dns.TypeAAAA
		}
		var i byte
		if n, _ := fmt.Sscanf(name, "host%d.lab.", &i); n != 1 || name != fmt.Sprintf("host%d.lab.", i) ||
			slices.Contains(how, fmt.Sprintf("lacks%d", i)) {
			m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa}
			if slices.Contains(how, "any") && q.Question[0].Qtype == dns.TypeA {
				rr, _ := dns.NewRR(q.Question[0].Name + " 30 IN A 10.77.0.99")
				m.Rcode, m.Ns, m.Answer = dns.RcodeSuccess, nil, []dns.RR{rr}
			}
		} else if at[15] += i; q.Question[0].Qtype == kind {
			rr, _ := dns.NewRR(fmt.Sprintf("%s 30 IN %s %s", q.Question[0].Name, dns.TypeToString[kind], at))
			m.Answer = []dns.RR{rr}
		} else if m.Ns = []dns.RR{soa}; slices.Contains(how, "denies") {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})
	fmt.Println("ready")
	return (&dns.Server{PacketConn: conn, Handler: handler}).ActivateAndServe()
}
