package faultbench

import (
	"fmt"
	"strings"
	"testing"
)

// ownFaults returns faults in a node's own tables: its queues, its routes, and its NAT.
func ownFaults() []fault {
	return []fault{{
		group: "own", name: "a shaper drops long packets on one node", ci: true, sizes: []int{2, 3},
		inject: func(tr *trial) { tr.sick.shaped("burst", "1200", "limit", "1000000") },
		want:   []string{"note the reason is here: this node's own queue (tbf)", "69 this node's own queue (tbf)",
			"fail peer.large this node's own queue (tbf)"},
	}, {
		group: "own", name: "NAT of one node sends the port of the job's own store elsewhere", ci: true,
		inject: func(tr *trial) {
			tr.sick.sendsOn("ip daddr " + tr.hosts[0].Addr + " tcp dport 29500-29599 dnat to 10.77.0.250")
		},
		want: []string{"fail peer.port this node's NAT"},
	}, {
		group: "own", name: "NAT of one node sends calls to another one elsewhere", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) { tr.sick.sendsOn("ip daddr " + tr.hosts[1].Addr + " dnat to 10.77.0.250") },
		want:   []string{"fail peer.reach this node's NAT"},
	}, {
		group: "own", name: "one of two next hops of a route is dead", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "neigh", "replace", "10.77.0.250", "lladdr", "02:de:ad:be:ef:01", "dev", "eth0", "nud",
				"permanent")
			tr.sick.split(tr.hosts[1], tr.hosts[0], "10.77.0.250")
		},
		want: []string{"fail peer.flows has several next hops", "fail peer.reach has several next hops"},
	}}
}

// shaped limits what a host sends to 1 Gbit/s.
func (h *host) shaped(tbf ...string) {
	h.Run("", append([]string{"tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit"}, tbf...)...)
}

// sendsOn adds a rule of NAT for what a host sends itself.
func (h *host) sendsOn(rule string) {
	h.Run("table ip own {\nchain o {\ntype nat hook output priority -100\n"+rule+"\n}\n}\n", "nft", "-f", "-")
}

// split gives a host two next hops to another one, a host and an address, between which the ports choose.
func (h *host) split(to, router *host, other string) {
	router.Run("", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0",
		"net.ipv4.conf.eth0.send_redirects=0")
	h.Run("", "sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1")
	h.Run("", "ip", "route", "add", to.Addr+"/32", "nexthop", "via", router.Addr, "dev", "eth0", "nexthop", "via", other,
		"dev", "eth0")
}

// Tables of the same kinds that work give no line.
func TestOwnTablesThatWork(t *testing.T) {
	for name, make := range map[string]func(tr *trial){
		"a shaper that drops a few": func(tr *trial) { tr.sick.shaped("burst", "64000", "limit", "70000") },
		"NAT that leads to the node": func(tr *trial) {
			tr.sick.Run("", "ip", "route", "add", "10.96.0.0/16", "dev", "eth0")
			tr.sick.sendsOn("ip daddr 10.96.0.10 dnat to " + tr.hosts[0].Addr)
			tr.sick.flags = append(tr.sick.flags, "--store", "10.96.0.10")
		},
		"two next hops that work": func(tr *trial) { tr.sick.split(tr.hosts[1], tr.hosts[0], tr.hosts[1].Addr) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, 3)
			make(tr)
			tr.run()
			for _, h := range tr.hosts {
				if h.Status != 0 {
					t.Errorf("%s ended with %d", h.Name, h.Status)
				}
				for _, l := range h.Lines() {
					if s := fmt.Sprint(l.Said.Text, l.Said.What); strings.Contains(s, "this node's own") ||
						strings.Contains(s, "NAT") || strings.Contains(s, "next hops") {
						t.Errorf("%s: %s", h.Name, s)
					}
				}
			}
			if t.Failed() {
				t.Log(tr.printed())
			}
		})
	}
}
