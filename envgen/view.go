package envgen

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/setting"
)

// view is an Input and what all rules need of it.
type view struct {
	Input
	fab  rail.Fabric
	nccl version // also RCCL's, which has the same numbers
}

func look(in Input) *view {
	return &view{Input: in, fab: rail.Of(in.Node, in.World.Addr), nccl: parseVersion(in.Node.Software.NCCL.Version)}
}

// decided returns the setting in force for a name.
func (v *view) decided(name string) (setting.Decided, bool) {
	for _, d := range v.Decided {
		if d.Name == name {
			return d, true
		}
	}
	return setting.Decided{}, false
}

func (v *view) has(name string) bool { _, ok := v.decided(name); return ok }

// value returns the setting of a name, or "".
func (v *view) value(name string) string { d, _ := v.decided(name); return d.Value }

// apart reports whether the job has several machines.
func (v *view) apart() bool { return v.World.Nodes > 1 && !v.World.Addr.IsLoopback() }

// gpuCount returns the number of GPUs that NCCL or RCCL could use here. -1, for a driver that did not
// answer or a recording without PCI devices, counts as some: a variable too many costs nothing.
func (v *view) gpuCount() int {
	n := v.Node
	cards := map[string]int{}
	for _, c := range n.Cards {
		cards[c.Vendor]++
	}
	switch g := n.GPUs; {
	case len(g.Devices) > 0:
		return len(g.Devices)
	case g.Err != "":
		return -1
	case g.Absent == "" && !g.Present && cards["nvidia"] > 0: // no answer of NVML
		return cards["nvidia"]
	case g.Absent == "" && !g.Present && len(n.PCI) == 0:
		return -1
	case n.Software.HIP == "" && n.Software.Torch.Version != "":
		return 0 // a torch that cannot use AMD's
	}
	return cards["amd"]
}

// gpus reports whether NCCL can be in use here.
func (v *view) gpus() bool { return v.gpuCount() != 0 }

// uses reports whether the job uses a library that no fact of the node reveals: the
// command names it, or a variable with one of the prefixes is set.
func (v *view) uses(library string, prefixes ...string) bool {
	return slices.Contains(v.Uses, library) || slices.ContainsFunc(v.Decided, func(d setting.Decided) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(d.Name, p) })
	})
}

func (v *view) ucx() bool {
	return v.Node.Software.UCX.Version != "" || v.uses("ucx", "UCX_") || v.nixl()
}

func (v *view) nixl() bool    { return v.uses("nixl", "NIXL_") }
func (v *view) nvshmem() bool { return v.uses("nvshmem", "NVSHMEM_") }

// openMPI reports whether mpirun is Open MPI's, or unknown: the others ignore its variables.
func (v *view) openMPI() bool {
	return v.Mpirun && (v.MPI == "" || strings.HasPrefix(v.MPI, "openmpi"))
}

// plugin returns the network plugin that NCCL would load, or "" if none or unknown.
func (v *view) plugin() string {
	if p := v.Node.Software.Plugin.Version; p != software.None {
		return p
	}
	return ""
}

// via returns the interface by which the other nodes reach this node, and the address on it: the one of
// World.Addr, or of the faster network that all nodes agreed on. Where ok is false (see home), no
// interface is better than another.
func (v *view) via() (via fabric.Interface, addr netip.Prefix, ok bool) {
	if v.World.Fast {
		if fast, _, found := v.faster(); found {
			return holder(v.Node, firstAddr(fast))
		}
	}
	return v.home()
}

// holder returns the interface that is up and has the address, and the address with its prefix.
func holder(n fabric.Node, a netip.Addr) (fabric.Interface, netip.Prefix, bool) {
	a = a.Unmap().WithZone("")
	i, ok := n.InterfaceOf(a)
	for _, p := range i.Addrs {
		if p.Addr() == a {
			return i, p, ok
		}
	}
	return fabric.Interface{}, netip.Prefix{}, false
}

// head reports whether the node of mpirun is one of its hosts: only then the job uses its devices.
func (v *view) head() bool { return !v.Mpirun || slices.ContainsFunc(v.World.Peers, v.Node.IsLocal) }

// version is the version of a library, "2.27.5"; the zero version is unknown.
type version [3]int

var leadingNumbers = regexp.MustCompile(`^(\d+)(?:\.(\d+)(?:\.(\d+))?)?`)

// parseVersion parses the leading numbers of "2.27.5+cuda12.9".
func parseVersion(s string) (v version) {
	if m := leadingNumbers.FindStringSubmatch(s); m != nil {
		for i := range v {
			v[i], _ = strconv.Atoi(m[i+1]) // "" if there is none
		}
	}
	return v
}

func (v version) known() bool { return v != version{} }

func (v version) compare(w version) int { return slices.Compare(v[:], w[:]) }

// span is a range of versions: from since on, before before; "" is open.
type span struct{ since, before string }

// holds reports whether a version is in the range. An unknown version counts as a
// current one: it is only in a range with an open end.
func (s span) holds(v version) bool {
	if !v.known() {
		return s.before == ""
	}
	return (s.since == "" || v.compare(parseVersion(s.since)) >= 0) &&
		(s.before == "" || v.compare(parseVersion(s.before)) < 0)
}

func (s span) String() string {
	var words []string
	if s.since != "" {
		words = append(words, "from "+s.since)
	}
	if s.before != "" {
		words = append(words, "before "+s.before)
	}
	return strings.Join(words, ", ")
}
