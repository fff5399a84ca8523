package faultbench

import (
	"fmt"
)

// reachFaults returns faults in the paths between the hosts.
func reachFaults() []fault {
	const tcpReset = "meta l4proto tcp reject with tcp reset"
	last := func(f func(h *host)) func(*trial) { return func(tr *trial) { f(tr.sick) } }
	return []fault{{
		group: "reach", name: "firewall drops incoming packets", ci: true,
		inject: last(func(h *host) { h.firewall("input", "drop") }),
		want:   []string{"peer.reach"},
	}, {
		group: "reach", name: "firewall rejects incoming packets",
		inject: last(func(h *host) { h.firewall("input", tcpReset) }),
		want:   []string{"peer.reach"},
	}, {
		group: "reach", name: "firewall drops outgoing packets",
		inject: last(func(h *host) { h.firewall("output", "drop") }),
		want:   []string{"peer.reach"},
	}, {
		group: "reach", name: "firewall rejects outgoing packets", ci: true,
		inject: last(func(h *host) { h.firewall("output", "reject") }),
		want:   []string{"peer.reach"},
	}, {
		group: "reach", name: "ephemeral ports are closed everywhere", shared: true,
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.firewall("input", "drop", "tcp dport 29500-29599 accept") })
		},
		want: []string{"peer.reach"},
	}, {
		group: "reach", name: "no route to one node", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "route", "add", "prohibit", tr.hosts[1].Addr+"/32")
		},
		want: []string{"peer.reach"},
	}, {
		group: "reach", name: "a rule for the port sends packets to a router that drops them", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			peer, router := tr.hosts[1].Addr, tr.hosts[0].Addr
			tr.sick.Run("", "ip", "route", "add", "default", "via", router, "table", "100")
			tr.sick.Run("", "ip", "rule", "add", "from", tr.sick.Addr, "to", peer, "ipproto", "tcp", "lookup", "100")
		},
		want: []string{"fail peer.reach (routing table 100), although"},
	}, {
		group: "reach", name: "strict rp_filter, and the way back by another network", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			peer := tr.hosts[1]
			peer.NIC("data0", "10.88.0.1/24")
			tr.sick.NIC("data0", "10.88.0.2/24")
			tr.sick.Run("", "ip", "route", "add", peer.Addr+"/32", "via", "10.88.0.1", "src", tr.sick.Addr)
			tr.sick.Run("", "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
		},
		want: []string{"fail peer.reach rp_filter"},
	}, {
		group: "reach", name: "a firewall resets connections once they carry data", ci: true, sizes: []int{2, 3},
		inject: func(tr *trial) {
			tr.sick.Run("", "sysctl", "-qw", "net.netfilter.nf_conntrack_acct=1")
			tr.sick.Filter("input", "tcp sport 29377 accept", "ct bytes > 20000 reject with tcp reset")
		},
		want: []string{"fail peer.large reset or closed once they carry data"},
	}, {
		group: "reach", name: "packets to one node vanish one way", sizes: []int{3, 5},
		inject: func(tr *trial) { tr.sick.Mute(tr.hosts[1].Host) },
		want:   []string{"peer.reach"},
	}, {
		group: "reach", name: "two racks without a route to each other", sizes: []int{4, 5}, shared: true,
		inject: func(tr *trial) {
			n := len(tr.hosts)
			for _, a := range tr.hosts[:n-2] {
				if a == tr.hosts[0] { // the store is there
					continue
				}
				for _, b := range tr.hosts[n-2:] {
					a.Mute(b.Host)
					b.Mute(a.Host)
				}
			}
			for _, b := range tr.hosts[n-2:] { // nor to rank 0, except for its store
				tr.hosts[0].firewall("input", "accept", "ip saddr "+b.Addr+" drop")
				break
			}
		},
		want: []string{"peer.reach"},
	}, {
		group: "reach", name: "two machines have one address", sizes: []int{3, 5},
		inject: func(tr *trial) {
			// Connections to the address of the last go to the one before it.
			other := tr.hosts[len(tr.hosts)-2]
			tr.each(func(h *host) {
				if h != tr.sick && h != other {
					h.Run(
						"table ip n {\nchain o {\ntype nat hook output priority -100\nip daddr "+tr.sick.Addr+" dnat to "+
							other.Addr+"\n}\n}\n",
						"nft",
						"-f",
						"-",
					)
				}
			})
		},
		want: []string{"peer.identity", "peer.reach"}, // there may be another listener, or no listener
	}, {
		group: "reach", name: "a machine has the address of the store's, too", ci: true, sizes: []int{3}, either: true,
		inject: func(tr *trial) { tr.sick.Run("", "ip", "addr", "add", tr.hosts[0].Addr+"/24", "dev", "eth0") },
		want:   []string{"addr.taken"},
	}, {
		group: "reach", name: "a proxy accepts every incoming connection", ci: true,
		inject: func(tr *trial) {
			tr.sick.assist(tr, "proxy", ":15001")
			tr.sick.Run(
				"table ip n {\nchain i {\ntype nat hook prerouting priority -100\ntcp dport != 29377 redirect to "+
					":15001\n}\n}\n",
				"nft",
				"-f",
				"-",
			)
		},
		want: []string{"peer.reach", "peer.identity"},
	}, {
		group: "reach", name: "a firewall blocks NCCL's network at one node", ci: true,
		inject: func(tr *trial) {
			tr.equip(onIB)
			for i, h := range tr.hosts {
				h.NIC("data0", fmt.Sprintf("10.88.0.%d/24", i+1))
				h.env = append(h.env, "NCCL_SOCKET_IFNAME=data0")
			}
			tr.sick.Run(
				"table inet f {\nchain i {\ntype filter hook input priority 0\niif data0 drop\n}\n}\n",
				"nft",
				"-f",
				"-",
			)
		},
		want: []string{"peer.beside"}, real: "NVML's answers come from a file",
	}, {
		group: "reach", name: "two nodes have one address on the network of NCCL", ci: true,
		inject: func(tr *trial) {
			tr.equip(onIB)
			for i, h := range tr.hosts {
				if h == tr.sick {
					i = 0
				}
				h.NIC("data0", fmt.Sprintf("10.88.0.%d/24", i+1))
				h.env = append(h.env, "NCCL_SOCKET_IFNAME=data0")
			}
		},
		want: []string{"fail peer.beside have the address 10.88.0.1"}, real: "NVML's answers come from a file",
	}, {
		group: "reach", name: "a permanent neighbour entry of one node is wrong", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			peer := tr.hosts[1]
			if peer == tr.sick {
				peer = tr.hosts[2]
			}
			tr.sick.Run("", "ip", "neigh", "replace", peer.Addr, "lladdr", "02:de:ad:be:ef:01", "dev", "eth0", "nud",
				"permanent")
		},
		want: []string{"fail peer.reach a permanent neighbour entry for"}, alone: true,
	}, {
		group: "reach", name: "a firewall drops the port of the job's own store", ci: true,
		inject: func(tr *trial) { tr.sick = tr.hosts[0]; tr.sick.shut("29500-29599 drop") },
		want:   []string{"peer.port"},
	}, {
		group: "reach", name: "a firewall rejects the port of a plain program's store",
		inject: func(tr *trial) {
			tr.sick = tr.hosts[0]
			tr.sick.shut("29500-29599 reject with tcp reset")
			tr.each(func(h *host) {
				h.line = []string{"python3", tools.script}
				h.flags = []string{"--nnodes", fmt.Sprint(len(tr.hosts))}
			})
		},
		want: []string{"peer.port"},
	}, {
		group: "reach", name: "the port of the job's own store is closed to one node", sizes: []int{3, 5},
		inject: func(tr *trial) { tr.hosts[0].shut("29500-29599 ip saddr " + tr.sick.Addr + " drop") },
		want:   []string{"peer.port"},
	}, {
		group: "loss", name: "5 % of the packets to one node are lost", runs: true,
		inject: func(tr *trial) { tr.sick.loses(5) }, want: []string{"peer.loss"},
	}, {
		group: "loss", name: "30 % of the packets to one node are lost", ci: true, runs: true,
		inject: func(tr *trial) { tr.sick.loses(30) }, want: []string{"peer.loss"},
	}, {
		group: "loss", name: "half of the packets to one node are lost", either: true,
		inject: func(tr *trial) { tr.sick.loses(50) }, want: []string{"peer.loss", "peer.reach"},
	}, {
		group: "loss", name: "a firewall limits new connections", ci: true, runs: true,
		inject: func(tr *trial) {
			tr.sick.Filter("input", "iif lo accept", "ct state new tcp dport != 29377 limit rate over 2/second drop")
		},
		want: []string{"peer.connect"},
	}, {
		group: "loss", name: "a firewall limits connections at a time", ci: true,
		inject: func(tr *trial) {
			tr.sick.Filter("input", "iif lo accept", "tcp dport != 29377 ct state new tcp flags syn ct count over 4 drop")
		},
		want: []string{"fail peer.connect beyond a limit"},
	}, {
		group: "loss", name: "a firewall refuses connections beyond some at a time",
		inject: func(tr *trial) {
			tr.sick.Filter("input", "iif lo accept",
				"tcp dport != 29377 ct state new tcp flags syn ct count over 4 reject with tcp reset")
		},
		want: []string{"fail peer.connect beyond a limit"},
	}, {
		group: "loss", name: "one of two paths to one node is dead", ci: true,
		inject: func(tr *trial) {
			tr.sick.Filter("input", "iif lo accept",
				"tcp dport != 29377 tcp sport != 29377 jhash tcp sport . tcp dport mod 2 seed 0x5 0 drop")
		},
		want: []string{"fail peer.flows some ports never get an answer"},
	}, {
		group: "loss", name: "a link of 1 Mbit/s", ci: true, runs: true,
		inject: func(tr *trial) { tr.sick.Shape("eth0", 1, 1) }, want: []string{"peer.slow"},
	}, {
		group: "loss", name: "a device takes window scaling from the answers of one node", ci: true, runs: true,
		inject: func(tr *trial) {
			tr.sick.Filter("output", "tcp flags & (syn|ack) == (syn|ack) reset tcp option window")
		},
		want: []string{"peer.slow"},
	}, {
		group: "mtu", name: "long packets vanish before one node", ci: true,
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.jumbo() })
			tr.sick.Run(
				"table ip m {\nchain i {\ntype filter hook input priority 0\nip length > 1500 drop\n}\nchain o "+
					"{\ntype filter hook output priority 0\nip length > 1500 drop\n}\n}\n",
				"nft",
				"-f",
				"-",
			)
		},
		want: []string{"peer.large"},
	}, {
		group: "mtu", name: "long packets vanish on the network that Gloo uses", ci: true,
		inject: func(tr *trial) {
			for i, h := range tr.hosts {
				h.NIC("data0", fmt.Sprintf("10.88.0.%d/24", i+1))
				h.MTU("data0", 9000)
				h.env = append(h.env, "GLOO_SOCKET_IFNAME=data0")
			}
			tr.sick.Run(
				"table ip m {\nchain i {\ntype filter hook input priority 0\niif data0 ip length > 1500 drop\n}\n"+
					"chain o {\ntype filter hook output priority 0\noif data0 ip length > 1500 drop\n}\n}\n",
				"nft",
				"-f",
				"-",
			)
		},
		want: []string{"peer.large"},
	}, {
		group: "mtu", name: "long packets vanish between all", shared: true,
		inject: func(tr *trial) {
			tr.each(func(h *host) {
				h.jumbo()
				h.Run(
					"table ip m {\nchain i {\ntype filter hook input priority 0\niif lo accept\nip length > 1500 drop\n}\n}\n",
					"nft",
					"-f",
					"-",
				)
			})
		},
		want: []string{"peer.large"},
	}, {
		group: "mtu", name: "a tunnel silently drops more than 1400 bytes",
		inject: func(tr *trial) {
			tr.sick.Run("table ip m {\nchain i {\ntype filter hook input priority 0\niif lo accept\nip length > 1400 "+
				"drop\n}\nchain o {\ntype filter hook output priority 0\noif lo accept\nip length > 1400 drop\n}\n}\n", "nft", "-f",
				"-")
		},
		want: []string{"peer.large"},
	}, {
		group: "mtu", name: "a tunnel drops more than 900 bytes on the way to the store", ci: true, sizes: []int{2},
		inject: func(tr *trial) {
			tr.sick = tr.hosts[0]
			tr.sick.Run("table ip m {\nchain i {\ntype filter hook input priority 0\niif lo accept\nip length > 900 "+
				"drop\n}\n}\n", "nft", "-f", "-")
		},
		want: []string{"69 long packets get lost on the way to the store at 10.77.0.1"},
	}}
}

// firewall accepts loopback, established connections, the store's port and the given
// rules, in one direction; the verdict is for the rest.
func (h *host) firewall(hook, verdict string, before ...string) {
	rules := []string{map[string]string{"input": "iif", "output": "oif"}[hook] + " lo accept",
		"ct state established accept", "tcp dport 29377 accept"}
	rules = append(append(rules, before...), verdict)
	h.Filter(hook, rules...)
}

// shut closes incoming ports by a rule that begins with them.
func (h *host) shut(rule string) {
	h.Filter("input", "iif lo accept", "tcp dport "+rule)
}

// loses drops a share of the incoming packets, in percent, each of which is one segment.
func (h *host) loses(percent int) {
	h.MTU("eth0", 1500)
	h.Filter("input", "iif lo accept", fmt.Sprintf("numgen random mod 100 < %d drop", percent))
}

// jumbo gives the host an interface of 9000 bytes, which sends each segment as one
// packet.
func (h *host) jumbo() { h.MTU("eth0", 9000) }
