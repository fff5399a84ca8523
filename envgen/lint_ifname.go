package envgen

import (
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

func ifnameLint() []lintRule {
	return []lintRule{
		{id: "env.ifname.nccl", names: []string{"NCCL_SOCKET_IFNAME"}, look: lintNCCLIfname,
			what: "it selects no interface of this node, or excludes all"},
		{id: "env.ifname.gloo", names: []string{"GLOO_SOCKET_IFNAME"}, look: lintGlooIfname,
			what: "a name in it is no whole name of an interface with an address; NCCL's marks = and ^ mean nothing to Gloo"},
		{id: "env.ifname.tensorpipe", names: []string{"TP_SOCKET_IFNAME"}, look: lintTPIfname,
			what: "it is not the one whole name of an interface with an address"},
		{id: "env.ifname.loopback", names: []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}, look: lintLoopback,
			what: "it is loopback, and the job has several nodes"},
		{id: "env.ifname.virtual", names: []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}, look: lintVirtual,
			what: "it is a bridge without a network card (docker0), and the job has several nodes"},
		{id: "env.ifname.family", names: []string{"NCCL_SOCKET_FAMILY"}, look: lintFamily,
			what: "it is neither AF_INET nor AF_INET6, or no interface has an address of it"},
	}
}

// ncclSure tells that the job will start NCCL's network: several nodes, and
// GPUs here.
func (v *view) ncclSure() bool {
	return v.World.Nodes > 1 && v.gpuCount() > 0
}

// glooSure tells the same of Gloo: without GPUs it is the only backend that
// torch brings.
func (v *view) glooSure() bool {
	return v.World.Nodes > 1 && v.Torch && v.Node.GPUs.Absent != ""
}

// fixIfname names the interface to the peers where it is known, else drops
// the setting.
func fixIfname(v *view, d setting.Decided, mark string) string {
	via, _, ok := v.via()
	if !ok {
		return drop(d)
	}
	return put(d, mark+via.Name)
}

// addressed tells whether the addresses of the interfaces are known at all:
// without the kernel's list (sysfs alone) there are none.
func addressed(n fabric.Node) bool {
	return slices.ContainsFunc(n.Interfaces, func(i fabric.Interface) bool { return len(i.Addrs) > 0 })
}

func lintNCCLIfname(v *view, d setting.Decided) (finding.Finding, bool) {
	if len(d.Value) < 2 || !addressed(v.Node) || len(ncclWith(v, d.Value)) > 0 {
		return none()
	}
	f := worst(v.ncclSure(), "NCCL_SOCKET_IFNAME=%s selects no interface of this node", d.Value)
	if strings.HasPrefix(d.Value, "^") {
		f = worst(v.ncclSure(), "NCCL_SOCKET_IFNAME=%s excludes every interface of this node", d.Value)
	}
	f.Seen = append(f.Seen, ifSeen("interfaces that are up and have an address", filter{}.interfaces(v.Node.Interfaces, 0)))
	return f.Breaking("a job that uses NCCL stops with \"no socket interface found\" here, and the other nodes wait for it").
		Do("%s", fixIfname(v, d, "=")), true
}

func lintGlooIfname(v *view, d setting.Decided) (finding.Finding, bool) {
	if len(d.Value) < 2 || !addressed(v.Node) {
		return none()
	}
	for name := range strings.SplitSeq(d.Value, ",") {
		if hasAddress(v.Node, name) {
			continue
		}
		return worst(v.glooSure(), "GLOO_SOCKET_IFNAME=%s: %s", d.Value, notExact(v.Node, name)).
			Breaking("Gloo stops with \"Unable to find address for: %s\"", name).
			Do("%s", fixIfname(v, d, "")), true
	}
	return none()
}

// lintTPIfname never fails: TensorPipe falls back to 127.0.0.1, and only
// torch.distributed.rpc uses it.
func lintTPIfname(v *view, d setting.Decided) (finding.Finding, bool) {
	if d.Value == "" || !addressed(v.Node) || hasAddress(v.Node, d.Value) {
		return none()
	}
	return finding.Warnf("TP_SOCKET_IFNAME=%s: %s", d.Value, notExact(v.Node, d.Value)).
		Breaking("torch.distributed.rpc falls back to 127.0.0.1, where other nodes cannot reach it").
		Do("%s", fixIfname(v, d, "")), true
}

func hasAddress(n fabric.Node, name string) bool {
	return slices.ContainsFunc(n.Interfaces, func(i fabric.Interface) bool { return i.Name == name && len(i.Addrs) > 0 })
}

// notExact says why a name is none: the notation of NCCL, or no such interface.
func notExact(n fabric.Node, name string) string {
	switch {
	case strings.ContainsAny(name, "^=,"):
		return "it takes a plain name, the marks ^ and = are NCCL's"
	case slices.ContainsFunc(n.Interfaces, func(i fabric.Interface) bool { return strings.HasPrefix(i.Name, name) && i.Name != name }):
		return "it takes the whole name of an interface, and " + name + " is only the beginning of one"
	case slices.ContainsFunc(n.Interfaces, func(i fabric.Interface) bool { return i.Name == name }):
		return name + " has no address"
	}
	return "this node has no interface " + name
}

// lintLoopback: loopback is right only where all nodes are on one machine. It
// is certain to be wrong only where this node's address is known not to be.
func lintLoopback(v *view, d setting.Decided) (finding.Finding, bool) {
	if v.World.Nodes < 2 || v.World.Addr.IsLoopback() {
		return none()
	}
	names, sure, mark := selected(v, d)
	notLoopback := func(name string) bool {
		return !slices.ContainsFunc(v.Node.Interfaces, func(i fabric.Interface) bool { return i.Name == name && i.Kind == "loopback" })
	}
	if len(names) == 0 || slices.ContainsFunc(names, notLoopback) {
		return none()
	}
	return worst(sure && v.World.Addr.IsValid(), "%s=%s is loopback, and the job has %d nodes", d.Name, d.Value, v.World.Nodes).
		Breaking("the other nodes cannot connect to this one").
		Do("%s", fixIfname(v, d, mark)), true
}

// selected are the interfaces that a setting of NCCL's or Gloo's means, whether
// this job uses that library for certain, and the mark of a whole name.
func selected(v *view, d setting.Decided) (names []string, sure bool, mark string) {
	if d.Name == "GLOO_SOCKET_IFNAME" {
		return strings.Split(d.Value, ","), v.glooSure(), ""
	}
	if len(d.Value) > 1 {
		for _, i := range ncclWith(v, d.Value) {
			names = append(names, i.Name)
		}
	}
	return names, v.ncclSure(), "="
}

// lintVirtual never fails: a container network can have routes between the
// bridges of its nodes.
func lintVirtual(v *view, d setting.Decided) (finding.Finding, bool) {
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
	return finding.Warnf("%s=%s is %s, and the job has %d nodes", d.Name, d.Value, why, v.World.Nodes).
		Breaking("the other nodes cannot connect to an address that only this machine knows").
		Do("%s", fixIfname(v, d, mark)), true
}

func lintFamily(v *view, d setting.Decided) (finding.Finding, bool) {
	if d.Value != "AF_INET" && d.Value != "AF_INET6" {
		return finding.Warnf("NCCL_SOCKET_FAMILY=%s is neither AF_INET nor AF_INET6, it is ignored", d.Value).
			Breaking("it does not do what it says").Do("%s", drop(d)), true
	}
	if !addressed(v.Node) || v.has("NCCL_SOCKET_IFNAME") || len(ncclAlone(v, true)) > 0 {
		return none()
	}
	return worst(v.ncclSure(), "NCCL_SOCKET_FAMILY=%s, and no interface of this node that is up has such an address", d.Value).
		Breaking("a job that uses NCCL stops with \"no socket interface found\" here, and the other nodes wait for it").Do("%s", drop(d)), true
}
