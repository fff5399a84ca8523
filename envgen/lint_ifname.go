package envgen

import (
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
)

// ncclSure tells that the job will start NCCL's network: several nodes, and
// GPUs here.
func (in Input) ncclSure() bool {
	return in.World.Nodes > 1 && len(in.Node.GPUs.Devices) > 0
}

// glooSure tells the same of Gloo: without GPUs it is the only backend that
// torch brings.
func (in Input) glooSure() bool {
	return in.World.Nodes > 1 && in.Torch && in.Node.GPUs.Absent != ""
}

// fixIfname names the interface to the peers where it is known, else drops
// the setting.
func fixIfname(in Input, d Decided, mark string) string {
	via, _, ok := in.via()
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

func lintNCCLIfname(in Input, d Decided) (finding.Finding, bool) {
	if len(d.Value) < 2 || !addressed(in.Node) || len(ncclWith(in, d.Value)) > 0 {
		return none()
	}
	f := worst(in.ncclSure(), "NCCL_SOCKET_IFNAME=%s selects no interface of this node", d.Value)
	if strings.HasPrefix(d.Value, "^") {
		f = worst(in.ncclSure(), "NCCL_SOCKET_IFNAME=%s excludes every interface of this node", d.Value)
	}
	f.Seen = append(f.Seen, ifSeen("interfaces that are up and have an address", filter{}.interfaces(in.Node.Interfaces, 0)))
	return f.Breaking("a job that uses NCCL stops with \"no socket interface found\" here, and the other nodes wait for it").
		Do("%s", fixIfname(in, d, "=")), true
}

func lintGlooIfname(in Input, d Decided) (finding.Finding, bool) {
	if len(d.Value) < 2 || !addressed(in.Node) {
		return none()
	}
	for name := range strings.SplitSeq(d.Value, ",") {
		if hasAddress(in.Node, name) {
			continue
		}
		return worst(in.glooSure(), "GLOO_SOCKET_IFNAME=%s: %s", d.Value, notExact(in.Node, name)).
			Breaking("Gloo stops with \"Unable to find address for: %s\"", name).
			Do("%s", fixIfname(in, d, "")), true
	}
	return none()
}

// lintTPIfname never fails: TensorPipe falls back to 127.0.0.1, and only
// torch.distributed.rpc uses it.
func lintTPIfname(in Input, d Decided) (finding.Finding, bool) {
	if d.Value == "" || !addressed(in.Node) || hasAddress(in.Node, d.Value) {
		return none()
	}
	return finding.Warnf("TP_SOCKET_IFNAME=%s: %s", d.Value, notExact(in.Node, d.Value)).
		Breaking("torch.distributed.rpc falls back to 127.0.0.1, where other nodes cannot reach it").
		Do("%s", fixIfname(in, d, "")), true
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
func lintLoopback(in Input, d Decided) (finding.Finding, bool) {
	if in.World.Nodes < 2 || in.World.Addr.IsLoopback() {
		return none()
	}
	sure := in.ncclSure()
	var names []string
	if d.Name == "GLOO_SOCKET_IFNAME" {
		sure = in.glooSure()
		names = strings.Split(d.Value, ",")
	} else if len(d.Value) > 1 {
		for _, i := range ncclWith(in, d.Value) {
			names = append(names, i.Name)
		}
	}
	notLoopback := func(name string) bool {
		return !slices.ContainsFunc(in.Node.Interfaces, func(i fabric.Interface) bool { return i.Name == name && i.Kind == "loopback" })
	}
	if len(names) == 0 || slices.ContainsFunc(names, notLoopback) {
		return none()
	}
	mark := "="
	if d.Name == "GLOO_SOCKET_IFNAME" {
		mark = ""
	}
	return worst(sure && in.World.Addr.IsValid(), "%s=%s is loopback, and the job has %d nodes", d.Name, d.Value, in.World.Nodes).
		Breaking("the other nodes cannot connect to this one").
		Do("%s", fixIfname(in, d, mark)), true
}
