package rdma

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
)

// rdmaGID finds ports without a GID, or with link-local ones only. RoCE v1 needs no address: of the rails, only
// ports with a v2 entry count.
func rdmaGID(_ context.Context, in preflight.Input) finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	var bare, unread []string
	roce := 0
	out := finding.Warnf("")
	for _, p := range rail.PortsOf(in.Node, f) {
		if p.GIDUnread {
			unread = append(unread, p.Name)
		}
		if p.Facts.LinkLayer != "Ethernet" || p.Card.Driver == "efa" || len(p.Facts.GIDs) == 0 || f.Kind == rail.EFA {
			continue
		}
		roce++
		if p.GID < 0 && slices.ContainsFunc(p.Facts.GIDs, func(g fabric.GID) bool { return g.Type == rail.RoCEv2 }) {
			bare = append(bare, p.Name)
			out = out.See("/sys/class/infiniband/"+p.File("gids"),
				"%d entries, all link-local or of another network namespace; interface %s",
				len(p.Facts.GIDs), cmp.Or(p.Netdev, p.Facts.Elsewhere, "not known"))
		}
	}
	if len(bare) == 0 && slices.ContainsFunc(f.NICs, func(n rail.NIC) bool { return n.NoAddress }) {
		return withoutAddress(in, f)
	}
	switch {
	case len(rail.PortsOf(in.Node, f)) == 0:
		return finding.Skipf("%s", noRails(in))
	case roce == 0 && len(unread) > 0:
		return finding.Skipf("the GID tables of the RoCE rails could not be read: %s", finding.Some(unread))
	case roce == 0:
		return finding.Skipf("no RoCE rail here")
	case len(bare) == 0:
		return finding.Passf("%s with an address", finding.Count(roce, "RoCE rail"))
	}
	out.What = fmt.Sprintf("%d of %s without an IP address for RoCE v2: %s",
		len(bare), finding.Count(roce, "RoCE rail"), finding.Some(bare))
	return out.Breaking("connections over these rails fail at the first transfer (\"error 12\"), or use RoCE v1, which "+
		"no router forwards").
		Do("give their interfaces an address (ip -br addr)\nor leave these rails out: NCCL_IB_HCA=^=%s",
			strings.Join(bare, ","))
}

// withoutAddress is for cards that would be rails if they had an address: the plan leaves them out, or all RDMA.
func withoutAddress(in preflight.Input, f rail.Fabric) finding.Finding {
	var bare []string
	out := finding.Warnf("")
	halves := true // of cables whose other half is a rail
	ports := rail.PortsOf(in.Node, f)
	for _, nic := range f.NICs {
		i := slices.IndexFunc(in.Node.HCAs, func(h fabric.HCA) bool { return h.Name == nic.Name })
		if !nic.NoAddress || i < 0 {
			continue
		}
		bare = append(bare, nic.Name)
		halves = halves && slices.ContainsFunc(ports, func(p rail.Port) bool {
			return rail.SharesCable(p.Card, in.Node.HCAs[i])
		})
		for _, p := range in.Node.HCAs[i].Ports[:1] {
			out = out.See("/sys/class/infiniband/"+nic.Name, "%d entries in its GID table, none that a router forwards; "+
				"interface %s", len(p.GIDs), cmp.Or(p.Netdev, "not in this network namespace"))
		}
	}
	if f.Kind == rail.TCP {
		out.What = fmt.Sprintf("no RoCE port has an address that a router forwards: %s", finding.Some(bare))
		return out.Breaking("NCCL would take them and its first transfer would fail; the job uses TCP instead").
			Do("%s\nif they are not for jobs: --skip rdma.gid", fixFor(in, verbs.NotHere, fabric.HCA{}))
	}
	out.What = fmt.Sprintf("%s without an IP address that a router forwards, next to %s with one: %s",
		finding.Count(len(bare), "card"), finding.Count(len(f.Rails), "rail"), finding.Some(bare))
	if f, bad := notListed(in, f, bare); bad {
		return f
	}
	if f, bad := away(in, f, bare); bad {
		return f
	}
	if halves {
		return out.Breaking("each half of a cable carries half of what the cable does: this node has half of its rate").
			Do("give their interfaces an address in a network of their own (ip -br addr)\n" +
				"if they are off on purpose: --skip rdma.gid")
	}
	return out.Breaking("the job has fewer rails; without NCCL_IB_HCA, NCCL would use them too, and the first transfer " +
		"would fail (\"error 12\")").
		Do("give their interfaces an address (ip -br addr)\nif they are not for jobs: --skip rdma.gid")
}

// away is for cards whose interfaces are all in another network namespace: there is nothing here to give an address.
func away(in preflight.Input, f rail.Fabric, bare []string) (finding.Finding, bool) {
	one := len(bare) == 1
	out := finding.Warnf("the %s of %s %s in another network namespace, unlike those of the %s of this node",
		finding.Noun(len(bare), "interface"), finding.Some(bare), map[bool]string{true: "is", false: "are"}[one],
		finding.Count(len(f.Rails), "rail"))
	for _, h := range in.Node.HCAs {
		if !slices.Contains(bare, h.Name) || len(h.Ports) == 0 {
			continue
		}
		p := h.Ports[0]
		own := func(i fabric.Interface) bool { return i.PCI == h.PCI }
		if p.Netdev != "" || h.PCI == "" || slices.ContainsFunc(in.Node.Interfaces, own) {
			return out, false
		}
		out = out.See("/sys/class/infiniband/"+h.Name, "%s; interface %s", h.PCI, cmp.Or(p.Elsewhere, "not here"))
	}
	return out.Breaking("no packet of this job leaves by it, so the job has fewer rails; without NCCL_IB_HCA, NCCL would "+
		"use it too, and the first transfer would fail (\"error 12\")").
		Do("%s\nif another job has it on purpose: --skip rdma.gid", in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "hostNetwork: true in the pod\nor attach the rail's interface to its network (Multus)",
			preflight.InContainer:  "docker run --network host …",
			preflight.InShell: "lsns -t net   # lists the network namespaces and their processes: is one a container that " +
				"should have ended?\nnsenter -t PID -n ip link set INTERFACE netns 1   # returns it; then give it its address",
		})), len(out.Seen) > 0
}

// notListed is for cards whose interfaces all have an address that a router forwards, and no RoCE v2 entry for it.
func notListed(in preflight.Input, f rail.Fabric, bare []string) (finding.Finding, bool) {
	out, what := finding.Warnf(""), ""
	var renew []string // lines
	const revived = "   # makes the entries again; else load the driver again"
	fix := ""
	for _, h := range in.Node.HCAs {
		if !slices.Contains(bare, h.Name) || len(h.Ports) == 0 {
			continue
		}
		p := h.Ports[0]
		i, _ := in.Node.Interface(p.Netdev)
		at := slices.IndexFunc(i.Addrs, func(a netip.Prefix) bool { return a.Addr().IsGlobalUnicast() })
		if at < 0 || len(p.GIDs) == 0 {
			return out, false
		}
		why := "its GID table lacks the address of its interface"
		if !slices.ContainsFunc(p.GIDs, func(g fabric.GID) bool { return g.Type == rail.RoCEv2 }) {
			why = "its GID table has entries for RoCE v1 only"
			fix = "set the card to RoCE v2, by its driver or the vendor's tool   # show_gids lists the entries"
		}
		renew = append(renew, fmt.Sprintf("ip link set %s down; ip link set %[1]s up", i.Name))
		what = why
		out = out.See("/sys/class/infiniband/"+h.Name, "%s; interface %s has %v", why, i.Name, i.Addrs[at])
	}
	if fix == "" {
		fix = strings.Join(renew, "; ") + revived
	}
	out.What = fmt.Sprintf("%s no rail, next to %s, although the interface has an address: %s: %s",
		are(len(bare), "card"), finding.Count(len(f.Rails), "rail"), finding.Some(bare), what)
	return out.Breaking("the job has fewer rails; without NCCL_IB_HCA, NCCL would use them too, and the first transfer "+
		"would fail (\"error 12\")").Do("%s\nif they are not for jobs: --skip rdma.gid", fix), what != ""
}
