package faultbench

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// ownFaults returns faults in a node's own tables: its queues, its routes, and its NAT.
func ownFaults() []fault {
	return []fault{{
		group: "own", name: "a shaper drops long packets on one node", ci: true, sizes: []int{2, 3},
		inject: func(tr *trial) { tr.sick.shaped("burst", "1200", "limit", "1000000") },
		want: []string{"note the reason is here: this node's own queue (tbf)", "69 this node's own queue (tbf)",
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
		want:   []string{"fail peer.reach this node's NAT"}, alone: true,
	}, {
		group: "own", name: "one of two next hops of a route is dead", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "neigh", "replace", "10.77.0.250", "lladdr", "02:de:ad:be:ef:01", "dev", "eth0", "nud",
				"permanent")
			tr.sick.split(tr.hosts[1], tr.hosts[0], "10.77.0.250")
		},
		want: []string{"fail peer.flows has several next hops", "fail peer.reach has several next hops"},
	}, {
		group: "own", name: "one node drops the packets of its tunnel", ci: true, sizes: []int{3},
		inject: func(tr *trial) {
			tr.overlay()
			tr.sick.Filter("input", "udp dport 8472 drop")
		},
		want: []string{"warn store.answers (UDP 8472) arrive at eth0, and this node's own firewall drops them",
			"69 this node's own firewall drops them"},
	}, {
		group: "own", name: "one node drops the answers of the store", ci: true, sizes: []int{2},
		inject: func(tr *trial) { tr.sick.Filter("input", "tcp sport 29377 drop") },
		want: []string{"warn store.answers arrive at eth0 of this node, and this node drops them",
			"69 and this node drops them"},
	}, {
		group: "own", name: "one node has the address of another one in its table local", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "route", "add", "local", tr.hosts[1].Addr, "dev", "eth0", "proto", "66")
		},
		want: []string{"fail peer.identity its table local has it"}, alone: true,
	}, {
		group: "own", name: "one node has the address of another one on its interface", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "addr", "add", tr.hosts[1].Addr+"/24", "dev", "eth0", "noprefixroute")
		},
		want: []string{"fail peer.identity the address"}, alone: true,
	}, {
		group: "own", name: "one node has the address of the store's host in its table local", sizes: []int{2},
		inject: func(tr *trial) {
			tr.sick.Run("", "ip", "route", "add", "local", tr.hosts[0].Addr, "dev", "eth0", "proto", "66")
		},
		want: []string{"note its table local has it"},
	}}
}

// overlay has all hosts use addresses of a network over VXLAN, with fixed entries as flannel's.
func (tr *trial) overlay() {
	inner := func(i int) (addr, mac string) {
		return fmt.Sprintf("10.244.0.%d", i+1), fmt.Sprintf("02:00:00:00:00:%02x", i+1)
	}
	for i, h := range tr.hosts {
		addr, mac := inner(i)
		line := "ip link add vx0 address " + mac + " type vxlan id 42 dstport 8472 local " + h.Addr + " nolearning dev " +
			"eth0; ip link set vx0 up; ip addr add " + addr + "/24 dev vx0"
		for j, other := range tr.hosts {
			if addr, mac := inner(j); j != i {
				line += "; ip neigh replace " + addr + " lladdr " + mac + " dev vx0 nud permanent; bridge fdb append " + mac +
					" dev vx0 dst " + other.Addr
			}
		}
		h.Run("", "sh", "-ec", line)
	}
	tr.store, _ = inner(0)
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

// relayed sends all calls of a host to a relay there, as a service mesh does: its own calls have a mark.
func (h *host) relayed(tr *trial) {
	const script = `import socket, struct, threading, time
s = socket.create_server(('127.0.0.1', 15001))
def copy(a, b):
    try:
        while d := a.recv(65536): b.sendall(d)
        b.shutdown(socket.SHUT_WR)
    except OSError: a.close(); b.close()
def serve(a):
    _, port, ip = struct.unpack('!HH4s8x', a.getsockopt(socket.SOL_IP, 80, 16))
    for _ in range(100): # it has taken the call already
        b = socket.socket(); b.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 7)
        try: b.connect((socket.inet_ntoa(ip), port)); break
        except OSError: b.close(); time.sleep(0.1)
    else: a.close(); return
    threading.Thread(target=copy, args=(b, a), daemon=True).start(); copy(a, b)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()`
	ctx, cancel := context.WithCancel(tr.t.Context())
	relay := h.Command(ctx, "python3", "-c", script)
	if err := relay.Start(); err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(func() {
		cancel()
		_ = relay.Wait()
	})
	h.sendsOn("meta mark != 7 oifname eth0 meta l4proto tcp redirect to :15001")
}

// NAT that leads to the store's host, which drops the packets, is no reason.
func TestNATIsNotBlamedForAFirewall(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, 2)
	tr.sick.Run("", "ip", "route", "add", "10.96.0.0/16", "dev", "eth0")
	tr.sick.sendsOn("ip daddr 10.96.0.10 dnat to " + tr.hosts[0].Addr)
	tr.sick.flags = append(tr.sick.flags, "--store", "10.96.0.10")
	tr.hosts[0].Filter("input", "ip saddr "+tr.sick.Addr+" ip protocol tcp drop")
	tr.run()
	for _, l := range tr.sick.Lines() {
		if strings.Contains(fmt.Sprint(l.Said.Text, l.Said.What), "the reason is") {
			t.Errorf("%s\n%s", l.Said.What, tr.printed())
		}
	}
	if tr.sick.Status != 69 { // the store is unreachable
		t.Errorf("it ended with %d\n%s", tr.sick.Status, tr.printed())
	}
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
		"NAT that sends all calls to a relay here": func(tr *trial) { tr.sick.relayed(tr) },
		"a tunnel that works":                      func(tr *trial) { tr.overlay() },
		"two next hops that work": func(tr *trial) {
			tr.sick.split(tr.hosts[1], tr.hosts[0], tr.hosts[1].Addr)
		},
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
						strings.Contains(s, "NAT") || strings.Contains(s, "next hops") || strings.Contains(s, "tunnel") {
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
