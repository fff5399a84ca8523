package preflight

import (
	"context"
	"fmt"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// activeMTU is what the kernel makes of an interface's MTU for RoCE, in bytes:
// the largest size of InfiniBand's that fits beside the headers (iboe_get_mtu in
// include/rdma/ib_addr.h, which takes off 96 bytes); 0 unknown.
func activeMTU(netdev int) int {
	const headers = 40 + 8 + 12 + 4 + 28 + 4 // GRH, UDP, BTH, XRC, atomic ETH, ICRC
	for _, size := range []int{4096, 2048, 1024, 512, 256} {
		if netdev-headers >= size {
			return size
		}
	}
	return 0
}

// packets is the most data in a packet of a rail, in bytes; 0 of what is not
// known.
type packets struct {
	now    int // as the port has it: libibverbs tells, and of RoCE else the interface's MTU
	fits   int // what the interface's MTU leaves room for, as far as the port can
	netdev int // the MTU of the interface, of RoCE
}

func (p port) packets(n fabric.Node) (out packets) {
	if p.hca.Driver == "efa" {
		return packets{}
	}
	if i, ok := n.Interface(p.Netdev); ok && p.port.LinkLayer == "Ethernet" {
		out.netdev, out.fits = i.MTU, activeMTU(i.MTU)
		out.now = out.fits
	}
	if v, ok := n.Verbs.Port(p.HCA, p.Port); ok && v.ActiveMTU > 0 {
		out.now, out.fits = v.ActiveMTU, min(out.fits, v.MaxMTU)
	}
	return out
}

// rdmaMTU compares the rails with each other, and each with its interface.
func rdmaMTU(_ context.Context, in Input) finding.Finding {
	ports := railPorts(in.Node, rail.Of(in.Node, in.Addr))
	if why := noRails(in, ports); why != "" {
		return finding.Skipf("%s", why)
	}
	most, right := 0, 0
	for _, p := range ports {
		has := p.packets(in.Node)
		most, right = max(most, has.now), max(right, has.netdev)
	}
	if most == 0 {
		return finding.Skipf("nothing tells how large packets are: no RoCE rail whose interface is known, and libibverbs does not say")
	}
	var small, line []string
	f := finding.Warnf("")
	behind := false
	for _, p := range ports {
		has := p.packets(in.Node)
		if has.now == 0 || has.now >= most && has.now >= has.fits {
			continue
		}
		switch {
		case has.now < has.fits:
			behind = true
			line = append(line, fmt.Sprintf("ip link set dev %s down; ip link set dev %[1]s up", p.Netdev))
			small = append(small, fmt.Sprintf("%s (%d, although MTU %d of %s has room for %d)", p.name, has.now, has.netdev, p.Netdev, has.fits))
		case has.netdev > 0:
			line = append(line, fmt.Sprintf("ip link set dev %s mtu %d", p.Netdev, right))
			small = append(small, fmt.Sprintf("%s (%s, MTU %d)", p.name, p.Netdev, has.netdev))
		default:
			small = append(small, fmt.Sprintf("%s (%d)", p.name, has.now))
		}
		if has.netdev > 0 {
			f = f.See("MTU of "+p.Netdev, "%d, so RoCE has room for %d", has.netdev, activeMTU(has.netdev))
		}
		if v, ok := in.Node.Verbs.Port(p.HCA, p.Port); ok {
			f = f.See("active_mtu of "+p.name, "%d, at most %d (libibverbs)", v.ActiveMTU, v.MaxMTU)
		}
	}
	if len(small) == 0 {
		return finding.Passf("packets of %d bytes", most)
	}
	f.What = fmt.Sprintf("%d of %s send smaller packets than the others' %d bytes: %s", len(small), howMany(len(ports), "rail"), most, some(small))
	if behind {
		f.What = fmt.Sprintf("%d of %s send smaller packets than they could: %s", len(small), howMany(len(ports), "rail"), some(small))
	}
	f = f.Breaking("these rails are slower; and where only one end of a connection has the larger size, large messages vanish")
	if len(line) == 0 {
		return f.Do("ibv_devinfo shows max_mtu and active_mtu; on InfiniBand the subnet manager's partition has the limit (mtu=5 in opensm's partitions.conf)")
	}
	return f.Do("%s\nand in the network's configuration, if the switch carries it", strings.Join(line, "; "))
}
