package faultbench

import (
	"fmt"
	"strings"
)

// byDNS removes the names from /etc/hosts: the hosts ask a name server for
// host0.lab.
func (tr *trial) byDNS(how string) {
	tr.store = "host0.lab"
	assist(tr, tr.extra, "dns-"+how, tr.extra.Addr+":53")
	tr.each(func(h *host) {
		h.Etc("hosts", "127.0.0.1 localhost\n")
		h.Etc("resolv.conf", "nameserver "+tr.extra.Addr+"\n")
	})
}

// named gives each host its own name, and the store is given by its address: the
// start needs no name.
func (tr *trial) named() {
	tr.store = tr.hosts[0].Addr
	tr.each(func(h *host) {
		h.wrap = []string{"unshare", "--uts", "sh", "-c", `hostname "$0" && exec "$@"`, h.Name}
	})
}

// zoned is named, with a name server that has the hosts' names.
func (tr *trial) zoned(how ...string) {
	tr.named()
	assist(tr, tr.extra, strings.Join(append([]string{"zone", tr.hosts[0].Addr}, how...), "-"), tr.extra.Addr+":53")
	tr.each(func(h *host) {
		h.Etc("hosts", "127.0.0.1 localhost\n127.0.1.1 "+h.Name+"\n")
		h.Etc("resolv.conf", "search lab\nnameserver "+tr.extra.Addr+"\n")
	})
}

// peerNameFaults returns faults in names of nodes that launch itself does not need.
func peerNameFaults() []fault {
	return []fault{{
		group: "names", name: "one node's name is in no name server", ci: true, sizes: []int{3, 5}, runs: true,
		inject: func(tr *trial) { tr.zoned(fmt.Sprintf("lacks%d", len(tr.hosts)-1)) },
		want:   []string{"peer.name"},
	}, {
		group: "names", name: "one node's name server knows no other node", sizes: []int{3, 5}, runs: true,
		inject: func(tr *trial) {
			tr.zoned()
			tr.sick.assist(tr, "dns-nxdomain", "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", "search lab\nnameserver 127.0.0.1\n")
		},
		want: []string{"peer.name"},
	}, {
		group: "names", name: "one node's name server is silent and no name is needed", runs: true,
		inject: func(tr *trial) {
			tr.zoned()
			tr.sick.assist(tr, "dns-silent", "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", "search lab\nnameserver 127.0.0.1\n")
		},
		want: []string{"peer.name", "dns.servers"},
	}, {
		group: "names", name: "one node's name is another's in the hosts files", ci: true, sizes: []int{3, 5}, runs: true,
		inject: func(tr *trial) {
			tr.named()
			tr.each(func(h *host) {
				text := "127.0.0.1 localhost\n"
				for _, o := range tr.hosts {
					at := o.Addr
					if o == tr.sick && h != tr.sick {
						at = tr.hosts[1].Addr
					}
					text += at + " " + o.Name + "\n"
				}
				h.Etc("hosts", text)
			})
		},
		want: []string{"peer.name"},
	}, {
		group: "names", name: "two nodes have one host name", ci: true, sizes: []int{3, 5}, runs: true,
		inject: func(tr *trial) {
			tr.named()
			tr.sick.wrap[len(tr.sick.wrap)-1] = tr.hosts[1].Name
		},
		want: []string{"warn peer.name nodes have the host name host1"},
	}, {
		group: "names", name: "one node's own name is unknown to it", runs: true,
		inject: func(tr *trial) {
			tr.named()
			tr.sick.wrap[len(tr.sick.wrap)-1] = "unknown-to-all"
		},
		want: []string{"host.resolves"},
	}, {
		group: "names", name: "one node is called 05", runs: true,
		inject: func(tr *trial) {
			tr.named()
			tr.sick.wrap[len(tr.sick.wrap)-1] = "05"
		},
		want: []string{"host.resolves"},
	}, {
		group: "names", name: "an old address of another node in one hosts file", runs: true,
		inject: func(tr *trial) {
			tr.named()
			old := tr.hosts[0]
			tr.sick.Etc("hosts", "127.0.0.1 localhost\n10.77.0.99 "+old.Name+"\n"+tr.sick.Addr+" "+tr.sick.Name+"\n")
		},
		want: []string{"peer.name"},
	}}
}

// nameFaults returns faults in the resolution of the store host's name.
func nameFaults() []fault {
	// elsewhere gives the sick host its own name server.
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
		group: "names", name: "the name does not exist yet on one node", ci: true, runs: true,
		inject: elsewhere("late-6"),
		want:   []string{"warn store.resolves host0.lab does not resolve on this node yet"},
	}, {
		group: "names", name: "no such name anywhere", shared: true,
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
		group: "names", name: "the spare name server is dead on one node", ci: true, runs: true,
		inject: func(tr *trial) {
			tr.byDNS("good")
			tr.sick.Etc("resolv.conf", fmt.Sprintf("nameserver %s\nnameserver 10.77.0.250\n", tr.extra.Addr))
		},
		want: []string{"warn dns.servers name server 10.77.0.250 does not answer"},
	}, {
		group: "names", name: "one node asks a dead name server before its hosts file", runs: true,
		inject: func(tr *trial) {
			tr.sick.Etc("nsswitch.conf", "hosts: dns files\n")
			tr.sick.Etc("resolv.conf", "nameserver 10.77.0.250\noptions timeout:1 attempts:1\n")
		},
		want: []string{"warn dns.servers name server 10.77.0.250 does not answer"},
	}, {
		group: "names", name: "the store's name has two addresses on one node, one of them dead", either: true,
		inject: func(tr *trial) {
			tr.sick.Etc("hosts", "127.0.0.1 localhost\n10.77.0.99 host0\n"+tr.hosts[0].Addr+" host0\n")
		},
		want: []string{"warn store.answers host0 has several addresses, and 10.77.0.99:29377 does not answer",
			"warn store.resolves /etc/hosts has host0 more than once"},
	}, {
		group: "names", name: "the line has a typo, and the name server answers for any name", ci: true, shared: true,
		inject: func(tr *trial) { tr.byDNS("any"); tr.store = "hots0.lab" },
		want:   []string{"warn store.answers the name servers answer for any name in lab"},
	}, {
		group: "names", name: "two name servers disagree on one node", runs: true,
		inject: func(tr *trial) {
			tr.byDNS("good")
			tr.sick.assist(tr, "dns-other", "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", fmt.Sprintf("nameserver %s\nnameserver 127.0.0.1\n", tr.extra.Addr))
		},
		want: []string{"dns.servers"},
	}, {
		group: "names", name: "an old address in one hosts file", ci: true,
		inject: func(tr *trial) {
			tr.sick.Etc("hosts", "127.0.0.1 localhost\n10.77.0.99 host0\n")
		},
		want: []string{"store.answers", "69 host0"},
	}, {
		group: "names", name: "no name in one hosts file",
		inject: func(tr *trial) { tr.sick.Etc("hosts", "127.0.0.1 localhost\n") },
		want:   []string{"store.resolves", "dns.servers"}, // there is no name server to deny it
	}, {
		group: "names", name: "the name is loopback in one hosts file",
		inject: func(tr *trial) { tr.sick.Etc("hosts", "127.0.0.1 localhost\n127.0.1.1 host0\n") },
		want:   []string{"store.resolves"},
	}, {
		group: "names", name: "the line has a typo", shared: true,
		inject: func(tr *trial) { tr.byDNS("good"); tr.store = "hots0.lab" },
		want:   []string{"store.resolves"},
	}}
}

// storeFaults returns faults in the store itself; host0 is the sick host.
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
			tr.sick.Run("table inet f {\nchain i {\ntype filter hook input priority 0\ntcp dport 29377 iif != lo drop\n}\n}\n",
				"nft", "-f", "-")
		}),
		want: []string{"store.answers", "69 host0"},
	}, {
		group: "store", name: "a firewall rejects its port",
		inject: first(func(tr *trial) {
			tr.sick.Run("table inet f {\nchain i {\ntype filter hook input priority 0\ntcp dport 29377 iif != lo reject with "+
				"tcp reset\n}\n}\n", "nft", "-f", "-")
		}),
		want: []string{"store.answers", "69 host0"},
	}, {
		group: "store", name: "another program answers at its address", sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.extra.Run("", "true")
			assist(tr, tr.extra, "proxy", "0.0.0.0:29377")
			tr.sick.Etc("hosts", "127.0.0.1 localhost\n"+tr.extra.Addr+" host0\n")
		},
		want: []string{"store.answers", "69 a process accepts"},
	}, {
		group: "store", name: "the route takes an address that its firewall does not know", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "addr", "add", "10.77.0.200/24", "dev", "eth0")
			tr.sick.Run("", "ip", "route", "add", tr.hosts[0].Addr, "dev", "eth0", "src", "10.77.0.200")
			tr.hosts[0].Run("table inet f {\nchain i {\ntype filter hook input priority 0\nip saddr 10.77.0.200 drop\n}\n}\n",
				"nft", "-f", "-")
		},
		want: []string{"warn store.answers answers calls from", "69 host0"},
	}}
}
