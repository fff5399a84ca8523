package truth

import (
	"fmt"
	"strings"
)

// hosts writes the hosts file of a host, in which some names have other addresses; "": none.
func (b *bed) hostsFile(h *host, other map[string]string) {
	text := "127.0.0.1 localhost\n"
	for _, o := range b.hosts {
		addr, changed := other[o.Name]
		if !changed {
			addr = o.Addr
		}
		if addr != "" {
			text += addr + " " + o.Name + "\n"
		}
	}
	h.Etc("hosts", text)
}

// resolver runs a name server outside the job, and has a host ask it after its hosts file.
func (b *bed) resolver(h *host, how string) {
	args := []string{"dns.py", how, "0.0.0.0"}
	for _, o := range b.hosts {
		args = append(args, o.Name+"="+o.Addr)
	}
	b.serves(b.extra, args...)
	h.Etc("resolv.conf", "nameserver "+b.extra.Addr+"\n")
}

// names returns faults of the hosts files and of name servers.
func names() []mechanism {
	other := func(who func(b *bed, f fault) string, addr string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.each(f, func(h *host) { b.hostsFile(h, map[string]string{who(b, f): addr}) })
		}
	}
	first := func(b *bed, _ fault) string { return b.hosts[0].Name }
	own := func(b *bed, f fault) string { return b.hosts[f.at].Name }
	peer := func(b *bed, f fault) string { return b.hosts[f.to].Name }
	without := func(how string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			none := map[string]string{}
			for _, o := range b.hosts {
				none[o.Name] = ""
			}
			b.hostsFile(b.hosts[f.at], none)
			b.resolver(b.hosts[f.at], how)
		}
	}
	with := func(how string) func(b *bed, f fault) {
		return func(b *bed, f fault) { b.resolver(b.hosts[f.at], how) }
	}
	all := []mechanism{
		{name: "rank 0 is unknown", scope: lastOnes, make: other(first, "")},
		{name: "an old address of rank 0", scope: lastOnes, causes: "name reach", make: other(first, "10.77.0.99")},
		{name: "rank 0 is loopback", scope: lastOnes, make: other(first, "127.0.1.1")},
		{name: "rank 0 is another node", scope: lastOnes, causes: "name reach", make: func(b *bed, f fault) {
			b.hostsFile(b.hosts[f.at], map[string]string{b.hosts[0].Name: b.hosts[f.at].Addr})
		}},
		{name: "the own name is loopback", make: other(own, "127.0.1.1")},
		{name: "the own name is unknown", make: other(own, "")},
		{name: "an old address of the own name", causes: "name reach", make: other(own, "10.77.0.99")},
		{name: "an old address of another node", scope: onePair, make: other(peer, "10.77.0.99")},
		{name: "a name server alone", make: without("right")},
		{name: "a slow name server alone", make: without("slow")},
		{name: "a name server that knows no name, alone", make: without("none")},
		{name: "a name server that knows every name, alone", make: without("any")},
		{name: "a silent name server alone", make: without("silent")},
		{name: "a silent name server after the hosts file", make: with("silent")},
		{name: "a name server that knows no name, after the hosts file", make: with("none")},
		{name: "a name server that knows every name, after the hosts file", make: with("any")},
		{name: "two silent name servers after the hosts file", make: func(b *bed, f fault) {
			b.hosts[f.at].Etc("resolv.conf", "nameserver 10.77.0.98\nnameserver 10.77.0.99\n")
		}},
		{name: "an empty resolv.conf", make: func(b *bed, f fault) { b.hosts[f.at].Etc("resolv.conf", "") }},
		{name: "search domains", make: func(b *bed, f fault) {
			b.hosts[f.at].Etc("resolv.conf", "search a.example b.example c.example\noptions ndots:5\n")
		}},
		{name: "nsswitch.conf without files", causes: "name", make: func(b *bed, f fault) {
			b.hosts[f.at].Etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: dns\n")
		}},
		{name: "aliases in the hosts file", make: func(b *bed, f fault) {
			text := "127.0.0.1 localhost\n::1 localhost\n"
			for _, o := range b.hosts {
				text += fmt.Sprintf("%s %s.lab %s %s\n", o.Addr, o.Name, o.Name, strings.ToUpper(o.Name))
			}
			b.hosts[f.at].Etc("hosts", text)
		}},
	}
	for i := range all {
		m := &all[i]
		m.topic, m.takes = "name", "names"
		// A job that needs no name is lucky.
		m.degrades = m.name != "aliases in the hosts file" && m.name != "search domains" && m.name != "a name server alone"
		if m.causes == "" {
			m.causes = "name"
		}
	}
	return all
}
