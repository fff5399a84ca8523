package faultbench

import "fmt"

// byDNS takes the names out of /etc/hosts and has the hosts ask a name server
// for host0.lab.
func (tr *trial) byDNS(how string) {
	tr.store = "host0.lab"
	assist(tr, tr.extra, "dns-"+how, tr.extra.Addr+":53")
	tr.each(func(h *host) {
		h.Etc("hosts", "127.0.0.1 localhost\n")
		h.Etc("resolv.conf", "nameserver "+tr.extra.Addr+"\n")
	})
}

// nameFaults: who finds the meeting point.
func nameFaults() []fault {
	// elsewhere has the sick host ask a server of its own.
	elsewhere := func(how string) func(*trial) {
		return func(tr *trial) {
			tr.byDNS("good")
			tr.sick.assist(tr, "dns-"+how, "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", "nameserver 127.0.0.1\n")
		}
	}
	return []fault{{
		group: "names", name: "no such name on one node", ci: true,
		inject: elsewhere("nxdomain"),
		want:   []string{"store.resolves"},
	}, {
		group: "names", name: "no such name anywhere", nobody: true,
		inject: func(tr *trial) { tr.byDNS("nxdomain") },
		want:   []string{"store.resolves"},
	}, {
		group: "names", name: "the name server of one node fails", ci: true,
		inject: elsewhere("servfail"),
		want:   []string{"store.resolves", "dns.servers"},
	}, {
		group: "names", name: "the name server of one node refuses",
		inject: elsewhere("refused"),
		want:   []string{"store.resolves", "dns.servers"},
	}, {
		group: "names", name: "the name server of one node is silent",
		inject: elsewhere("silent"),
		want:   []string{"store.resolves", "dns.servers"},
	}, {
		group: "names", name: "the first of two name servers is silent on one node", runs: true,
		inject: func(tr *trial) {
			tr.byDNS("good")
			tr.sick.assist(tr, "dns-silent", "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", fmt.Sprintf("nameserver 127.0.0.1\nnameserver %s\noptions timeout:1\n", tr.extra.Addr))
		},
		want: []string{"dns.servers"},
	}, {
		group: "names", name: "two name servers disagree on one node", runs: true,
		inject: func(tr *trial) {
			tr.byDNS("good")
			tr.sick.assist(tr, "dns-other", "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", fmt.Sprintf("nameserver %s\nnameserver 127.0.0.1\n", tr.extra.Addr))
		},
		want: []string{"dns.agree", "dns.servers"},
	}, {
		group: "names", name: "an old address in one hosts file", ci: true,
		inject: func(tr *trial) {
			tr.sick.Etc("hosts", "127.0.0.1 localhost\n10.77.0.99 host0\n")
		},
		want: []string{"store.answers", "69 host0"},
	}, {
		group: "names", name: "no name in one hosts file",
		inject: func(tr *trial) { tr.sick.Etc("hosts", "127.0.0.1 localhost\n") },
		want:   []string{"store.resolves", "dns.servers"}, // no name server is there to say no
	}, {
		group: "names", name: "the name is loopback in one hosts file",
		inject: func(tr *trial) { tr.sick.Etc("hosts", "127.0.0.1 localhost\n127.0.1.1 host0\n") },
		want:   []string{"store.resolves"},
	}, {
		group: "names", name: "the line has a typo", nobody: true,
		inject: func(tr *trial) { tr.byDNS("good"); tr.store = "hots0.lab" },
		want:   []string{"store.resolves"},
	}}
}

// storeFaults: the meeting point itself. Here the sick host is host0.
func storeFaults() []fault {
	first := func(f func(*trial)) func(*trial) {
		return func(tr *trial) {
			tr.sick = tr.hosts[0]
			f(tr)
		}
	}
	return []fault{{
		group: "store", name: "something else has its port", ci: true,
		inject: first(func(tr *trial) { tr.sick.assist(tr, "listen", "0.0.0.0:29377") }),
		want:   []string{"store.port"},
	}, {
		group: "store", name: "a firewall drops its port", ci: true,
		inject: first(func(tr *trial) {
			tr.sick.Run("table inet f {\nchain i {\ntype filter hook input priority 0\ntcp dport 29377 iif != lo drop\n}\n}\n", "nft", "-f", "-")
		}),
		want: []string{"store.answers", "69 host0"},
	}, {
		group: "store", name: "a firewall rejects its port",
		inject: first(func(tr *trial) {
			tr.sick.Run("table inet f {\nchain i {\ntype filter hook input priority 0\ntcp dport 29377 iif != lo reject with tcp reset\n}\n}\n", "nft", "-f", "-")
		}),
		want: []string{"store.answers", "69 host0"},
	}, {
		group: "store", name: "another program answers at its address", sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.extra.Run("", "true")
			assist(tr, tr.extra, "proxy", "0.0.0.0:29377")
			tr.sick.Etc("hosts", "127.0.0.1 localhost\n"+tr.extra.Addr+" host0\n")
		},
		want: []string{"store.answers", "69 no store", "69 something", "69 does not"},
	}}
}
