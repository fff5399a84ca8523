package envgen

import (
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

// noSocket is what happens if NCCL finds no interface.
const noSocket = `NCCL stops with "no socket interface found" here, and the other nodes wait`

// ifnameLint returns the rules for the variables that choose interfaces.
func ifnameLint() []lintRule {
	return []lintRule{
		{id: "env.ifname.nccl", names: []string{"NCCL_SOCKET_IFNAME"}, look: lintNCCLIfname,
			what: "it selects no interface of this node, or excludes all"},
		{id: "env.ifname.gloo", names: []string{"GLOO_SOCKET_IFNAME"}, look: lintGlooIfname,
			what: "a name in it is not the full name of an interface with an address; = and ^ are NCCL's"},
		{id: "env.ifname.tensorpipe", names: []string{"TP_SOCKET_IFNAME"}, look: lintTPIfname,
			what: "it is not the full name of an interface with an address"},
		{id: "env.ifname.loopback", names: []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}, look: lintLoopback,
			what: "it is loopback, and the job has several nodes"},
		{id: "env.ifname.virtual", names: []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}, look: lintVirtual,
			what: "it is a bridge without a network card (docker0), and the job has several nodes"},
		{id: "env.ifname.family", names: []string{"NCCL_SOCKET_FAMILY"}, look: lintFamily,
			what: "it is neither AF_INET nor AF_INET6, or no interface has such an address"},
	}
}

// ncclSure reports whether the job will start NCCL's network: several nodes, and GPUs here.
func (v *view) ncclSure() bool { return v.World.Nodes > 1 && v.gpuCount() > 0 }

// glooSure reports the same for Gloo: without GPUs it is torch's only backend.
func (v *view) glooSure() bool { return v.World.Nodes > 1 && v.Torch && v.Node.GPUs.Absent != "" }

// fixIfname returns the fix: the interface to the peers if known, else to drop the setting.
func fixIfname(v *view, d setting.Decided, mark string) string {
	via, _, ok := v.via()
	if !ok {
		return drop(d)
	}
	return put(d, mark+via.Name)
}

// addressed reports whether the addresses of the interfaces are known: with sysfs alone they are not.
func addressed(n fabric.Node) bool {
	return slices.ContainsFunc(n.Interfaces, func(i fabric.Interface) bool { return len(i.Addrs) > 0 })
}

func lintNCCLIfname(v *view, d setting.Decided) finding.Finding {
	if len(d.Value) < 2 || !addressed(v.Node) || len(ncclWith(v, d.Value)) > 0 {
		return none()
	}
	what := "selects no interface"
	if strings.HasPrefix(d.Value, "^") {
		what = "excludes every interface"
	}
	f := finding.FailOr(v.ncclSure(), "NCCL_SOCKET_IFNAME=%s %s of this node", d.Value, what)
	f.Seen = ifSeen("interfaces that are up and have an address", filter{}.interfaces(v.Node.Interfaces, ""))
	return f.Breaking(noSocket).Do("%s", fixIfname(v, d, "="))
}

func lintGlooIfname(v *view, d setting.Decided) finding.Finding {
	for name := range strings.SplitSeq(d.Value, ",") {
		if len(d.Value) > 1 && addressed(v.Node) && !hasAddress(v.Node, name) {
			return finding.FailOr(v.glooSure(), "GLOO_SOCKET_IFNAME=%s: %s", d.Value, notExact(v.Node, name)).
				Breaking("Gloo stops with \"Unable to find address for: %s\"", name).Do("%s", fixIfname(v, d, ""))
		}
		if own := unleased(v, name); own != "" {
			return finding.Warnf("GLOO_SOCKET_IFNAME=%s: %s has only %s, which a machine gives itself where it gets no lease "+
				"by DHCP", d.Value, name, own).Breaking("nodes with an address of that network do not reach this one").
				Do("ip -br addr show dev %s   # on this node: get it an address; or\n%s", name, fixIfname(v, d, ""))
		}
	}
	return none()
}

// unleased returns the only IPv4 address of an interface that is a link-local one (RFC 3927), while this node has
// another kind for the others; "": it is not so. Where a peer has such an address too, they share a cable.
func unleased(v *view, name string) string {
	i, _ := v.Node.Interface(name)
	if !v.World.Addr.IsValid() || v.World.Addr.Unmap().IsLinkLocalUnicast() ||
		slices.ContainsFunc(v.World.Peers, netip.Addr.IsLinkLocalUnicast) {
		return ""
	}
	own := ""
	for _, p := range i.Addrs {
		if a := p.Addr(); !a.IsLinkLocalUnicast() {
			return ""
		} else if a.Is4() {
			own = a.String()
		}
	}
	return own
}

// lintTPIfname never fails: TensorPipe falls back to 127.0.0.1, and only torch.distributed.rpc uses it.
func lintTPIfname(v *view, d setting.Decided) finding.Finding {
	if d.Value == "" || !addressed(v.Node) || hasAddress(v.Node, d.Value) {
		return none()
	}
	return finding.Warnf("TP_SOCKET_IFNAME=%s: %s", d.Value, notExact(v.Node, d.Value)).
		Breaking("torch.distributed.rpc falls back to 127.0.0.1, where other nodes cannot reach it").
		Do("%s", fixIfname(v, d, ""))
}

func hasAddress(n fabric.Node, name string) bool {
	i, _ := n.Interface(name)
	return len(i.Addrs) > 0
}

// notExact returns why a name is invalid: it has NCCL's notation, or is not an interface.
func notExact(n fabric.Node, name string) string {
	_, here := n.Interface(name)
	switch {
	case strings.ContainsAny(name, "^=,"):
		return "it takes a plain name; ^ and = are NCCL's notation"
	case slices.ContainsFunc(n.Interfaces,
		func(i fabric.Interface) bool { return strings.HasPrefix(i.Name, name) && i.Name != name }):
		return "it takes the full name of an interface, and " + name + " is only a prefix"
	case here:
		return name + " has no address"
	}
	return "this node has no interface " + name
}

// lintLoopback finds loopback, which is right only if all nodes are on one machine. It is
// certainly wrong only if this node's address is known to be another.
func lintLoopback(v *view, d setting.Decided) finding.Finding {
	if v.World.Nodes < 2 || v.World.Addr.IsLoopback() {
		return none()
	}
	names, sure, mark := selected(v, d)
	notLoopback := func(name string) bool {
		i, _ := v.Node.Interface(name)
		return i.Kind != "loopback"
	}
	// NCCL's bootstrap takes the first that matches, in the kernel's order, which begins with lo (bootstrapNetInit
	// in src/bootstrap.cc, ncclOsFindInterfaces in src/os/linux.cc).
	if d.Name == "NCCL_SOCKET_IFNAME" && len(names) > 1 && !notLoopback(names[0]) {
		return finding.FailOr(sure && v.World.Addr.IsValid(), "%s=%s makes NCCL take %s first, but the job has %d nodes",
			d.Name, d.Value, names[0], v.World.Nodes).
			Breaking("it gives the other nodes a loopback address; this setting replaces its own exclusion of lo").
			Do("%s", fixIfname(v, d, mark))
	}
	if len(names) == 0 || slices.ContainsFunc(names, notLoopback) {
		return none()
	}
	return finding.FailOr(sure && v.World.Addr.IsValid(), "%s=%s is loopback, but the job has %d nodes",
		d.Name, d.Value, v.World.Nodes).
		Breaking("the other nodes cannot connect to this one").Do("%s", fixIfname(v, d, mark))
}

// selected returns the interfaces that a setting of NCCL or Gloo selects, whether the
// job certainly uses that library, and the mark of a full name.
func selected(v *view, d setting.Decided) (names []string, sure bool, mark string) {
	if d.Name == "GLOO_SOCKET_IFNAME" {
		return strings.Split(d.Value, ","), v.glooSure(), ""
	}
	if len(d.Value) > 1 {
		names = finding.Map(ncclWith(v, d.Value), nameOf)
	}
	return names, v.ncclSure(), "="
}

// lintVirtual never fails: a container network can route between the bridges of its nodes.
func lintVirtual(v *view, d setting.Decided) finding.Finding {
	names, _, mark := selected(v, d)
	why := ""
	leadsOn := func(name string) bool {
		i, here := v.Node.Interface(name)
		return !here || i.Kind != "bridge" || !slices.ContainsFunc(v.fab.NICs, func(n rail.NIC) bool {
			why = n.Why
			return n.Name == name && !n.HCA && n.Role == rail.Virtual && n.Sure
		})
	}
	if v.World.Nodes < 2 || len(names) == 0 || slices.ContainsFunc(names, leadsOn) {
		return none()
	}
	return finding.Warnf("%s=%s is %s, but the job has %d nodes", d.Name, d.Value, why, v.World.Nodes).
		Breaking("the other nodes cannot connect to an address that only this machine has").
		Do("%s", fixIfname(v, d, mark))
}

func lintFamily(v *view, d setting.Decided) finding.Finding {
	if d.Value != "AF_INET" && d.Value != "AF_INET6" {
		return finding.Warnf("NCCL_SOCKET_FAMILY=%s is neither AF_INET nor AF_INET6: NCCL ignores it", d.Value).
			Breaking("it has no effect")
	}
	if !addressed(v.Node) || v.has("NCCL_SOCKET_IFNAME") || len(ncclAlone(v, true)) > 0 {
		return none()
	}
	return finding.FailOr(v.ncclSure(),
		"NCCL_SOCKET_FAMILY=%s, but no interface of this node that is up has such an address", d.Value).
		Breaking(noSocket)
}
