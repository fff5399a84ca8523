package faultbench

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// nodeFaults returns faults that lie in what two or more nodes have in common, or should have.
func nodeFaults() []fault {
	return []fault{{
		group: "nodes", name: "each machine has the same private address", ci: true, shared: true,
		inject: func(tr *trial) {
			tr.each(func(h *host) {
				h.Run("", "ip", "addr", "add", "172.17.0.2/16", "dev", "eth0")
				h.flags = append(h.flags, "--addr", "172.17.0.2")
			})
		},
		want: []string{"peer.identity"}, real: "--addr stands for the address that a container sees",
	}, {
		group: "nodes", name: "the store at 127.0.0.1 on several machines", ci: true, shared: true,
		inject: func(tr *trial) { tr.store = "127.0.0.1" },
		want:   []string{"note is the address of each machine itself"},
	}, {
		group: "nodes", name: "the store at each machine's own name", shared: true,
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.flags = append(h.flags, "--store", h.Name) })
		},
		want: []string{"note names another host on each"},
	}, {
		group: "nodes", name: "no launch runs on the store's host", ci: true, shared: true,
		inject: func(tr *trial) { tr.store = tr.extra.Addr },
		want:   []string{"note no launch listens at"},
	}, {
		group: "nodes", name: "the store's host is a container behind the address of its machine", ci: true,
		inject: func(tr *trial) {
			tr.sick = tr.hosts[0]
			tr.sick.wrap = []string{"unshare", "--uts", "sh", "-c", `hostname host0 && exec "$@"`, "sh"}
			tr.each(func(h *host) { h.Etc("hosts", "127.0.0.1 localhost\n10.77.0.99 host0\n") })
		},
		want: []string{"store.resolves"},
	}, {
		group: "nodes", name: "the loopback interface is down", ci: true, either: true,
		inject: func(tr *trial) { tr.sick.Run("", "ip", "link", "set", "lo", "down") },
		want:   []string{"addr.loopback"},
	}, {
		group: "nodes", name: "a full connection table", runs: true,
		inject: func(tr *trial) { tr.sick.tracks(tr.t, 262143) },
		want:   []string{"limits.connections"}, real: "the count comes from a file",
	}, {
		group: "nodes", name: "a connection table that forgets soon", runs: true,
		inject: func(tr *trial) {
			tr.sick.Run("", "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_timeout_established=4")
		},
		want: []string{"limits.idle"},
	}, {
		group: "nodes", name: "TCP that gives up soon", runs: true,
		inject: func(tr *trial) { tr.sick.Run("", "sysctl", "-qw", "net.ipv4.tcp_retries2=2") },
		want:   []string{"limits.retries"},
	}}
}

// tracks puts a number of entries into what the host reads of its connection table.
func (h *host) tracks(t testing.TB, entries int) {
	for name, n := range map[string]int{"count": entries, "max": 262144} {
		file := filepath.Join(h.Dir(), name)
		if err := os.WriteFile(file, []byte(strconv.Itoa(n)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		h.Prepare = append(h.Prepare, "mount --bind "+file+" /proc/sys/net/netfilter/nf_conntrack_"+name)
	}
}

// lonelyOddities returns oddities that no other one fits.
func lonelyOddities() []oddity {
	onOne := func(s *healthy) {
		for _, h := range s.hosts[1:] {
			h.Host = s.hosts[0].Host
		}
	}
	return []oddity{
		{name: "all nodes on one machine, the store at its loopback", make: func(s *healthy) {
			onOne(s)
			s.naming.spell = func(*host) string { return "127.0.0.1" }
		}},
		{name: "all nodes on one machine, one address", make: onOne},
		{name: "connections that are idle for 10 minutes are forgotten",
			needs: "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", make: func(s *healthy) {
				s.each(func(h *host) {
					h.Run("", "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_timeout_established=600", "net.ipv4.tcp_retries2=8")
				})
			}},
		{name: "a connection table that is half full", needs: "/proc/sys/net/netfilter/nf_conntrack_count",
			make: func(s *healthy) { s.each(func(h *host) { h.tracks(s.t, 131072) }) }},
		{name: "the store's host is known by the address of a gateway", needs: "nft", make: func(s *healthy) {
			const gateway = "10.77.0.200"
			s.extra.Run("", "ip", "addr", "add", gateway+"/24", "dev", "eth0")
			s.extra.Run("", "sysctl", "-qw", "net.ipv4.ip_forward=1")
			s.extra.Run("table ip n {\nchain p {\ntype nat hook prerouting priority -100\nip daddr "+gateway+" dnat to "+
				s.hosts[0].Addr+"\n}\nchain q {\ntype nat hook postrouting priority 100\nmasquerade\n}\n}\n", "nft", "-f", "-")
			s.naming.own = "short"
			s.naming.lines = func(_ *host, lines []string) []string { return append(lines, gateway+" gateway") }
			s.naming.spell = func(*host) string { return "gateway" }
			s.hosts[0].env = append(s.hosts[0].env, "LAUNCH_STORE_HOST=yes")
		}},
		{name: "the store's name has the addresses of all nodes", make: func(s *healthy) {
			s.naming.lines = func(_ *host, lines []string) []string {
				for _, h := range s.hosts {
					lines = append(lines, s.addr(h)+" all-hosts")
				}
				s.r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
				return lines
			}
			s.naming.spell = func(*host) string { return "all-hosts" }
		}},
	}
}
