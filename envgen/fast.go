package envgen

import (
	"net/netip"
	"slices"

	"launch/fabric"
	"launch/fabric/rail"
)

// FastNetwork is the library of a Listen that no library has yet: the address of this node in a network
// that is at least twice as fast as that of World.Addr, while the job's data goes over TCP. The nodes
// call each other there, and use it if all calls get through (World.Fast).
const FastNetwork = "the fast network"

// faster returns the fastest interface of such a network; ok is false where there is none, or where the
// data does not go over TCP. To pin the job to a slow interface would be worse than no setting: NCCL
// alone may take the fast one (ncclFindInterfaces in src/misc/socket.cc takes the first).
func (v *view) faster() (fast, slow fabric.Interface, ok bool) {
	if slow, _, ok = v.home(); !ok || v.Mpirun || !v.dataOverTCP() {
		return fast, slow, false
	}
	for _, i := range v.Node.Interfaces {
		usable := rail.Faster(slow, i) && firstAddr(i).IsGlobalUnicast() &&
			firstAddr(i).Is4() == v.World.Addr.Is4() && len(decoys(v, []fabric.Interface{i})) == 0
		if usable && i.Speed > fast.Speed {
			fast = i
		}
	}
	return fast, slow, fast.Speed > 0
}

func (v *view) dataOverTCP() bool {
	if v.gpus() {
		return v.ncclSockets() && !v.has("NCCL_SOCKET_IFNAME")
	}
	return v.Torch && !v.has("GLOO_SOCKET_IFNAME")
}

// equals returns an interface, and those like it that carry data with it: of one driver and speed. A rail that runs
// slower than the others is a rail still.
func (v *view) equals(fast fabric.Interface) []fabric.Interface {
	return slices.DeleteFunc(slices.Clone(v.Node.Interfaces), func(i fabric.Interface) bool {
		like := i.Driver == fast.Driver && (i.Speed == fast.Speed || v.onRail(i) && v.onRail(fast))
		return i.Name != fast.Name && (!like || !i.Up || !i.Running || i.Master != "" || !rail.Cabled(i) ||
			!firstAddr(i).IsGlobalUnicast())
	})
}

// home returns the interface with this node's address. ok is false for a single node, for nodes on one
// machine (loopback), and if no interface has the address (NAT, a virtual address). Where only the default route
// chose a link-local address, it is the interface that routable returns.
func (v *view) home() (via fabric.Interface, addr netip.Prefix, ok bool) {
	if v.World.Nodes < 2 || !v.World.Addr.IsValid() {
		return via, addr, false
	}
	if v.stray() {
		via, ok = v.routable()
		if !ok {
			return via, addr, false
		}
		return holder(v.Node, firstAddr(via))
	}
	via, addr, ok = holder(v.Node, v.World.Addr)
	return via, addr, ok && via.Kind != "loopback"
}

// stray reports whether this node's address is a link-local one of the default route, as of a BMC's USB network:
// no other machine reaches it. Where a peer has a link-local address too, they share a cable.
func (v *view) stray() bool {
	a := v.World.Addr.Unmap()
	return a.Is4() && a.IsLinkLocalUnicast() && v.Node.Route.Src.Unmap() == a &&
		!slices.ContainsFunc(v.World.Peers, netip.Addr.IsLinkLocalUnicast) && len(v.Node.Interfaces) > 0
}

// routable returns the first rail's interface with an address that a router forwards, else the only interface of a
// network card with one.
func (v *view) routable() (fabric.Interface, bool) {
	all := slices.DeleteFunc(slices.Clone(v.Node.Interfaces), func(i fabric.Interface) bool {
		return !rail.Cabled(i) || !i.Up || !i.Running || i.Master != "" || !firstAddr(i).IsGlobalUnicast()
	})
	if i := slices.IndexFunc(all, v.onRail); i >= 0 {
		return all[i], true
	}
	if len(all) == 1 {
		return all[0], true
	}
	return fabric.Interface{}, false
}

// onLoopback reports whether this node's address is on a loopback interface, and is no loopback address.
func (v *view) onLoopback() bool {
	i, ok := v.Node.InterfaceOf(v.World.Addr)
	return ok && i.Kind == "loopback" && !v.World.Addr.IsLoopback()
}

// slower returns the interfaces of at most half the speed of another.
func (v *view) slower(all []fabric.Interface, than fabric.Interface) []fabric.Interface {
	return slices.DeleteFunc(slices.Clone(all), func(i fabric.Interface) bool {
		return i.Speed == 0 || 2*i.Speed > than.Speed
	})
}
