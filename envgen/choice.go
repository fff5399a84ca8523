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

// decoys are those of the interfaces by which no other machine is reached: the
// bridges and tunnels of containers, guests and VPNs, what has no carrier or no
// address beyond its own cable, and the host's end of a container's cable also
// where it has an address. Inside a container, or where a veth is the way to
// the peers, it is not known which end a veth is.
func decoys(v *view, all []fabric.Interface) []fabric.Interface {
	away := map[string]bool{}
	for _, nic := range v.fab.NICs {
		if !nic.HCA && (nic.Role == rail.Virtual || nic.Role == rail.Unusable) {
			away[nic.Name] = true
		}
	}
	via, _, ok := v.via()
	host := ok && via.Kind != "veth" && v.Node.Container.Kind == ""
	return slices.DeleteFunc(slices.Clone(all), func(i fabric.Interface) bool {
		return !away[i.Name] && !(host && i.Kind == "veth")
	})
}

func names(all []fabric.Interface) string {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = f.Name
	}
	return strings.Join(words, ", ")
}

// ncclAlone are the interfaces that NCCL takes with no NCCL_SOCKET_IFNAME, best
// first (src/misc/socket.cc ncclFindInterfaces). NCCL left libvirt's bridges
// out only from 2.28.3 on; which NCCL the program brings is not known here, so
// both are asked for.
func ncclAlone(v *view, virbr bool) []fabric.Interface {
	rest := "^docker,lo,virbr"
	if virbr {
		rest = "^docker,lo"
	}
	for _, f := range []string{"ib", rest, "docker", "lo", "virbr"} {
		if got := parseFilter(f, maxIfs).interfaces(v.Node.Interfaces, v.ncclFamily()); len(got) > 0 {
			return got
		}
	}
	return nil
}

// ncclWith are the interfaces that NCCL takes with that value. A value of less
// than two characters counts as none (src/misc/socket.cc).
func ncclWith(v *view, value string) []fabric.Interface {
	if len(value) < 2 {
		return ncclAlone(v, false)
	}
	return parseFilter(value, maxIfs).interfaces(v.Node.Interfaces, v.ncclFamily())
}

func (v *view) ncclFamily() family {
	d, _ := v.decided("NCCL_SOCKET_FAMILY")
	switch d.Value {
	case "AF_INET":
		return 4
	case "AF_INET6":
		return 6
	}
	return 0
}

// ncclSockets tells whether NCCL's data goes over TCP: there is no network
// plugin and no port that its IB module takes, or these are switched off. Then
// every interface that matches carries data (src/transport/net_socket.cc), not
// only the first.
func (v *view) ncclSockets() bool {
	switch {
	case strings.EqualFold(v.value("NCCL_NET"), "Socket"):
		return true
	case v.plugin() != "", v.netIs(vendorModules()):
		return false
	case leadingInt(v.value("NCCL_IB_DISABLE"), 0) != 0:
		return true
	case v.Node.Software.Plugin.Version == "" && v.needsPlugin():
		return false // these need a plugin, and nothing says that it is missing
	case v.strays(): // the plan switches them off
		return true
	}
	return len(v.ncclPorts()) == 0
}

// ncclWrong says what is wrong with the interfaces that NCCL would take, or "".
func ncclWrong(v *view, got []fabric.Interface, via fabric.Interface) string {
	if len(got) == 0 {
		return "would find no interface that is up and has an address"
	}
	if got[0].Name != via.Name {
		return "would use " + got[0].Name + ", the first one in its own order"
	}
	if !v.ncclSockets() {
		return ""
	}
	if also := decoys(v, got[1:]); len(also) > 0 {
		return "sends data over every interface that it finds and would also use " + names(also)
	}
	return ""
}

// hostWrong says what is wrong with the address that Gloo and TensorPipe find
// by themselves, or "": the first address of the host name that can be bound
// (gloo/transport/tcp/device.cc lookupAddrForHostname), else loopback.
func hostWrong(v *view, via fabric.Interface, addr netip.Prefix) string {
	n := v.Node
	if len(n.HostAddrs) == 0 {
		if n.HostErr == "" { // nobody asked: could not tell
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
		case !ok: // cannot be bound, the next one is tried
			continue
		case got.Name != via.Name:
			return fmt.Sprintf("would use %s, because this node's host name %s is %s", got.Name, n.Hostname, a)
		case !addr.Contains(p.Addr()) && addr.Contains(firstAddr(via)):
			return fmt.Sprintf("would use another subnet, because this node's host name %s is %s", n.Hostname, a)
		}
		return ""
	}
	return fmt.Sprintf("would listen on loopback, because this node's host name %s is %s, which is no address of this node",
		n.Hostname, strings.Join(n.HostAddrs, ", "))
}

// firstAddr is the address that a library gets when it is given only the
// interface: IPv4 before IPv6.
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

func hostSeen(n fabric.Node) finding.Seen {
	what := strings.Join(n.HostAddrs, ", ")
	if what == "" {
		what = n.HostErr
	}
	return finding.Seen{Where: "getaddrinfo " + n.Hostname, What: what}
}

func ifSeen(where string, all []fabric.Interface) finding.Seen {
	return finding.Seen{Where: where, What: cmp.Or(names(all), "none")}
}
