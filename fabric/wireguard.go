package fabric

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of WireGuard's messages (linux/wireguard.h).
const (
	wgIfindex, wgListenPort, wgPeers = 1, 6, 8
	wgEndpoint, wgAllowed            = 4, 9
	wgAddress, wgBits                = 2, 3
)

// peersOf returns the end of a WireGuard interface to which packets for an address go; none: there is no such end, or
// this user may not ask. That takes CAP_NET_ADMIN.
func peersOf(iface int, next netip.Addr) []carriage {
	family, err := netlink.GenlFamilyGet("wireguard")
	if err != nil {
		return nil
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	req.AddData(&nl.Genlmsg{Version: 1}) // command 0: WG_CMD_GET_DEVICE
	req.AddData(nl.NewRtAttr(wgIfindex, nl.Uint32Attr(uint32(iface))))
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil
	}
	return wireguardEnd(answers, next)
}

// wireguardEnd returns the peer with the smallest network that has an address.
func wireguardEnd(answers [][]byte, next netip.Addr) (out []carriage) {
	var own uint16
	best := -1
	for _, b := range answers {
		if len(b) < nl.SizeofGenlmsg {
			continue
		}
		device := nested(b[nl.SizeofGenlmsg:])
		if p := device[wgListenPort]; len(p) == 2 {
			own = binary.NativeEndian.Uint16(p)
		}
		for _, peer := range list(device[wgPeers]) {
			attributes := nested(peer)
			at := endpoint(attributes[wgEndpoint])
			for _, allowed := range list(attributes[wgAllowed]) {
				of := nested(allowed)
				a, ok := netip.AddrFromSlice(of[wgAddress])
				if !ok || len(of[wgBits]) != 1 || !at.IsValid() {
					continue
				}
				if bits := int(of[wgBits][0]); bits > best && netip.PrefixFrom(a, bits).Contains(next) {
					best, out = bits, []carriage{{"WireGuard", unix.IPPROTO_UDP, at.Port(), 0, at.Addr().Unmap()}}
				}
			}
		}
	}
	for i := range out {
		out[i].own = own
	}
	return out
}

// list returns the values of a list of netlink's.
func list(b []byte) (out [][]byte) {
	all, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil
	}
	for _, a := range all {
		out = append(out, a.Value)
	}
	return out
}

// endpoint reads a struct sockaddr_in or sockaddr_in6.
func endpoint(b []byte) netip.AddrPort {
	if len(b) < 8 {
		return netip.AddrPort{}
	}
	from, to := 4, 8
	if binary.NativeEndian.Uint16(b) == unix.AF_INET6 {
		from, to = 8, 24
	}
	if len(b) < to {
		return netip.AddrPort{}
	}
	a, _ := netip.AddrFromSlice(b[from:to])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2:]))
}
