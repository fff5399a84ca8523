package envgen

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/setting"
)

// addressRules returns the rules that choose the interface by which the other nodes reach this node.
func addressRules() []rule {
	const first = "takes the first interface in its own order: ib*, then all but docker*, lo* and virbr*"
	torch := func(v *view) bool { return v.Torch && !v.Mpirun }
	return []rule{{
		name: "NCCL_SOCKET_IFNAME", scope: setting.Node, source: "NCCL src/misc/socket.cc",
		alone: first + "; without RDMA all of them carry data",
		when: "the first does not lead to the peers, or one at which not all nodes reach each other would carry data; on " +
			"Slingshot without a known plugin, if another interface would carry data",
		value: "=NAME of the interface with this node's address (where a default route has only a link-local one, a " +
			"rail's); on Slingshot, all of its links",
		used: (*view).gpus, want: byPeers((*view).wantNCCLIf), agrees: ncclAgrees,
	}, {
		name: "NCCL_SOCKET_FAMILY", scope: setting.Job, source: "NCCL src/misc/socket.cc, src/os/linux.cc",
		alone: "takes an interface's IPv4 address before its IPv6 one",
		when:  "the nodes reach each other by IPv6, and the interface has an IPv4 address too", value: "AF_INET6",
		used: func(v *view) bool { return v.gpus() && v.head() }, want: byPeers((*view).wantFamily),
	}, {
		name: "GLOO_SOCKET_IFNAME", scope: setting.Node, source: "gloo/transport/tcp/device.cc",
		alone: "listens on this node's first address for its host name, else on loopback",
		when:  "that is loopback, another interface or another subnet", value: "NAME of the interface, exactly",
		used: torch, want: wantHost(setting.Gloo),
		agrees: func(v *view, value string) bool {
			via, _, ok := v.via()
			return ok && slices.Contains(strings.Split(value, ","), via.Name)
		},
	}, {
		name: "TP_SOCKET_IFNAME", scope: setting.Node, source: "torch/csrc/distributed/rpc/tensorpipe_agent.cpp",
		alone: "chooses like Gloo", when: "as for Gloo", value: "as for Gloo",
		used: torch, want: wantHost(setting.TensorPipe),
	}, {
		name: "UCX_NET_DEVICES", scope: setting.Node, source: "UCX src/ucp/core/ucp_context.c",
		alone: "uses all ports and interfaces",
		when:  "some ports are not part of the training fabric; over TCP, if an interface reaches no other machine",
		value: "the ports of the training fabric and the interface to the peers",
		used:  (*view).ucx, want: (*view).wantUCX, agrees: sameSet,
	}, {
		name: "FI_TCP_IFACE", scope: setting.Node, source: "libfabric prov/tcp/src/xnet_init.c",
		alone: "chooses an interface on its own",
		when:  "the fabric is TCP, the program uses libfabric, and an interface reaches no other machine",
		value: "NAME of the interface",
		used: func(v *view) bool {
			return v.Node.Software.Libfabric.Version != "" && v.plugin() == "" || v.uses("libfabric", "FI_")
		},
		want: (*view).wantTCPIface,
	}}
}

// byPeers returns the want of a rule that depends on the interface to the peers and the address on it.
func byPeers(f func(v *view, via fabric.Interface, addr netip.Prefix) want) func(*view) want {
	return func(v *view) want {
		via, addr, ok := v.via()
		switch {
		case !ok && !v.World.Addr.IsValid():
			return right("this node's address for its peers is known only at the start")
		case !ok && v.onLoopback():
			return right(fmt.Sprintf("this node's address %s is on a loopback interface, which the libraries leave out",
				v.World.Addr))
		case !ok && v.stray():
			return right(fmt.Sprintf("this node's address %s is link-local: no other machine reaches it", v.World.Addr))
		case !ok:
			return right(fmt.Sprintf("no interface that is up has this node's address %s", v.World.Addr))
		}
		w := f(v, via, addr)
		w.because = fmt.Sprintf("the other nodes reach this node at %s on %s", addr.Addr(), via.Name)
		if fast, slow, ok := v.faster(); ok && !v.World.Fast && !v.World.Called {
			w.because += fmt.Sprintf("; if all nodes reach each other on %s (%g Gb/s, and %s has %g), a start takes that one",
				fast.Name, float64(fast.Speed)/1000, slow.Name, float64(slow.Speed)/1000)
		}
		if v.stray() {
			w.because = fmt.Sprintf("%s is link-local, and %s on %s is an address that a router forwards", v.World.Addr,
				addr.Addr(), via.Name)
		}
		return w
	}
}

// ncclAgrees reports whether NCCL with that value uses the interface to the peers.
func ncclAgrees(v *view, value string) bool {
	via, _, ok := v.via()
	return ok && ncclWrong(v, ncclWith(v, value), v.entry(via)) == ""
}

// entry returns the interface at which NCCL should wait for the others: on Slingshot one of its links, also where
// the nodes reach each other over a slower network, as of a service node.
func (v *view) entry(via fabric.Interface) fabric.Interface {
	if v.fab.Kind != rail.Slingshot || v.World.Home || v.onRail(via) {
		return via
	}
	for _, i := range v.Node.Interfaces {
		if v.onRail(i) && i.Up && i.Running && firstAddr(i).IsGlobalUnicast() {
			return i
		}
	}
	return via
}

// linked reports whether an interface is a link of Slingshot, all of which lead to the other nodes.
func (v *view) linked(i fabric.Interface) bool {
	return v.fab.Kind == rail.Slingshot && !v.World.Home && v.onRail(i)
}

// leads reports whether an interface is the one to the other nodes, or another link of the same Slingshot.
func (v *view) leads(i, via fabric.Interface) bool {
	return i.Name == via.Name || v.linked(via) && v.onRail(i)
}

// offRail returns the interfaces that are no link of Slingshot, where NCCL's data may go over sockets.
func (v *view) offRail(all []fabric.Interface, via fabric.Interface) []fabric.Interface {
	if !v.linked(via) || v.plugin() != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), v.onRail)
}

func (v *view) wantNCCLIf(via fabric.Interface, _ netip.Prefix) want {
	via = v.entry(via)
	w := want{value: "=" + via.Name}
	if v.World.Fast || v.fab.Kind == rail.Slingshot && v.onRail(via) { // each link has a part of the speed
		w.value = "=" + strings.ReplaceAll(names(v.equals(via)), ", ", ",")
	}
	order := span{since: "2.28.3"} // virbr* left out
	for _, old := range []bool{false, true} {
		if v.nccl.known() && old == order.holds(v.nccl) {
			continue
		}
		got, who := ncclAlone(v, old), setting.NCCL
		if old && !v.nccl.known() {
			who = "NCCL before 2.28.3"
		}
		if bad := ncclWrong(v, got, via); bad != "" || len(w.seen) == 0 {
			w.seen = ifSeen("interfaces that "+who+" finds, in its order", got)
			if bad != "" {
				w.wrong = who + " " + bad
				return w
			}
		}
	}
	return w
}

// onRail reports whether an interface belongs to a rail.
func (v *view) onRail(i fabric.Interface) bool {
	return slices.ContainsFunc(v.fab.Rails, func(r rail.Rail) bool { return r.Netdev == i.Name })
}

func (v *view) wantFamily(via fabric.Interface, addr netip.Prefix) want {
	switch {
	case addr.Addr().Is4():
		return right("the nodes reach each other by IPv4")
	case !firstAddr(via).Is4():
		return right(via.Name + " has no IPv4 address")
	}
	return want{value: "AF_INET6",
		wrong: fmt.Sprintf("NCCL would use %s, which is not this node's address for its peers", firstAddr(via)),
		seen:  saw(via.Name, firstAddr(via).String()+", "+addr.Addr().String())}
}

func wantHost(library string) func(*view) want {
	return byPeers(func(v *view, via fabric.Interface, addr netip.Prefix) want {
		w := want{value: via.Name, seen: hostSeen(v.Node)}
		if len(v.Node.HostAddrs) == 0 && v.Node.HostErr == "" {
			w.not = "launch resolves this node's host name only at the start"
		}
		if bad := hostWrong(v, via, addr); bad != "" {
			w.wrong = library + " " + bad
		}
		return w
	})
}

// wantUCX is for UCX, which uses every device that it can open. A list excludes all
// others, also for TCP, so it includes the interface to the peers.
func (v *view) wantUCX() want {
	rails := v.rails()
	switch {
	case len(rails) == 0:
		return v.wantAmong(setting.UCX, v.ucxLeavesOut)
	case len(v.strangers()) == 0:
		return right("every ACTIVE port is part of the training fabric" + v.fab.Guess())
	}
	w := want{value: portList(rails), wrong: "UCX would also use " + portList(v.strangers()),
		because: v.railWords(), seen: v.strangerSeen()}
	if via, _, ok := v.via(); ok {
		w.value += "," + via.Name
	}
	return w
}

// ucxLeavesOut reports whether UCX ignores an interface on its own: a bridge from 1.16
// on (UCX_TCP_BRIDGE_ENABLE=n, seen with 1.22 and not with 1.13; an unknown version
// may be older), and an interface with only a link-local address.
func (v *view) ucxLeavesOut(i fabric.Interface) bool {
	now := parseVersion(v.Node.Software.UCX.Version)
	return i.Kind == "bridge" && now.compare(version{1, 16}) >= 0 || firstAddr(i).IsLinkLocalUnicast()
}

func (v *view) wantTCPIface() want {
	if v.fab.Kind != rail.TCP {
		return right("the fabric is " + string(v.fab.Kind))
	}
	return v.wantAmong(setting.Libfabric, func(fabric.Interface) bool { return false })
}

// wantAmong returns the interface to the peers if others, except those that the
// library ignores, reach no other machine.
func (v *view) wantAmong(library string, out func(fabric.Interface) bool) want {
	return byPeers(func(v *view, via fabric.Interface, _ netip.Prefix) want {
		up := slices.DeleteFunc(slices.Clone(v.Node.Interfaces),
			func(i fabric.Interface) bool { return !i.Up || firstAddr(i) == netip.Addr{} || out(i) })
		also := decoys(v, up)
		if len(also) == 0 {
			return right("every interface here reaches other machines")
		}
		return want{value: via.Name, wrong: library + " would also try " + names(also),
			seen: ifSeen("interfaces that reach no other machine", also)}
	})(v)
}

// sameSet reports whether two comma lists are equal in any order. UCX also accepts
// ranges and ^, which count as the user's choice.
func sameSet(v *view, value string) bool {
	want, got := strings.Split(v.wantUCX().value, ","), strings.Split(value, ",")
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(want, got)
}
