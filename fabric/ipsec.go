package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sealed returns that this node's IPsec drops packets of TCP to the other node, or those from there. Its policies show
// that, which takes CAP_NET_ADMIN. To other users its counters do, of which those for what arrives have to rise again
// and again: packets of others raise them, too.
func (c Call) sealed(own netip.Addr) Fault {
	to := c.To.Addr()
	if p, err := readIPsec(to); err == nil {
		p.idle = c.Gone == Nothing
		return cmp.Or(p.drops(netlink.XFRM_DIR_OUT, own, to), p.drops(netlink.XFRM_DIR_IN, to, own))
	}
	switch r := c.Risen; {
	case r.OutBlocked > 0:
		return blockedByIPsec("that leave", "XfrmOutPolBlock")
	case r.NoState > 0:
		return Fault{"this node's IPsec drops packets for lack of a security association" + rises("XfrmOutNoStates"), showIKE}
	case r.InBlocked >= oftenDropped:
		return blockedByIPsec("that arrive", "XfrmInPolBlock")
	case r.Unsealed >= oftenDropped:
		return Fault{"this node's IPsec drops packets that arrive, since its policy takes them sealed" +
			rises("XfrmInTmplMismatch"), showIKE}
	case r.Unknown >= oftenDropped:
		return Fault{"this node's IPsec drops sealed packets that arrive, for lack of a security association" +
			rises("XfrmInNoStates"), showIKE}
	}
	return Fault{}
}

// oftenDropped is how many packets that arrive IPsec has to drop during a call.
const oftenDropped = 3

const (
	showIKE    = "ip xfrm policy; ip xfrm state: is the IKE daemon up (strongSwan, Libreswan)?"
	showBlocks = "ip xfrm policy: which program has set a policy with action block?"
)

// rises returns which counter shows that packets are dropped.
func rises(counter string) string { return " (" + counter + " in /proc/net/xfrm_stat rises)" }

func blockedByIPsec(which, counter string) Fault {
	return Fault{"this node's IPsec has a policy that blocks packets " + which + rises(counter), showBlocks}
}

// ipsec is the policies and security associations of this node.
type ipsec struct {
	policies []netlink.XfrmPolicy
	states   []netlink.XfrmState
	idle     bool // no call has failed: IKE may make an association once there is a packet
}

// readIPsec returns what there is for the family of an address.
func readIPsec(of netip.Addr) (p ipsec, err error) {
	if p.policies, err = netlink.XfrmPolicyList(familyOf(of)); err != nil || len(p.policies) == 0 {
		return p, err
	}
	p.states, err = netlink.XfrmStateList(familyOf(of))
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return p, err
}

// drops judges packets from one address to another one by the policy that applies, the one with the least priority
// value (ip-xfrm(8)). A state without an SPI is one that IPsec still asks for.
func (p ipsec) drops(dir netlink.Dir, from, to netip.Addr) Fault {
	in := func(n *net.IPNet, a netip.Addr) bool { return n == nil || n.Contains(a.AsSlice()) }
	policies := slices.DeleteFunc(slices.Clone(p.policies), func(p netlink.XfrmPolicy) bool {
		return p.Dir != dir || !in(p.Dst, to) || !in(p.Src, from) || p.Mark != nil || p.Ifid != 0 ||
			p.Ifindex != 0 || p.Proto != 0 && p.Proto != unix.IPPROTO_TCP || p.DstPort != 0 || p.SrcPort != 0
	})
	if len(policies) == 0 {
		return Fault{}
	}
	which, sealed := fmt.Sprintf("packets to %s", to), ""
	if dir == netlink.XFRM_DIR_IN {
		which, sealed = fmt.Sprintf("packets from %s", from), ", which it takes sealed,"
	}
	applies := slices.MinFunc(policies, func(a, b netlink.XfrmPolicy) int { return cmp.Compare(a.Priority, b.Priority) })
	if applies.Action == netlink.XFRM_POLICY_BLOCK {
		return Fault{"this node's IPsec has a policy that blocks " + which, showBlocks}
	}
	if p.idle {
		return Fault{}
	}
	for _, t := range applies.Tmpls {
		end := t.Dst
		if end == nil || end.IsUnspecified() {
			end = to.AsSlice()
		}
		if t.Optional == 0 && !slices.ContainsFunc(p.states, func(s netlink.XfrmState) bool {
			return s.Spi != 0 && s.Proto == t.Proto && s.Dst.Equal(end) && (t.Reqid == 0 || s.Reqid == t.Reqid)
		}) {
			return Fault{"this node's IPsec has a policy for " + which + sealed + " and no security association, so it drops " +
				"them", showIKE}
		}
	}
	return Fault{}
}
