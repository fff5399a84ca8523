package envgen

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// decoys returns the interfaces that reach no other machine: the bridges and tunnels of containers,
// guests and VPNs, interfaces without carrier or with only a link-local address, and the host's end of
// a container's veth. In a container, or if a veth leads to the peers, the end of a veth is unknown.
func decoys(v *view, all []fabric.Interface) []fabric.Interface {
	away := map[string]bool{}
	for _, nic := range v.fab.NICs {
		if !nic.HCA && (nic.Role == rail.Virtual || nic.Role == rail.Unusable) {
			away[nic.Name] = true
		}
	}
	via, _, ok := v.home()
	host := ok && via.Kind != "veth" && v.Node.Container.Kind == ""
	return slices.DeleteFunc(slices.Clone(all), func(i fabric.Interface) bool {
		return !away[i.Name] && !(host && i.Kind == "veth")
	})
}

func nameOf(i fabric.Interface) string { return i.Name }

func names(all []fabric.Interface) string { return finding.Join(all, nameOf) }

// ncclAlone returns the interfaces that NCCL takes without NCCL_SOCKET_IFNAME, best first
// (src/misc/socket.cc ncclFindInterfaces). virbr: with libvirt's bridges, as NCCL before 2.28.3.
func ncclAlone(v *view, virbr bool) []fabric.Interface {
	rest := "^docker,lo,virbr"
	if virbr {
		rest = "^docker,lo"
	}
	for _, f := range []string{"ib", rest, "docker", "lo", "virbr"} {
		if got := parseFilter(f, maxIfs).interfaces(v.Node.Interfaces, v.value("NCCL_SOCKET_FAMILY")); len(got) > 0 {
			return got
		}
	}
	return nil
}

// ncclWith returns the interfaces that NCCL takes with a value. NCCL ignores a value
// of fewer than two characters (src/misc/socket.cc).
func ncclWith(v *view, value string) []fabric.Interface {
	if len(value) < 2 {
		return ncclAlone(v, false)
	}
	return parseFilter(value, maxIfs).interfaces(v.Node.Interfaces, v.value("NCCL_SOCKET_FAMILY"))
}

// ncclSockets reports whether NCCL's data goes over TCP. Then every interface that matches carries
// data (src/transport/net_socket.cc), not only the first.
func (v *view) ncclSockets() bool {
	switch {
	case strings.EqualFold(v.value("NCCL_NET"), "Socket"):
		return true
	case v.plugin() != "", v.netIs(vendorModules()):
		return false
	case leadingInt(v.value("NCCL_IB_DISABLE"), 0) != 0:
		return true
	case v.Node.Software.Plugin.Version == "" && v.needsPlugin():
		return false // these need a plugin, which may be there
	case v.strays(): // the plan switches them off
		return true
	}
	return len(v.ncclPorts()) == 0
}

// ncclWrong returns what is wrong with the interfaces that NCCL would take, or "".
func ncclWrong(v *view, got []fabric.Interface, via fabric.Interface) string {
	if len(got) == 0 {
		return "would find no interface that is up and has an address"
	}
	if !v.leads(got[0], via) {
		return "would use " + got[0].Name + ", the first in its own order"
	}
	if slow := v.offRail(got, via); len(slow) > 0 {
		return "without a plugin sends data over every interface that it finds and would also use " + names(slow)
	}
	if !v.ncclSockets() {
		return ""
	}
	if slow := v.slower(got[1:], via); v.World.Fast && len(slow) > 0 {
		return "sends data over every interface that it finds and would also use the slower " + names(slow)
	}
	if also := decoys(v, got[1:]); len(also) > 0 {
		return "sends data over every interface that it finds and would also use " + names(also)
	}
	if v.World.Home && len(got) > 1 {
		return "sends data over every interface that it finds, and the nodes do not all reach each other at " +
			names(got[1:])
	}
	return ""
}

// hostWrong returns what is wrong with the address that Gloo and TensorPipe choose, or "": the first of
// the host name that they can bind (gloo/transport/tcp/device.cc lookupAddrForHostname), else loopback.
func hostWrong(v *view, via fabric.Interface, addr netip.Prefix) string {
	n := v.Node
	if len(n.HostAddrs) == 0 {
		if n.HostErr == "" { // unknown
			return ""
		}
		return fmt.Sprintf("would listen on loopback, because this node's host name %s does not resolve", n.Hostname)
	}
	for _, s := range n.HostAddrs {
		a, err := netip.ParseAddr(s)
		if err != nil {
			continue
		}
		if a.Unmap().IsLoopback() {
			return fmt.Sprintf("would listen on loopback, because this node's host name %s is %s here", n.Hostname, a)
		}
		got, p, ok := holder(n, a)
		switch {
		case !ok: // the library cannot bind it and tries the next one
			continue
		case got.Name != via.Name:
			return fmt.Sprintf("would use %s, because this node's host name %s is %s", got.Name, n.Hostname, a)
		case !addr.Contains(p.Addr()) && addr.Contains(firstAddr(via)):
			return fmt.Sprintf("would use another subnet, because this node's host name %s is %s", n.Hostname, a)
		case v.World.Home && a.Unmap() != addr.Addr() && firstAddr(via) == addr.Addr():
			return fmt.Sprintf("would listen at %s, this node's host name, and the nodes do not all reach each other there", a)
		}
		return ""
	}
	return fmt.Sprintf("would listen on loopback, because this node does not have %[2]s, its host name %[1]s",
		n.Hostname, strings.Join(n.HostAddrs, ", "))
}

// glooHost returns the address of the host name at which Gloo waits, where that is one for other machines.
func (v *view) glooHost() (netip.Addr, bool) {
	for _, s := range v.Node.HostAddrs {
		a, err := netip.ParseAddr(s)
		if _, _, held := holder(v.Node, a); err == nil && held {
			return a.Unmap(), a.Unmap().IsGlobalUnicast()
		}
	}
	return netip.Addr{}, false
}

// firstAddr returns the address that a library takes of an interface: IPv4 before IPv6.
func firstAddr(i fabric.Interface) netip.Addr {
	for _, v4 := range []bool{true, false} {
		for _, p := range i.Addrs {
			if p.Addr().Is4() == v4 {
				return p.Addr()
			}
		}
	}
	return netip.Addr{}
}

func hostSeen(n fabric.Node) []finding.Seen {
	return saw("getaddrinfo "+n.Hostname, cmp.Or(strings.Join(n.HostAddrs, ", "), n.HostErr))
}

func ifSeen(where string, all []fabric.Interface) []finding.Seen {
	return saw(where, cmp.Or(names(all), "none"))
}

// Listen is an address on which a library waits for the other nodes.
type Listen struct {
	Library string     `json:"library"` // "NCCL", "Gloo", FastNetwork
	Addr    netip.Addr `json:"addr"`
	Typed   bool       `json:"typed,omitempty"` // the user set it; it is not the library's own choice
	Speed   int        `json:"speed,omitempty"` // of a FastNetwork, Mb/s
	Than    int        `json:"than,omitempty"`  // of a FastNetwork, the speed of the node's own network, Mb/s
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
	add := func(library string, nic fabric.Interface, typed bool) {
		a := firstAddr(nic)
		if !a.IsValid() || a == v.World.Addr || a.IsLoopback() || a.IsLinkLocalUnicast() || len(out) == maxListens ||
			len(decoys(v, []fabric.Interface{nic})) > 0 {
			return
		}
		if !slices.ContainsFunc(out, func(l Listen) bool { return l.Addr == a }) {
			out = append(out, Listen{Library: library, Addr: a, Typed: typed})
		}
	}
	via, _, ok := v.via()
	if value, typed := v.inForce("NCCL_SOCKET_IFNAME", p); ok && v.gpus() {
		for i, nic := range ncclWith(v, value) {
			if nic.Name != via.Name && (i == 0 || v.ncclSockets()) {
				add("NCCL", nic, typed)
			}
		}
	}
	if name, typed := v.inForce("GLOO_SOCKET_IFNAME", p); name != "" && name != via.Name {
		if nic, _ := v.Node.Interface(name); nic.Up {
			add("Gloo", nic, typed)
		}
	}
	if a, ok := v.glooHost(); ok && v.Torch && !v.gpus() && !v.has("GLOO_SOCKET_IFNAME") {
		if set, _ := v.inForce("GLOO_SOCKET_IFNAME", p); set == "" && a != v.World.Addr {
			out = append(out, Listen{Library: "Gloo", Addr: a})
		}
	}
	if fast, slow, ok := v.faster(); ok && !v.World.Fast {
		out = slices.DeleteFunc(out, func(l Listen) bool { return l.Addr == firstAddr(fast) && !l.Typed })
		out = append(out, Listen{Library: FastNetwork, Addr: firstAddr(fast), Speed: fast.Speed, Than: slow.Speed})
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
