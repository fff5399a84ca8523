package truth

import (
	"fmt"
	"slices"
	"time"
)

// All moments, and those of faults that one command makes.
var (
	anyTime = []moment{before, before, waiting, joined, running}
	inTime  = []moment{before, running}
)

// mechanisms returns all ways in which an environment may be odd.
func mechanisms() []*mechanism {
	all := slices.Concat(filters(), links(), routes(), addresses(), names(), limits(), mounts(), namespaces(), variables(),
		arguments(), commands(), timing())
	out := make([]*mechanism, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// filters returns packet filters.
func filters() []mechanism {
	const fresh = "ct state new "
	verdicts := map[string]string{"reject": "reject with tcp reset", "drop": "drop"}
	hook := map[string]string{"in": "input", "out": "output"}
	lo := map[string]string{"in": "iif lo accept", "out": "oif lo accept"}
	// tcp filters what matches, in one direction.
	tcp := func(match func(b *bed, f fault) string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.hosts[f.at].Filter(hook[f.way], lo[f.way], match(b, f)+" meta l4proto tcp "+verdicts[f.strong()])
		}
	}
	always := func(match string) func(*bed, fault) string { return func(*bed, fault) string { return match } }
	strong, ways := []string{"reject", "drop"}, []string{"in", "in", "out"}
	return []mechanism{{
		topic: "filter", name: "the master port is closed", causes: "port reach", scope: firstOne, strengths: strong,
		ways: []string{"in"}, moments: []moment{before, before, waiting}, make: tcp(always("tcp dport " + masterPort)),
	}, {
		topic: "filter", name: "the master port is closed to one node", causes: "port reach", scope: lastOnes,
		strengths: strong, ways: []string{"in"}, moments: []moment{before, before, waiting},
		make: func(b *bed, f fault) {
			b.hosts[0].Filter("input", "iif lo accept", "ip saddr "+b.hosts[f.at].Addr+" tcp dport "+masterPort+" "+
				verdicts[f.strong()])
		},
	}, {
		topic: "filter", name: "ephemeral ports are closed", causes: "reach", strengths: strong, ways: []string{"in"},
		moments: []moment{before, before, waiting, joined}, make: tcp(always(fresh + "tcp dport 30000-65535")),
	}, {
		topic: "filter", name: "nothing new gets through", causes: "reach", strengths: strong, ways: ways,
		moments: []moment{before, before, waiting, joined}, make: tcp(always(fresh)),
	}, {
		topic: "filter", name: "nothing gets through", causes: "reach gone", strengths: []string{"drop"}, ways: ways,
		moments: anyTime, make: tcp(always("")),
	}, {
		topic: "filter", name: "an allow-list of ports", causes: "reach", strengths: strong, ways: []string{"in"},
		make: func(b *bed, f fault) {
			b.hosts[f.at].Filter("input", "iif lo accept", "ct state established accept", "meta l4proto != tcp accept",
				"tcp dport { 22, 29377, 29500-29599 } accept", verdicts[f.strong()])
		},
	}, {
		topic: "filter", name: "one node is shut out", causes: "reach", scope: onePair, strengths: strong, ways: ways,
		moments: anyTime, make: tcp(func(b *bed, f fault) string {
			return map[string]string{"in": "ip saddr ", "out": "ip daddr "}[f.way] + b.hosts[f.to].Addr
		}),
	}, {
		topic: "filter", name: "long packets vanish", causes: "long", takes: "mtu",
		strengths: []string{"1400", "1000", "600"}, ways: []string{"in", "out"}, moments: inTime,
		make: func(b *bed, f fault) {
			b.hosts[f.at].Filter(hook[f.way], lo[f.way], "ip length > "+f.strong()+" drop")
		},
	}, {
		topic: "filter", name: "new connections are limited", causes: "reach slow limit", degrades: true,
		strengths: []string{"10", "3", "1"}, ways: []string{"in", "out"}, make: func(b *bed, f fault) {
			b.hosts[f.at].Filter(hook[f.way], lo[f.way], "meta l4proto tcp "+fresh+"limit rate over "+f.strong()+
				"/second burst 2 packets drop")
		},
	}, {
		topic: "filter", name: "a private network is let in", ways: []string{"in"}, make: func(b *bed, f fault) {
			b.hosts[f.at].Filter("input", "iif lo accept", "ct state established,related accept",
				"ip saddr 10.77.0.0/16 accept", "meta l4proto != tcp accept", "drop")
		},
	}, {
		topic: "filter", name: "no ICMP", ways: []string{"in", "out"}, make: func(b *bed, f fault) {
			b.hosts[f.at].Filter(hook[f.way], "meta l4proto icmp drop")
		},
	}, {
		topic: "filter", name: "no UDP", ways: []string{"in", "out"}, make: func(b *bed, f fault) {
			b.hosts[f.at].Filter(hook[f.way], lo[f.way], "meta l4proto udp drop")
		},
	}}
}

// links returns queues, cables and interfaces.
func links() []mechanism {
	hook := map[string]string{"in": "input", "out": "output"}
	return []mechanism{{
		topic: "link", name: "a low rate", causes: "slow", degrades: true, takes: "queue",
		strengths: []string{"200", "20", "2"}, moments: inTime, make: func(b *bed, f fault) {
			var mbit int
			_, _ = fmt.Sscan(f.strong(), &mbit)
			b.hosts[f.at].Shape("eth0", mbit, mbit)
		},
	}, {
		topic: "link", name: "a long way", causes: "slow", degrades: true, takes: "queue",
		strengths: []string{"10ms", "60ms", "200ms"}, make: func(b *bed, f fault) {
			d, _ := time.ParseDuration(f.strong())
			b.hosts[f.at].Long(d, 0)
		},
	}, {
		topic: "link", name: "packets are lost", causes: "slow", degrades: true, takes: "queue",
		strengths: []string{"1", "5", "20", "40"}, ways: []string{"in", "out"}, moments: inTime,
		make: func(b *bed, f fault) {
			b.hosts[f.at].Filter(hook[f.way], "meta l4proto tcp numgen random mod 100 < "+f.strong()+" drop")
		},
	}, {
		topic: "link", name: "the cable is out", causes: "reach gone", takes: "eth0 route", moments: anyTime,
		make: func(b *bed, f fault) { b.hosts[f.at].Cut() },
	}, {
		topic: "link", name: "the interface is down", causes: "reach gone", takes: "eth0 route", moments: anyTime,
		make: func(b *bed, f fault) { b.hosts[f.at].Run("", "ip", "link", "set", "eth0", "down") },
	}, {
		topic: "link", name: "loopback is down", causes: "reach", degrades: true,
		make: func(b *bed, f fault) { b.hosts[f.at].Run("", "ip", "link", "set", "lo", "down") },
	}, {
		topic: "link", name: "smaller packets here", takes: "mtu", degrades: true, strengths: []string{"1400", "576"},
		make: func(b *bed, f fault) { b.hosts[f.at].Run("", "ip", "link", "set", "eth0", "mtu", f.strong()) },
	}, {
		topic: "link", name: "jumbo frames here, and not on the switch", takes: "mtu", degrades: true, causes: "long",
		make: func(b *bed, f fault) { b.hosts[f.at].Run("", "ip", "link", "set", "eth0", "mtu", "9000") },
	}, {
		topic: "link", name: "jumbo frames", takes: "mtu", scope: allNodes, make: func(b *bed, f fault) {
			b.each(f, func(h *host) { h.MTU("eth0", 9000) })
		},
	}}
}

// routes returns routes and neighbours.
func routes() []mechanism {
	to := func(kind string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.hosts[f.at].Run("", "ip", "route", "add", kind, b.hosts[f.to].Addr+"/32")
		}
	}
	return []mechanism{{
		topic: "route", name: "packets to a node vanish", causes: "reach", scope: onePair, takes: "route", moments: anyTime,
		make: to("blackhole"),
	}, {
		topic: "route", name: "packets to a node are prohibited", causes: "reach", scope: onePair, takes: "route",
		moments: anyTime, make: to("prohibit"),
	}, {
		topic: "route", name: "a node is unreachable", causes: "reach", scope: onePair, takes: "route", moments: anyTime,
		make: to("unreachable"),
	}, {
		topic: "route", name: "a node lies behind a router that is gone", causes: "reach", scope: onePair, takes: "route",
		moments: anyTime, make: func(b *bed, f fault) {
			b.hosts[f.at].Run("", "ip", "route", "add", b.hosts[f.to].Addr+"/32", "via", "10.77.0.254", "dev", "eth0")
		},
	}, {
		topic: "route", name: "no route to the others", causes: "reach", takes: "route eth0", moments: anyTime,
		make: func(b *bed, f fault) { b.hosts[f.at].Run("", "ip", "route", "del", "10.77.0.0/24", "dev", "eth0") },
	}, {
		topic: "route", name: "packets leave with another source", causes: "reach", takes: "route eth0",
		make: func(b *bed, f fault) {
			b.hosts[f.at].Run("", "ip", "addr", "add", "10.99.0.9/32", "dev", "eth0")
			b.hosts[f.at].Run("", "ip", "route", "replace", "10.77.0.0/24", "dev", "eth0", "src", "10.99.0.9")
		},
	}, {
		topic: "route", name: "a rule of another table", causes: "reach", takes: "route", moments: anyTime,
		make: func(b *bed, f fault) {
			h := b.hosts[f.at]
			h.Run("", "ip", "rule", "add", "from", h.Addr, "table", "99")
			h.Run("", "ip", "route", "add", "blackhole", "default", "table", "99")
		},
	}, {
		topic: "route", name: "a wrong neighbour", causes: "reach", scope: onePair, takes: "route", moments: anyTime,
		make: func(b *bed, f fault) {
			b.hosts[f.at].Run("", "ip", "neigh", "replace", b.hosts[f.to].Addr, "lladdr", "02:00:00:00:00:99", "dev",
				"eth0", "nud", "permanent")
		},
	}, {
		topic: "route", name: "a default route by a router that is gone", takes: "eth0 route", make: func(b *bed, f fault) {
			b.hosts[f.at].Run("", "ip", "route", "add", "default", "via", "10.77.0.254")
		},
	}}
}

// addresses returns addresses and more interfaces.
func addresses() []mechanism {
	nth := func(b *bed, f fault, do func(h *host, n int)) {
		b.each(f, func(h *host) { do(h, h.number+1) })
	}
	return []mechanism{{
		topic: "address", name: "the address is lost", causes: "reach gone", takes: "eth0 route", moments: anyTime,
		make: func(b *bed, f fault) { b.hosts[f.at].Run("", "ip", "addr", "flush", "dev", "eth0") },
	}, {
		topic: "address", name: "a netmask without the others", causes: "reach", takes: "eth0 route",
		make: func(b *bed, f fault) {
			h := b.hosts[f.at]
			h.Run("", "ip", "addr", "flush", "dev", "eth0")
			h.Run("", "ip", "addr", "add", h.Addr+"/32", "dev", "eth0")
		},
	}, {
		topic: "address", name: "two nodes have one address", causes: "reach", takes: "eth0 route", scope: onePair,
		degrades: true, make: func(b *bed, f fault) {
			b.hosts[f.at].Run("", "ip", "addr", "add", b.hosts[f.to].Addr+"/24", "dev", "eth0")
		},
	}, {
		topic: "address", name: "docker0 everywhere", scope: allNodes, make: func(b *bed, f fault) {
			b.each(f, func(h *host) { h.Decoy("docker0", "172.17.0.1/16") })
		},
	}, {
		topic: "address", name: "a bridge of virtual machines", make: func(b *bed, f fault) {
			b.hosts[f.at].Decoy("virbr0", "192.168.122.1/24")
		},
	}, {
		topic: "address", name: "a second network", scope: allNodes, takes: "eth1", make: func(b *bed, f fault) {
			nth(b, f, func(h *host, n int) { h.NIC("eth1", fmt.Sprintf("192.168.50.%d/24", n)) })
		},
	}, {
		topic: "address", name: "a second network with one address for all", scope: allNodes, takes: "eth1",
		degrades: true, causes: "reach env", make: func(b *bed, f fault) {
			nth(b, f, func(h *host, _ int) { h.NIC("eth1", "192.168.50.1/24") })
		},
	}, {
		topic: "address", name: "a second address in the network", takes: "eth0 route", make: func(b *bed, f fault) {
			nth(b, f, func(h *host, n int) {
				h.Run("", "ip", "addr", "add", fmt.Sprintf("10.77.0.%d/24", 100+n), "dev", "eth0")
			})
		},
	}, {
		topic: "address", name: "an address of another network", takes: "eth0 route", make: func(b *bed, f fault) {
			nth(b, f, func(h *host, n int) {
				h.Run("", "ip", "addr", "add", fmt.Sprintf("10.78.0.%d/24", n), "dev", "eth0")
			})
		},
	}, {
		topic: "address", name: "two interfaces in one network, strict rp_filter", takes: "eth0 route",
		make: func(b *bed, f fault) {
			nth(b, f, func(h *host, n int) {
				h.NIC("a0", fmt.Sprintf("10.77.0.%d/24", 100+n))
				h.Run("", "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
			})
		},
	}, {
		topic: "address", name: "no IPv6", make: func(b *bed, f fault) {
			b.hosts[f.at].Run("", "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
		},
	}, {
		topic: "address", name: "the interface has another name", takes: "eth0 route mtu queue", make: func(b *bed, f fault) {
			for _, change := range [][]string{{"down"}, {"name", "ens3f0"}} {
				b.hosts[f.at].Run("", append([]string{"ip", "link", "set", "eth0"}, change...)...)
			}
			b.hosts[f.at].Run("", "ip", "link", "set", "ens3f0", "up")
		},
	}}
}
