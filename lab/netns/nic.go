package netns

import (
	"fmt"
	"net/netip"
)

// NIC gives the host one more interface, up, on the same switch: NIC("eth1", "192.168.50.7/24").
// Linux answers ARP for all addresses on all interfaces; arp_ignore 1 ends that, or the
// frames for eth0 would arrive by the new cable, which may carry shorter ones.
func (h *Host) NIC(name, cidr string) {
	h.lab.t.Helper()
	h.lab.must("-n", h.ns, "link", "add", name, "type", "veth", "peer", "name", h.port+name, "netns", h.lab.sw)
	h.lab.must("-n", h.lab.sw, "link", "set", h.port+name, "master", "br0", "up")
	h.lab.must("-n", h.ns, "addr", "add", cidr, "dev", name)
	h.lab.must("netns", "exec", h.ns, "sh", "-c",
		"[ ! -w /proc/sys/net/ipv4/conf/all/arp_ignore ] || echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore")
	h.lab.must("-n", h.ns, "link", "set", name, "up")
}

// Routed gives the host an interface with an address of a network of two (/31), whose other end is a port of a
// router in the switch. It has a route to net by this interface, after those that it has already.
func (h *Host) Routed(name, cidr, net, mtu string) {
	h.lab.t.Helper()
	at := netip.MustParsePrefix(cidr)
	gateway := at.Addr().Next()
	if !at.Contains(gateway) {
		gateway = at.Addr().Prev()
	}
	far := h.port + name
	h.lab.must("-n", h.ns, "link", "add", name, "mtu", mtu, "type", "veth", "peer", "name", far, "mtu", mtu, "netns",
		h.lab.sw)
	h.lab.must("-n", h.lab.sw, "addr", "add", gateway.String()+"/31", "dev", far)
	h.lab.must("-n", h.lab.sw, "link", "set", far, "up")
	h.lab.must("netns", "exec", h.lab.sw, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	h.lab.must("-n", h.ns, "addr", "add", cidr, "dev", name)
	h.lab.must("-n", h.ns, "link", "set", name, "up")
	h.routes++
	h.lab.must("-n", h.ns, "route", "add", net, "via", gateway.String(), "dev", name, "metric", fmt.Sprint(100+h.routes))
	table := fmt.Sprint(1000 + h.routes) // what is sent from its address leaves by it
	h.lab.must("-n", h.ns, "route", "add", net, "via", gateway.String(), "dev", name, "table", table)
	h.lab.must("-n", h.ns, "rule", "add", "from", at.Addr().String(), "table", table)
}

// MTU sets the largest packet of an interface and of the switch's port behind it, and sends each segment as one packet.
func (h *Host) MTU(nic string, bytes int) {
	h.lab.t.Helper()
	h.lab.must("-n", h.ns, "link", "set", nic, "mtu", fmt.Sprint(bytes), "gso_max_segs", "1")
	h.lab.must("-n", h.lab.sw, "link", "set", h.portOf(nic), "mtu", fmt.Sprint(bytes))
}

// portOf returns the switch's port behind an interface.
func (h *Host) portOf(nic string) string {
	if nic == "eth0" {
		return h.port
	}
	return h.port + nic
}

// Shape limits an interface to Mbit/s in each direction (0: no limit), with a queue of a tenth of a second.
func (h *Host) Shape(nic string, out, in int) {
	h.lab.t.Helper()
	port := h.portOf(nic)
	for _, end := range []struct {
		ns, dev string
		mbit    int
	}{{h.ns, nic, out}, {h.lab.sw, port, in}} {
		if end.mbit > 0 {
			h.lab.must("netns", "exec", end.ns, "tc", "qdisc", "replace", "dev", end.dev, "root", "tbf",
				"rate", fmt.Sprintf("%dmbit", end.mbit), "burst", "32kb", "latency", "100ms")
		}
	}
}
