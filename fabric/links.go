package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// dumpTries is how often a list is read again if it changed during the read (containers
// start and end).
const dumpTries = 3

// links returns the kernel's list of the interfaces of this network namespace with their addresses.
func links() ([]Interface, error) {
	list, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	names := map[int]string{}
	for _, l := range list {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var out []Interface
	for _, l := range list {
		a := l.Attrs()
		f := Interface{
			Index: a.Index, Name: a.Name, Kind: linkKind(l), MTU: a.MTU, NUMA: -1, Up: a.Flags&net.FlagUp != 0,
			Running: a.Flags&net.FlagRunning != 0,
		}
		if a.Slave != nil || a.MasterIndex != 0 {
			f.Master = names[a.MasterIndex]
		}
		for _, addr := range addrs {
			if p, ok := prefix(addr.IPNet); ok && addr.LinkIndex == a.Index {
				f.Addrs = append(f.Addrs, p)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

func dump[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumpTries {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}

// linkKind translates the kernel's kind of a link; "" where it has none, as for hardware.
func linkKind(l netlink.Link) string {
	if l.Attrs().Flags&net.FlagLoopback != 0 {
		return "loopback"
	}
	switch t := l.Type(); t {
	case "device":
		return ""
	case "bond", "bridge", "vlan", "veth", "macvlan", "ipvlan", "vxlan", "ipoib":
		return t
	case "team":
		return "bond"
	case "macvtap":
		return "macvlan"
	case "ipvtap":
		return "ipvlan"
	case "tun", "tuntap", "wireguard":
		return "tun"
	default:
		return "virtual"
	}
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones), true
}
