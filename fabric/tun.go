package fabric

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Handed is how many packets the kernel has given so far to the queue of a tunnel that a program carries (tun, tap), as
// the daemon of a VPN does, and how many that program has taken: the kernel counts those as sent. It is the zero Handed
// of other interfaces.
type Handed struct {
	Interface    string
	given, taken uint64
}

// HandedTo returns what Handed counts, for the interface by which packets to an address leave.
func HandedTo(from, to netip.Addr) (out Handed) {
	h, err := nextHop(from.Unmap(), netip.AddrPortFrom(to.Unmap(), 0))
	if err != nil || h.local {
		return out
	}
	link, err := netlink.LinkByIndex(h.index)
	if err != nil {
		return out
	}
	if _, isTun := link.(*netlink.Tuntap); !isTun || link.Attrs().Statistics == nil {
		return out
	}
	out = Handed{Interface: h.iface, taken: link.Attrs().Statistics.TxPackets}
	for at, q := range queuesOf(h.index) {
		if at[0] == netlink.HANDLE_ROOT {
			out.given += uint64(q.packets)
		}
	}
	return out
}

// fewHanded is the number of packets of which a program that goes on has taken at least one.
const fewHanded = 3

// Untaken returns that the program took none of the packets that it was given since an earlier look, some seconds ago.
func (h Handed) Untaken(before Handed) Fault {
	given := h.given - before.given
	if h.Interface == "" || h.Interface != before.Interface || h.taken != before.taken || h.given < before.given ||
		given < fewHanded {
		return Fault{}
	}
	return Fault{fmt.Sprintf("the program that carries the packets of %s on this node (tun: the daemon of a VPN) takes "+
		"none of them: %d more were sent to it, and its count of sent packets does not change", h.Interface, given),
		fmt.Sprintf("ip -s -d link show %s; tc -s qdisc show dev %[1]s; ps -ef\nis that daemon stopped (tailscaled, "+
			"openvpn, wireguard-go)? restart it", h.Interface)}
}

// TunnelTo returns the interface by which packets to an address leave, if it carries them inside of others, so that it
// has no cable: "tailscale0"; "": it does not.
func TunnelTo(from, to netip.Addr) string {
	h, err := nextHop(from.Unmap(), netip.AddrPortFrom(to.Unmap(), 0))
	if err != nil || h.local {
		return ""
	}
	if link, err := netlink.LinkByIndex(h.index); err != nil || !wrapsPackets(link.Type()) {
		return ""
	}
	return h.iface
}
