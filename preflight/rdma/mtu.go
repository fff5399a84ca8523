package rdma

import (
	"context"
	"fmt"
	"strings"

	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// rdmaMTU compares the rails with each other, and each with its interface.
func rdmaMTU(_ context.Context, in preflight.Input) finding.Finding {
	ports := rail.PortsOf(in.Node, rail.Of(in.Node, in.Addr))
	if why := noRails(in, ports); why != "" {
		return finding.Skipf("%s", why)
	}
	most, right := 0, 0
	for _, p := range ports {
		has := p.Packets(in.Node)
		most, right = max(most, has.Now), max(right, has.Netdev)
	}
	if most == 0 {
		return finding.Skipf("the packet size is not known: no RoCE rail has a known interface, and libibverbs does not " +
			"report it")
	}
	var small, line []string
	f := finding.Warnf("")
	behind := false
	for _, p := range ports {
		has := p.Packets(in.Node)
		if has.Now == 0 || has.Now >= most && has.Now >= has.Fits {
			continue
		}
		switch {
		case has.Now < has.Fits:
			behind = true
			line = append(line, fmt.Sprintf("ip link set dev %s down; ip link set dev %[1]s up", p.Netdev))
			small = append(small, fmt.Sprintf("%s (%d, although MTU %d of %s has room for %d)",
				p.Name, has.Now, has.Netdev, p.Netdev, has.Fits))
		case has.Netdev > 0:
			line = append(line, fmt.Sprintf("ip link set dev %s mtu %d", p.Netdev, right))
			small = append(small, fmt.Sprintf("%s (%s, MTU %d)", p.Name, p.Netdev, has.Netdev))
		default:
			small = append(small, fmt.Sprintf("%s (%d)", p.Name, has.Now))
		}
		if has.Netdev > 0 {
			f = f.See("MTU of "+p.Netdev, "%d, so RoCE has room for %d", has.Netdev, rail.RoCEMTU(has.Netdev))
		}
		if v, ok := in.Node.Verbs.Port(p.HCA, p.Port); ok {
			f = f.See("active_mtu of "+p.Name, "%d, at most %d (libibverbs)", v.ActiveMTU, v.MaxMTU)
		}
	}
	if len(small) == 0 {
		return finding.Passf("packets of %d bytes", most)
	}
	f.What = fmt.Sprintf("%d of %s send smaller packets than the others' %d bytes: %s",
		len(small), finding.Count(len(ports), "rail"), most, finding.Some(small))
	if behind {
		f.What = fmt.Sprintf("%d of %s send smaller packets than they could: %s",
			len(small), finding.Count(len(ports), "rail"), finding.Some(small))
	}
	f = f.Breaking("these rails are slower; where only one end of a connection has the larger size, large messages vanish")
	if len(line) == 0 {
		return f.Do("ibv_devinfo   # shows max_mtu and active_mtu\n" +
			"on InfiniBand the subnet manager's partition has the limit (mtu=5 in opensm's partitions.conf)")
	}
	return f.Do("%s\nand in the network's configuration, if the switch supports it", strings.Join(line, "; "))
}
