package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// refusedHere returns what the error of a node's own call means, and what to do there. The kernel has an error for each
// type of route: EINVAL for blackhole, EACCES for prohibit, EHOSTUNREACH for unreachable, ENETUNREACH where there is
// no route (ip-route(8)).
func refusedHere(errno string, n *node, to netip.Addr, port uint16) (says, do string) {
	route := fmt.Sprintf("ip rule; ip route get %s ipproto tcp dport %d   # on %s", to, port, n.name)
	switch errno {
	case "EADDRNOTAVAIL":
		return fmt.Sprintf("%s has no free port for a new connection to %s", n.name, to),
			fmt.Sprintf("sysctl net.ipv4.ip_local_port_range; ss -s   # on %s", n.name)
	case "EINVAL":
		return fmt.Sprintf("%s has a blackhole route to %s port %d", n.name, to, port),
			route + ": delete that route, or the rule that leads there"
	case "EHOSTUNREACH":
		return fmt.Sprintf("%s has an unreachable route to %s", n.name, to), route + ": what has made it? fail2ban makes " +
			"such routes"
	case "ENETUNREACH":
		return fmt.Sprintf("%s has no route to %s", n.name, to),
			fmt.Sprintf("ip route get %s; ip addr   # on %s: is the netmask right, is there a default route?", to, n.name)
	case "EACCES", "EPERM":
		return fmt.Sprintf("%s forbids calls to %s port %d: a prohibit route, or a filter", n.name, to, port),
			route + "\nnft list ruleset; iptables -S OUTPUT   # there"
	}
	return fmt.Sprintf("%s cannot call %s: %s", n.name, to, errno), fmt.Sprintf("ulimit -n   # on %s", n.name)
}

// staysHere returns why data of a connection that is stuck does not leave its node, if it does not: the node's address
// has gone, or it refuses new connections, or nothing counts as sent although the other end takes more. Data that was
// sent and lost counts as unacknowledged (tcp_write_xmit in the kernel).
func (v *view) staysHere(n *node, k scene.Socket, t scene.Path, where string) (says, do string, sure verdict.Sure) {
	local, remote := k.Local.Addr().Unmap(), k.Remote.Addr().Unmap()
	sameNet := k.Net == 0 || n.scene.Net == 0 || k.Net == n.scene.Net
	w := wrong(n, remote)
	switch {
	case sameNet && w != nil && w.Deleted:
		return strings.ReplaceAll(w.Wrong, "this node", n.name), w.Fix, verdict.Certain
	case sameNet && (len(n.scene.Addrs) > 0 || t.Here == "EADDRNOTAVAIL") && !slices.Contains(n.scene.Addrs, local):
		return fmt.Sprintf("%s's address %s is gone, and its connection to %s needs it", n.name, local, where),
			fmt.Sprintf("ip addr; journalctl | grep -i dhcp   # on %s: was another address given? an MTU below 1280 takes "+
				"IPv6 off an interface", n.name), verdict.Certain
	case t.Here != "":
		says, do = refusedHere(t.Here, n, remote, k.Remote.Port())
		return says, do, verdict.Certain
	case k.Info.Unacked == 0 && k.SendQ > 0:
		return fmt.Sprintf("packets from %s to %s do not leave %s: %d bytes wait, and nothing was sent: a filter or a limit "+
				"on its output", n.name, where, n.name, k.SendQ),
			fmt.Sprintf("nft list ruleset; iptables -L OUTPUT -v; tc -s qdisc; ip route get %s   # on %s\n"+
				"systemctl show -p IPAddressDeny UNIT; bpftool cgroup tree   # there: a filter of the control group", remote,
				n.name),
			verdict.Certain
	}
	return "", "", ""
}

// forgot returns the claim that the firewall of one end of a connection has no entry for it. At the end that sends
// again, what it sends would make one. At the other end there may be no entry, since nothing arrives.
func (v *view) forgot(n, other *node, k scene.Socket, where string) (c claim, is bool) {
	at, sure, or := n, verdict.Certain, ""
	if is = k.Forgot; !is && other != nil && other.scene != nil {
		at, sure, or = other, verdict.Likely, ". Or a firewall between drops them"
		i := slices.IndexFunc(other.scene.Sockets, func(o scene.Socket) bool {
			return o.Forgot && o.Local == k.Remote && o.Remote == k.Local
		})
		if is = i >= 0; is && other.scene.Sockets[i].Stuck() {
			sure, or = verdict.Certain, ""
		}
	}
	return claimed("path.here", sure, fmt.Sprintf("the own firewall of %s drops the packets of an open connection from "+
		"%s to %s: its table of connections has no entry for it, while new connections pass%s", at.name, n.name, where, or)).
		of(nil, at).do(fmt.Sprintf("nft list ruleset; iptables -S; conntrack -L   # on %s: was the firewall restarted, or "+
		"its table flushed?\nstart the job again: that connection does not go on", at.name)), is
}

// otherEnd returns the node that has the other end of a connection. Its address may have gone since.
func (v *view) otherEnd(k scene.Socket) *node {
	for _, n := range v.nodes {
		if n.scene != nil && slices.ContainsFunc(n.scene.Sockets, func(o scene.Socket) bool {
			return o.Local == k.Remote && o.Remote == k.Local
		}) {
			return n
		}
	}
	return nil
}
