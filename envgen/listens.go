package envgen

import (
	"net/netip"
	"slices"

	"launch/fabric"
)

// Listen is an address on which a library waits for the other nodes.
type Listen struct {
	Library string     `json:"library"` // "NCCL", "Gloo"
	Addr    netip.Addr `json:"addr"`
	Typed   bool       `json:"typed,omitempty"` // the user set it; it is not the library's own choice
}

// maxListens bounds the addresses of one node: eight rails over TCP, and Gloo.
const maxListens = 9

// Listens returns the addresses other than World.Addr on which NCCL and Gloo wait for the other
// nodes under a plan: a node that is reached at World.Addr may not be reached there. NCCL's first
// interface carries its bootstrap, the others only data over TCP (src/transport/net_socket.cc).
func Listens(in Input, p Plan) []Listen {
	v := look(in)
	if !v.apart() {
		return nil
	}
	var out []Listen
	add := func(library string, nic fabric.Interface, a netip.Addr, typed bool) {
		if !a.IsValid() || a == v.World.Addr || a.IsLoopback() || a.IsLinkLocalUnicast() || len(out) == maxListens ||
			len(decoys(v, []fabric.Interface{nic})) > 0 {
			return
		}
		if !slices.ContainsFunc(out, func(l Listen) bool { return l.Addr == a }) {
			out = append(out, Listen{library, a, typed})
		}
	}
	via, _, ok := v.via()
	if value, typed := v.inForce("NCCL_SOCKET_IFNAME", p); ok && v.gpus() {
		for i, nic := range ncclWith(v, value) {
			if nic.Name != via.Name && (i == 0 || v.ncclSockets()) {
				add("NCCL", nic, firstAddr(nic), typed)
			}
		}
	}
	if name, typed := v.inForce("GLOO_SOCKET_IFNAME", p); name != "" && name != via.Name {
		if i := slices.IndexFunc(v.Node.Interfaces,
			func(i fabric.Interface) bool { return i.Name == name && i.Up }); i >= 0 {
			add("Gloo", v.Node.Interfaces[i], firstAddr(v.Node.Interfaces[i]), typed)
		}
	}
	return out
}

// inForce returns the value that a variable will have, and whether the user set it.
func (v *view) inForce(name string, p Plan) (value string, typed bool) {
	if d, ok := v.decided(name); ok {
		return d.Value, true
	}
	for _, x := range p {
		if x.Name == name {
			return x.Value, false
		}
	}
	return "", false
}
