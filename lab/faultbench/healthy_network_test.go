package faultbench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// addr returns the address at which the others reach a host.
func (s *healthy) addr(h *host) string {
	return s.at(slices.Index(s.hosts, h), h.Addr)
}

// server returns the address of the host outside the job.
func (s *healthy) server() string { return s.at(len(s.hosts), s.extra.Addr) }

func (s *healthy) at(i int, four string) string {
	if s.six {
		return fmt.Sprintf("fd00:77::%x", i+1)
	}
	return four
}

// networkOddities returns oddities in interfaces, addresses, and the links between the hosts.
func networkOddities() []oddity {
	bridge := func(name, cidr string) func(*healthy) {
		return func(s *healthy) { s.some(func(h *host) { h.Decoy(name, cidr) }) }
	}
	system := func(settings ...string) func(*healthy) {
		return func(s *healthy) {
			s.some(func(h *host) { h.Run("", append([]string{"sysctl", "-qw"}, settings...)...) })
		}
	}
	return []oddity{
		{name: "IPv6 only", takes: "eth0 family", make: func(s *healthy) { s.onlySix() }},
		{name: "IPv6 addresses next to IPv4", takes: "eth0", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "addr", "add", fmt.Sprintf("2001:db8:77::%x/64", 1+slices.Index(s.hosts, h)), "dev", "eth0",
					"nodad")
			})
		}},
		{name: "IPv6 switched off", takes: "family", needs: "sysctl", make: system("net.ipv6.conf.all.disable_ipv6=1")},
		{name: "interfaces of other names", takes: "eth0", make: func(s *healthy) {
			s.some(func(h *host) { h.rename(one(s, "eno1", "ens3f0np0", "enp65s0f0", "em1")) })
		}},
		{name: "the address on a bridge", takes: "eth0", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "addr", "flush", "dev", "eth0")
				h.Decoy("br0", h.Addr+"/24")
				h.Run("", "ip", "link", "set", "eth0", "master", "br0")
			})
		}},
		{name: "two interfaces in one network, strict rp_filter", takes: "eth0", needs: "sysctl", make: func(s *healthy) {
			s.some(func(h *host) {
				h.NIC("a0", fmt.Sprintf("10.77.0.%d/24", 100+slices.Index(s.hosts, h)))
				h.Run("", "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
			})
		}},
		{name: "a macvlan", make: func(s *healthy) {
			s.some(func(h *host) {
				h.NIC("eth2", "192.168.60.1/24")
				h.Run("", "ip", "link", "add", "mac0", "link", "eth2", "type", "macvlan", "mode", "bridge")
				h.Run("", "ip", "addr", "add", "192.168.60.77/24", "dev", "mac0")
				h.Run("", "ip", "link", "set", "mac0", "up")
			})
		}},
		{name: "a vxlan of pods", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "link", "add", "flannel.1", "type", "vxlan", "id", "1", "dstport", "8472")
				h.Run("", "ip", "addr", "add", "10.244.0.0/32", "dev", "flannel.1")
				h.Run("", "ip", "link", "set", "flannel.1", "up")
			})
		}},
		{name: "ephemeral ports from 1024 on", takes: "ports", needs: "sysctl",
			make: system("net.ipv4.ip_local_port_range=1024 65535")},
		{name: "other settings of TCP", needs: "sysctl",
			make: system("net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_mtu_probing=1", "net.ipv4.tcp_ecn=1",
				"net.ipv4.ip_no_pmtu_disc=1", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.tcp_rmem=4096 16384 131072",
				"net.ipv6.bindv6only=1")},
		{name: "a router that does not answer", takes: "default", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "route", "add", "default", "via", "10.79.0.254", "dev", h.nic(), "onlink")
			})
		}},
		{name: "docker0", make: bridge("docker0", "172.17.0.1/16")},
		{name: "docker's own network", make: bridge("br-1f00c0ffee11", "172.18.0.1/16")},
		{name: "a bridge of virtual machines", make: bridge("virbr0", "192.168.122.1/24")},
		{name: "pods on a bridge", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Decoy("cni0", "10.244.3.1/24")
				for _, pod := range []string{"veth1a2b3c4d", "veth5e6f7081"} {
					h.Run("", "ip", "link", "add", pod, "type", "veth", "peer", "name", pod+"p")
					h.Run("", "ip", "link", "set", pod, "master", "cni0", "up")
					h.Run("", "ip", "link", "set", pod+"p", "up")
				}
			})
		}},
		{name: "a VPN", needs: "/dev/net/tun", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "tuntap", "add", "wg0", "mode", "tun")
				h.Run("", "ip", "addr", "add", "10.200.0.7/32", "dev", "wg0")
				h.Run("", "ip", "link", "set", "wg0", "mtu", "1420", "up")
			})
		}},
		{name: "another MTU of an interface that is not used", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Decoy("storage0", "192.0.2.9/24")
				h.Run("", "ip", "link", "set", "storage0", "mtu", "9000")
			})
		}},
		{name: "a second network", make: func(s *healthy) {
			s.some(func(h *host) { h.NIC("eth1", fmt.Sprintf("192.168.50.%d/24", 1+slices.Index(s.hosts, h))) })
		}},
		{name: "the default route by another interface", takes: "default", make: func(s *healthy) {
			s.some(func(h *host) {
				h.NIC("mgmt0", fmt.Sprintf("172.30.1.%d/24", 1+slices.Index(s.hosts, h)))
				h.Run("", "ip", "route", "add", "default", "via", "172.30.1.254")
			})
		}},
		{name: "an interface that is down and has an address", make: func(s *healthy) {
			s.some(func(h *host) {
				h.NIC("eth9", "192.168.99.9/24")
				h.Run("", "ip", "link", "set", "eth9", "down")
			})
		}},
		{name: "a second address in another subnet", takes: "eth0", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "addr", "add", fmt.Sprintf("10.78.0.%d/24", 1+s.r.IntN(200)), "dev", "eth0")
			})
		}},
		{name: "a second address in the same subnet", takes: "eth0", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "ip", "addr", "add", fmt.Sprintf("10.77.0.%d/24", 101+slices.Index(s.hosts, h)), "dev", "eth0")
			})
		}},
		{name: "an address of a load balancer in the table local", takes: "eth0", make: func(s *healthy) {
			s.some(func(h *host) { // as an agent of a cloud leaves it there
				h.Run("", "ip", "route", "add", "local", fmt.Sprintf("10.77.0.%d", 151+slices.Index(s.hosts, h)), "dev", "eth0",
					"proto", "66")
			})
		}},
		{name: "frames of 9000 bytes", takes: "eth0", make: func(s *healthy) {
			s.each(func(h *host) {
				h.Run("", "ip", "link", "set", "eth0", "mtu", "9000")
				h.Port("mtu", "9000")
			})
		}},
		{name: "an overlay of 1400 bytes", takes: "eth0", make: func(s *healthy) {
			s.each(func(h *host) { h.Run("", "ip", "link", "set", "eth0", "mtu", "1400") })
		}},
		{name: "20 ms away, one packet in 200 lost", needs: "/dev/net/tun", make: func(s *healthy) {
			s.some(func(h *host) { h.Long(10*time.Millisecond, 0.005) })
		}},
		{name: "a firewall that lets in the private network", takes: "firewall", needs: "nft", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Filter("input", "iif lo accept", "ct state established,related accept", "meta l4proto ipv6-icmp accept",
					"ip saddr 10.77.0.0/16 accept", "ip6 saddr fd00::/8 accept", "drop")
			})
		}},
		{name: "a firewall that drops ICMP", takes: "firewall", needs: "nft", make: func(s *healthy) {
			s.some(func(h *host) {
				// Without neighbour discovery IPv6 does not work at all.
				for _, hook := range []string{"input", "output"} {
					h.Filter(hook, "meta l4proto icmp drop",
						"icmpv6 type { echo-request, echo-reply, packet-too-big, destination-unreachable } drop")
				}
			})
		}},
		{name: "a firewall with generous limits on connections", takes: "firewall", needs: "nft", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Filter("input", "iif lo accept", "ct state new tcp flags syn limit rate over 500/second burst 200 packets drop",
					"ct state new tcp flags syn ct count over 400 drop")
			})
		}},
		{name: "a permanent neighbour entry that is right", takes: "neighbours", make: func(s *healthy) {
			s.some(func(h *host) {
				h.Run("", "sh", "-c", "ping -c1 -W1 "+s.hosts[0].Addr+"; ip neigh show "+s.hosts[0].Addr+" | "+
					"awk '$5 {print \"ip neigh replace\", $1, \"lladdr\", $5, \"dev\", $3, \"nud permanent\"}' | sh")
			})
		}},
		{name: "a firewall that drops UDP but for names", takes: "firewall", needs: "nft", make: func(s *healthy) {
			s.some(func(h *host) {
				for hook, lo := range map[string]string{"input": "iif lo accept", "output": "oif lo accept"} {
					h.Filter(hook, lo, "udp dport 53 accept", "udp sport 53 accept", "meta l4proto udp drop")
				}
			})
		}},
	}
}

// rename gives eth0 another name, as another mainboard or distribution does.
func (h *host) rename(name string) {
	h.Run("", "ip", "link", "set", "eth0", "down")
	h.Run("", "ip", "link", "set", "eth0", "name", name)
	h.Run("", "ip", "link", "set", name, "up")
}

// nic returns the interface that has the host's address, or its bridge.
func (h *host) nic() string {
	link, err := h.Command(context.Background(), "sh", "-c",
		"ip -o addr show scope global to 10.77.0.0/24 | head -1 | cut -d' ' -f2").Output()
	if name := strings.TrimSpace(string(link)); err == nil && name != "" {
		return name
	}
	return "eth0"
}

// onlySix replaces the hosts' addresses by IPv6 addresses.
func (s *healthy) onlySix() {
	s.six = true
	for i, h := range s.hosts {
		h.Run("", "ip", "addr", "flush", "dev", "eth0", "scope", "global")
		h.Run("", "ip", "addr", "add", s.at(i, "")+"/64", "dev", "eth0", "nodad")
	}
	s.extra.Run("", "ip", "addr", "flush", "dev", "eth0", "scope", "global")
	s.extra.Run("", "ip", "addr", "add", s.server()+"/64", "dev", "eth0", "nodad")
}
