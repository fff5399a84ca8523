package netns

import "fmt"

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
