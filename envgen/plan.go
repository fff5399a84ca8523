package envgen

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
)

// rule is one variable that the plan may set.
type rule struct {
	name   string
	scope  Scope
	source string
	when   func(Input) bool // the library that reads it may be in use
	want   func(in Input, via fabric.Interface, addr netip.Prefix) want
	agrees func(in Input, via fabric.Interface, value string) bool // the value has the effect that we want
}

// want is the right value, and what the library does without it.
type want struct {
	value string
	alone string // what is wrong with the library's own choice: completes "NCCL …"; "" where it is right
	seen  []finding.Seen
}

// rules is the table of what a plan may hold, in its order. All of them say
// one thing: use the interface by which the other nodes reach this one.
func rules() []rule {
	return []rule{{
		name: "NCCL_SOCKET_IFNAME", scope: Node, source: "NCCL src/misc/socket.cc",
		when: func(in Input) bool { return in.gpus() && !in.Mpirun },
		want: wantNCCL,
		agrees: func(in Input, via fabric.Interface, value string) bool {
			return ncclWrong(in, ncclWith(in, value), via) == ""
		},
	}, {
		name: "GLOO_SOCKET_IFNAME", scope: Node, source: "gloo/transport/tcp/device.cc",
		when: func(in Input) bool { return in.Torch && !in.Mpirun },
		want: wantHost("Gloo"),
		agrees: func(_ Input, via fabric.Interface, value string) bool {
			return slices.Contains(strings.Split(value, ","), via.Name)
		},
	}, {
		name: "TP_SOCKET_IFNAME", scope: Node, source: "torch/csrc/distributed/rpc/tensorpipe_agent.cpp",
		when:   func(in Input) bool { return in.Torch && !in.Mpirun },
		want:   wantHost("TensorPipe"),
		agrees: func(_ Input, via fabric.Interface, value string) bool { return value == via.Name },
	}, {
		name: "OMPI_MCA_btl_tcp_if_include", scope: Job, source: "Open MPI opal/mca/btl/tcp/btl_tcp_component.c",
		when: func(in Input) bool { return in.Mpirun && !in.has("OMPI_MCA_btl_tcp_if_exclude") },
		want: wantSubnet, agrees: includes,
	}, {
		name: "OMPI_MCA_oob_tcp_if_include", scope: Job, source: "Open MPI 4.1 orte/mca/oob/tcp/oob_tcp_component.c",
		when: func(in Input) bool { return in.Mpirun && !in.has("OMPI_MCA_oob_tcp_if_exclude") },
		want: wantSubnet, agrees: includes,
	}}
}

func (in Input) has(name string) bool { _, ok := in.decided(name); return ok }

// Make computes the plan: the variables without which a library would choose
// another interface than the one by which the other nodes reach this one. It
// is empty for one node, for nodes that share one machine, and wherever the
// libraries choose right by themselves. What is already decided is never
// replaced; where it has another effect it is listed as Kept, ours beside it.
func Make(in Input) Plan {
	via, addr, ok := in.via()
	if !ok {
		return nil
	}
	var plan Plan
	for _, r := range rules() {
		if !r.when(in) {
			continue
		}
		w := r.want(in, via, addr)
		// A value that would not select what it names (an interface that is
		// down, a family that it lacks) is worse than none.
		if w.value == "" || !r.agrees(in, via, w.value) {
			continue
		}
		v := Var{Name: r.name, Value: w.value, Scope: r.scope, Source: r.source, Seen: w.seen}
		d, decided := in.decided(r.name)
		switch {
		case decided && r.agrees(in, via, d.Value), !decided && w.alone == "":
			continue
		case decided:
			v.Kept, v.User, v.From = true, d.Value, d.From
			v.Seen = []finding.Seen{{Where: d.From, What: d.Name + "=" + d.Value}}
			v.Reason = fmt.Sprintf("your value is kept, but the other nodes reach this node at %s on %s", addr.Addr(), via.Name)
		default:
			v.Reason = fmt.Sprintf("%s; the other nodes reach this node at %s on %s", w.alone, addr.Addr(), via.Name)
		}
		plan = append(plan, v)
	}
	return plan
}

func wantNCCL(in Input, via fabric.Interface, _ netip.Prefix) want {
	now, before := ncclAlone(in, false), ncclAlone(in, true)
	w := want{value: "=" + via.Name, seen: []finding.Seen{ifSeen("interfaces that NCCL finds, in its order", now)}}
	if bad := ncclWrong(in, now, via); bad != "" {
		w.alone = "NCCL " + bad
	} else if bad := ncclWrong(in, before, via); bad != "" {
		w.alone = "NCCL before 2.28.3 " + bad
		w.seen[0] = ifSeen("interfaces that NCCL before 2.28.3 finds, in its order", before)
	}
	return w
}

func wantHost(library string) func(Input, fabric.Interface, netip.Prefix) want {
	return func(in Input, via fabric.Interface, addr netip.Prefix) want {
		w := want{value: via.Name, seen: []finding.Seen{hostSeen(in.Node)}}
		if bad := hostWrong(in, via, addr); bad != "" {
			w.alone = library + " " + bad
		}
		return w
	}
}

// wantSubnet is for Open MPI, which uses every interface that is up but
// 127.0.0.1/8 (the default of btl_tcp_if_exclude), with or without carrier.
// The value travels to all nodes, so it is a subnet and no name, and it is
// given only where every host is known to be in that subnet.
func wantSubnet(in Input, via fabric.Interface, addr netip.Prefix) want {
	outside := func(p netip.Addr) bool { return !addr.Contains(p.Unmap()) }
	if !addr.Addr().Is4() || addr.IsSingleIP() ||
		len(in.World.Peers) == 0 || slices.ContainsFunc(in.World.Peers, outside) {
		return want{}
	}
	up := slices.DeleteFunc(slices.Clone(in.Node.Interfaces), func(i fabric.Interface) bool {
		return !i.Up || !slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr().Is4() })
	})
	also := decoys(in, up)
	w := want{value: addr.Masked().String(), seen: []finding.Seen{ifSeen("interfaces that lead to no other machine", also)}}
	if len(also) > 0 {
		w.alone = "Open MPI uses every interface that is up and would also try " + names(also)
	}
	return w
}

// includes tells whether a list of Open MPI (names and CIDRs) takes the
// interface.
func includes(in Input, via fabric.Interface, value string) bool {
	for word := range strings.SplitSeq(value, ",") {
		p, err := netip.ParsePrefix(word)
		if word == via.Name || err == nil && p.Contains(in.World.Addr.Unmap()) {
			return true
		}
	}
	return false
}
