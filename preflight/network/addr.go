// Package network holds the checks of this node's network: its name and address,
// the name servers, the store's reachability, and the ports that the job needs.
package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
)

// Checks returns the checks of this package, in the order of the report.
func Checks() []preflight.Check { return slices.Concat(storeChecks(), dnsChecks(), addrChecks()) }

func addrChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "host.resolves", Title: "this node's own host name resolves",
		Doc: "Gloo and c10d look up their own host name. Where it has no address, Gloo listens on loopback, and every " +
			"lookup may cost seconds.",
		Run: preflight.One(hostResolves),
	}, {
		ID: "addr.usable", Title: "the peers can reach the address that this node gives them",
		Doc: "The nodes agree on an address that only this machine knows without an error, and the others then connect " +
			"to themselves or to nothing.",
		Run: preflight.One(addrUsable),
	}, {
		ID: "addr.loopback", Title: "the loopback interface is up",
		Doc: "Connections of a node to itself go over it, also those to its other addresses: the ranks of one node, and " +
			"rank 0 to its own store.",
		Run: preflight.One(loopbackUp),
	}, {
		ID: "port.master", Title: "the port of torch's own store is free",
		Doc: "Two jobs on one node use the same default port. The second one dies, or connects to the first one's store.",
		Run: preflight.One(portMaster),
	}}
}

func loopbackUp(_ context.Context, in preflight.Input) finding.Finding {
	i := slices.IndexFunc(in.Node.Interfaces, func(i fabric.Interface) bool { return i.Kind == "loopback" })
	switch {
	case i < 0:
		return finding.Skipf("no loopback interface was seen")
	case in.Node.Interfaces[i].Up:
		return finding.Passf("%s is up", in.Node.Interfaces[i].Name)
	}
	name := in.Node.Interfaces[i].Name
	f := finding.Warnf("the loopback interface %s is down", name).
		Breaking("this node does not reach itself, at any of its addresses: its ranks do not find each other").
		Do("ip link set %s up", name)
	if len(in.Serve) > 0 {
		f.Status, f.Breaks = finding.Fail, "this node hosts the store, and does not reach itself, at any of its addresses"
	}
	return f
}

func hostResolves(_ context.Context, in preflight.Input) finding.Finding {
	n, addrs := in.Node, strings.Join(in.Node.HostAddrs, ", ")
	if f, bad := oddName(in); bad {
		return f
	}
	if in.Stat != nil {
		if _, err := in.Stat("/etc/hosts"); errors.Is(err, fs.ErrPermission) {
			return finding.Warnf("this user cannot read /etc/hosts").See("open /etc/hosts", "permission denied").
				Breaking("no program of this user finds a name in it, such as another node's").
				Do("chmod 644 /etc/hosts   # as root")
		}
	}
	switch {
	case n.HostErr != "" && filesUnread(in.Node.System):
		return finding.Warnf("nsswitch.conf does not read /etc/hosts, and this node's host name %s does not resolve",
			n.Hostname).
			See("/etc/nsswitch.conf", "hosts: %s", strings.Join(n.System.Resolver.Services, " ")).
			See("getaddrinfo "+n.Hostname, "%s", n.HostErr).
			Breaking("no name in /etc/hosts has an address here, such as another node's").
			Do("hosts: files dns   # in /etc/nsswitch.conf")
	case n.HostErr != "":
		return finding.Warnf("this node's host name %s does not resolve", n.Hostname).
			See("getaddrinfo "+n.Hostname, "%s", n.HostErr).
			Breaking("programs that look it up get loopback, or wait for a name server").
			Do("echo \"%s %s\" >> /etc/hosts", hostsAddr(in), n.Hostname)
	case len(n.HostAddrs) == 0:
		return finding.Skipf("this run asks no name server")
	}
	if len(n.Interfaces) > 0 && n.AddressesForbidden() == "" && !slices.ContainsFunc(n.HostAddrs, func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err != nil || a.IsLoopback() || n.IsLocal(a)
	}) {
		return finding.Warnf("this node's host name %s resolves to %s, which is no address of this node", n.Hostname, addrs).
			See("getaddrinfo "+n.Hostname, "%s", addrs).
			Breaking("Gloo and other programs that look it up cannot listen there, and take loopback").
			Do("correct its line in /etc/hosts or its entry in the DNS: %s %s", hostsAddr(in), n.Hostname)
	}
	return finding.Passf("%s is %s", n.Hostname, addrs)
}

// oddName finds a host name that is a number, which inet_aton takes for an address ("05" is 0.0.0.5, before
// any look-up: getaddrinfo in POSIX), and one that leads to 0.0.0.0/8, "this host on this network" (RFC
// 1122, 3.2.1.3). A line in /etc/hosts changes nothing for the first.
func oddName(in preflight.Input) (finding.Finding, bool) {
	n := in.Node
	isThis := func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is4() && a.As4()[0] == 0
	}
	number := numberRE.MatchString(n.Hostname)
	if !number && !slices.ContainsFunc(n.HostAddrs, isThis) {
		return finding.Finding{}, false
	}
	f := finding.Warnf("this node's host name %s leads to %s, which is no address of a node", n.Hostname,
		strings.Join(n.HostAddrs, ", ")).See("getaddrinfo "+n.Hostname, "%s", strings.Join(n.HostAddrs, ", ")).
		Breaking("Gloo and torch's store look up their own host name, and hang or take loopback")
	if !number {
		return f.Do("correct its line in /etc/hosts or its entry in the DNS: %s %s", hostsAddr(in), n.Hostname), true
	}
	if len(n.HostAddrs) == 0 {
		f.What = fmt.Sprintf("this node's host name %s is a number, which programs take for an address", n.Hostname)
	}
	return f.Do("hostnamectl set-hostname node-%s   # a name with a letter; /etc/hosts does not help, since a number is "+
		"not looked up", n.Hostname), true
}

var numberRE = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|[0-9]+)(\.(0[xX][0-9a-fA-F]+|[0-9]+)){0,3}$`)

// hostsAddr returns the address that /etc/hosts should have for this node.
func hostsAddr(in preflight.Input) string {
	if in.Addr.IsValid() && !in.Addr.IsLoopback() {
		return in.Addr.String()
	}
	return "127.0.1.1"
}

// onCable reports whether the store has a link-local address: the nodes are on one cable or switch, as the user says.
func onCable(ctx context.Context, in preflight.Input) bool {
	host := in.Job.Store.V.Host
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLinkLocalUnicast()
	}
	if in.Resolve == nil || host == "" {
		return false
	}
	addrs, err := in.Resolve(ctx, host)
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		return !a.Unmap().IsLinkLocalUnicast()
	})
}

// takenAddr finds an address that this node does not use since another machine has it.
func takenAddr(n fabric.Node, left netip.Addr) (finding.Finding, bool) {
	for _, i := range n.Interfaces {
		for _, a := range i.Taken {
			return finding.Failf("another machine has %s, too, so this node does not use it, and %s is link-local", a, left).
				See(i.Name, "%s: dadfailed, duplicate address detection has failed", a).
				Breaking("no peer can connect to this node").
				Do("ip -6 addr show dev %s   # give one of the two machines another address\n"+
					"once that is done: ip -6 addr del %s dev %[1]s; ip -6 addr add ADDRESS/64 dev %[1]s", i.Name, a), true
		}
	}
	return finding.Finding{}, false
}

// addrUsable fails only for an address that no other machine can reach by definition. A link-local IPv4
// address works between two machines on one cable, and a container bridge works for its containers.
func addrUsable(ctx context.Context, in preflight.Input) finding.Finding {
	a := in.Addr.Unmap()
	switch {
	case !in.Job.Several():
		return finding.Skipf("one node has no peers")
	case !a.IsValid():
		return finding.Skipf("not known yet")
	case a.IsUnspecified() || a.IsMulticast():
		return finding.Failf("%s is not an address of a node", a).
			Breaking("no peer can connect to it").Do("launch --addr ADDRESS …")
	case a.IsLoopback():
		return loopback(in, a)
	case a.Is6() && a.IsLinkLocalUnicast():
		if f, bad := takenAddr(in.Node, a); bad {
			return f
		}
		return finding.Failf("%s is a link-local IPv6 address, which is valid on this machine only", a).
			Breaking("no peer can connect to it").Do("launch --addr ADDRESS …   # a routed address")
	case a.IsLinkLocalUnicast() && onCable(ctx, in):
		return finding.Passf("%s, as the store's address is link-local, too", a)
	case a.IsLinkLocalUnicast():
		return finding.Warnf("%s is a link-local address", a).
			Breaking("only machines on the same cable or switch reach it").
			Do("launch --addr ADDRESS …   # if the peers are farther away")
	}
	if why := in.Node.AddressesForbidden(); why != "" {
		return finding.Failf("this process may not read the addresses of this node").See("socket AF_NETLINK", "%s", why).
			Breaking("Gloo, NCCL and all that call getifaddrs find no interface, and end").
			Do("allow AF_NETLINK: RestrictAddressFamilies of its systemd unit, or the seccomp profile of its container")
	}
	i, ok := in.Node.InterfaceOf(a)
	if !ok {
		return finding.Warnf("%s is not an address of this node", a).
			Breaking("peers reach it only if a device forwards it to this node (NAT, a virtual address)").
			Do("launch --addr ADDRESS …   # one of this node's own addresses, unless it is forwarded")
	}
	if i.Kind == "loopback" {
		return finding.Warnf("%s is on %s, which NCCL and Gloo leave out", a, i.Name).
			See(i.Name, "%v", i.Addrs).
			Breaking("NCCL waits for the others at a link-local address, or at 127.0.0.1 where %s is named", i.Name).
			Do("ip link add dummy0 type dummy; ip link set dummy0 up; ip address del %[1]s/%[2]d dev %[3]s; "+
				"ip address add %[1]s/%[2]d dev dummy0\n"+
				"NCCL_SOCKET_IFNAME==dummy0 GLOO_SOCKET_IFNAME=dummy0   # on each node; routes to the address remain",
				a, a.BitLen(), i.Name)
	}
	if f, bad := dockerBridge(in, a, i); bad {
		return f
	}
	if f, bad := runtimeBridge(in, a, i); bad {
		return f
	}
	if f, bad := sharedNetwork(in, a, i); bad {
		return f
	}
	return finding.Passf("%s on %s", a, i.Name)
}

// runtimeBridge finds this node's address in a network of its own containers or guests. Where the store has it, other
// machines find the store elsewhere.
func runtimeBridge(in preflight.Input, a netip.Addr, i fabric.Interface) (finding.Finding, bool) {
	if !in.Node.RuntimeBridge(i) {
		return finding.Finding{}, false
	}
	if slices.ContainsFunc(endpoints(in.Job.Store.V), func(e endpoint) bool { return e.host == a.String() }) {
		return finding.Warnf("the store's address %s is this machine's own on %s, a network of its containers or guests",
			a, i.Name).See(i.Name, "%v", i.Addrs).
			Breaking("this node finds a store of its own there, and does not meet the nodes of other machines").
			Do("give that network other addresses (bip in /etc/docker/daemon.json, then restart docker)\n" +
				"or choose the store's address in another network: --store HOST, the same on all nodes"), true
	}
	return finding.Warnf("%s is on %s, which leads to this machine's own containers or guests", a, i.Name).
		Breaking("peers on other machines do not reach it").
		Do("launch --addr ADDRESS …   # an address of the network between the nodes"), true
}

// sharedNetwork finds another card in the network of this node's address, where the data goes over TCP: Linux
// sends to a network by one interface, whatever address a socket has.
func sharedNetwork(in preflight.Input, a netip.Addr, i fabric.Interface) (finding.Finding, bool) {
	names := in.Node.Neighbors(i)
	rdma := slices.ContainsFunc(in.Node.HCAs, func(h fabric.HCA) bool {
		return slices.ContainsFunc(h.Ports, fabric.Port.Active)
	}) || slices.ContainsFunc(in.Node.PCI, func(p fabric.PCI) bool { return p.Vendor == fabric.VendorCray })
	if len(names) == 0 || rdma {
		return finding.Finding{}, false
	}
	f := finding.Warnf("%s on %s and %s are in one network", a, i.Name, strings.Join(names, ", "))
	for _, n := range append([]string{i.Name}, names...) {
		o, _ := in.Node.Interface(n)
		f = f.See(n, "%v, %d Mb/s", o.Addrs, o.Speed)
	}
	return f.Breaking("this node sends to its peers by one of them only, perhaps the slower, whatever a variable names").
		Do("ip route get PEER   # shows which\ngive them different networks, or the faster one the lower metric\n" +
			"if rules choose by address (ip rule): --skip addr.usable"), true
}

// dockerBridge finds a container's address in docker's default network (bip in dockerd's configuration), which
// leads to this machine's own containers only. Where the store is in it, too, all nodes are such containers.
func dockerBridge(in preflight.Input, a netip.Addr, i fabric.Interface) (finding.Finding, bool) {
	bridge := netip.MustParsePrefix("172.17.0.0/16")
	near := slices.ContainsFunc(endpoints(in.Job.Store.V), func(e endpoint) bool {
		s, err := netip.ParseAddr(e.host)
		return err == nil && (bridge.Contains(s) || s.IsLoopback())
	})
	held := slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == a && p.Masked() == bridge })
	if i.Kind != "veth" || !held || near {
		return finding.Finding{}, false
	}
	return finding.Warnf("%s on %s is an address of docker's own bridge", a, i.Name).
		See(i.Name, "%v, a veth", i.Addrs).
		Breaking("no other machine reaches it; calls from here leave by NAT").
		Do("docker run --network host …"), true
}

// loopback judges a loopback address. It is right where all nodes share this machine,
// and certainly wrong only where the store is at an address of another machine.
func loopback(in preflight.Input, a netip.Addr) finding.Finding {
	hosts := endpoints(in.Job.Store.V)
	elsewhere := slices.ContainsFunc(hosts, func(e endpoint) bool {
		s, err := netip.ParseAddr(e.host)
		return err == nil && !in.Node.IsLocal(s)
	})
	here := len(hosts) > 0 && !slices.ContainsFunc(hosts, func(e endpoint) bool {
		s, err := netip.ParseAddr(e.host)
		return e.host != "localhost" && (err != nil || !s.Unmap().IsLoopback())
	})
	const fix = "launch --addr ADDRESS …   # an address of the network between the nodes"
	switch {
	case elsewhere:
		return finding.Failf("%s is loopback, and the store is on another machine", a).
			Breaking("the other nodes would connect to themselves").Do(fix)
	case here:
		return finding.Passf("%s, as is the store: all nodes are on this machine", a)
	}
	return finding.Warnf("%s is loopback, which is right only if all %d nodes are on this machine", a, in.Job.Nodes.V).
		Breaking("nodes on other machines would connect to themselves").Do(fix)
}

// portMaster predicts what the start does about the master port:
//
//	this node                  the port is from      held by    here  the start
//	has an index above 0       anywhere              anything   skip  does not listen on it here
//	is node 0 for certain      --master-port         a launch   skip  the node that is not rank 0 gives way, else 65
//	is node 0 for certain      --master-port         others     fail  65
//	may become node 0          --master-port         anything   warn  agrees on another port
//	is or may become node 0    line, env., default   anything   ok    agrees on another port
//
// Without indexes the store host becomes node 0. The sealed world carries the port to
// all nodes, so only a port that the user insists on can be missed.
func portMaster(_ context.Context, in preflight.Input) finding.Finding {
	want := in.Job.MasterPort
	port := want.V
	if !want.Set {
		port = job.DefaultMasterPort
	}
	line := in.Job.Line
	switch {
	case line.Kind == launcher.Mpirun:
		return finding.Skipf("mpirun needs no such port")
	case !in.Job.Several() && (line.Kind != launcher.Torchrun || line.Standalone.Set || line.Backend.Set ||
		line.Endpoint.Set):
		return finding.Skipf("one node, and the command finds its own port")
	case in.Job.Several() && in.Job.Index.Set && in.Job.Index.V > 0:
		return finding.Skipf("only node 0 needs it")
	case in.PortUse == nil:
		return finding.Skipf("this run opens no port")
	}
	u, err := in.PortUse(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)))
	if err == nil && !u.Taken {
		return finding.Passf("port %d is free", port)
	}
	taken, seen := "is taken by "+u.Holder(), "address already in use"
	if err != nil {
		taken, seen = "cannot be used", err.Error()
	}
	where := "bind port " + strconv.Itoa(port)
	certain := in.Job.Index.Set || len(in.Serve) > 0
	switch insists := want.Set && want.From.Tier == setting.Explicit; {
	case !in.Job.Several():
		return finding.Warnf("port %d %s, and torchrun needs it", port, taken).See(where, "%s", seen).
			Breaking("torchrun cannot open its store and stops").
			Do("torchrun --standalone …, or --master-port with a free port")
	case !insists:
		return finding.Passf("port %d %s, the nodes agree on another one", port, taken).See(where, "%s", seen)
	case certain && u.Launch:
		return finding.Skipf("%s has port %d, for this job or another: the start shows which", u.Holder(), port)
	case certain:
		return finding.Failf("port %d %s, on this node, which is node 0", port, taken).See(where, "%s", seen).
			Breaking("torch's own store cannot listen on the port that %s names", want.From.Name).
			Do("drop %s: the nodes then agree on a free port", want.From.Name)
	}
	return finding.Warnf("port %d %s, on this node", port, taken).See(where, "%s", seen).
		Breaking("if this node becomes node 0, the nodes agree on another port than %s names", want.From.Name).
		Do("drop %s if any port will do, or name one that is free on all nodes", want.From.Name)
}
