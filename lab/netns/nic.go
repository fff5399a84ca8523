package netns

// NIC gives the host one more interface, up, on the same switch:
// NIC("eth1", "192.168.50.7/24").
func (h *Host) NIC(name, cidr string) {
	h.lab.t.Helper()
	h.lab.must("-n", h.ns, "link", "add", name, "type", "veth", "peer", "name", h.port+name, "netns", h.lab.sw)
	h.lab.must("-n", h.lab.sw, "link", "set", h.port+name, "master", "br0", "up")
	h.lab.must("-n", h.ns, "addr", "add", cidr, "dev", name)
	h.lab.must("-n", h.ns, "link", "set", name, "up")
}
