package envgen

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/internal/setting"
)

// netLint returns the rules for NCCL's network modules, its HCAs and their GIDs.
func netLint() []lintRule {
	return []lintRule{
		{id: "env.ib-hca-prefix", names: []string{"NCCL_IB_HCA"}, look: lintHCAPrefix,
			what: "a name without = is also a prefix of other HCAs: mlx5_1 matches mlx5_10"},
		{id: "env.ib-hca", names: []string{"NCCL_IB_HCA"}, look: lintHCA,
			what: "it selects no ACTIVE port of this node"},
		{id: "env.gid-index", names: []string{"NCCL_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"}, look: lintGIDIndex,
			what: "it is not the RoCE v2 entry of each rail, or not needed: NCCL chooses on its own from 2.21, and " +
				"ignores it for InfiniBand"},
		{id: "env.pkey", names: []string{"NCCL_IB_PKEY"}, look: lintPKey,
			what: "a rail's partition table has no such entry, or it is a limited membership"},
		{id: "env.addr-family", names: []string{"NCCL_IB_ADDR_FAMILY", "NVSHMEM_IB_ADDR_FAMILY"}, look: lintAddrFamily,
			what: "no rail has a RoCE address of the family"},
		{id: "env.net", names: []string{"NCCL_NET"}, look: lintNet,
			what: "the module is missing, or TCP is fixed on a node with a fabric"},
		{id: "env.net-plugin", names: []string{"NCCL_NET_PLUGIN"}, look: lintNetPlugin,
			what: "it is \"none\" on a fabric that needs a plugin, or NCCL does not find the plugin"},
		{id: "env.cross-nic", names: []string{"NCCL_CROSS_NIC"}, look: lintCrossNIC,
			what: "it is 1, but the rails are in different subnets"},
		{id: "env.range", names: []string{"NCCL_IB_SL", "NCCL_IB_TC", "NCCL_IB_FIFO_TC", "NCCL_SOCKET_NTHREADS",
			"NCCL_NSOCKS_PERTHREAD"}, look: lintRange,
			what: "it is out of range (15, 255, 255, 16; threads × sockets 64)"},
	}
}

// lintHCAPrefix finds names that match more, where lintRails does not report that.
func lintHCAPrefix(v *view, d setting.Decided) finding.Finding {
	if lintRails(v, d).Status == finding.Warn {
		return none()
	}
	return lintPrefix(v, d)
}

// lintPrefix finds names that match more: names are prefixes unless the list begins with =.
func lintPrefix(v *view, d setting.Decided) finding.Finding {
	f := parseFilter(d.Value, maxIBs)
	if f.exact || d.Name != "NCCL_IB_HCA" {
		return none()
	}
	for _, it := range f.items {
		var exact bool
		var also []string
		for _, h := range v.Node.HCAs {
			exact = exact || h.Name == it.name
			if h.Name != it.name && strings.HasPrefix(h.Name, it.name) && !f.listedWhole(h.Name) {
				also = append(also, h.Name)
			}
		}
		if exact && len(also) > 0 {
			marked := strings.TrimPrefix(d.Value, "^")
			fix := put(d, d.Value[:len(d.Value)-len(marked)]+"="+marked)
			return finding.Warnf("NCCL_IB_HCA=%s: %s is a prefix and also matches %s",
				d.Value, it.name, strings.Join(also, ", ")).
				Breaking("NCCL uses or excludes other HCAs than those named").Do("%s", fix)
		}
	}
	return none()
}

func (f filter) listedWhole(name string) bool {
	return slices.ContainsFunc(f.items, func(it filterItem) bool { return it.name == name })
}

// lintHCA finds a list without an ACTIVE port. It fails only if the RDMA module is fixed: otherwise
// NCCL uses TCP without a message.
func lintHCA(v *view, d setting.Decided) finding.Finding {
	if !v.gpus() || d.Value == "" || v.vendorPlugin() {
		return none()
	}
	if len(v.chosen(d.Value)) > 0 {
		return none()
	}
	pinned := strings.EqualFold(v.value("NCCL_NET"), "IB")
	out := finding.FailOr(pinned && v.ncclSure(), "NCCL_IB_HCA=%s selects no ACTIVE RDMA port of this node", d.Value).
		See("ACTIVE ports in /sys/class/infiniband", "%s", cmp.Or(portList(v.ncclPorts()), "none"))
	if pinned {
		return out.Breaking("NCCL_NET=IB finds no device and NCCL stops")
	}
	return out.Breaking("NCCL uses TCP instead of the fabric and reports it only at NCCL_DEBUG=INFO")
}

// lintGIDIndex fails if a rail does not have the entry: then no queue pair connects.
func lintGIDIndex(v *view, d setting.Decided) finding.Finding {
	index := leadingInt(d.Value, 0)
	roce := v.roceRails()
	switch {
	case index < 0 || !v.gpus() || len(v.rails()) == 0:
		return none()
	case len(roce) == 0:
		return finding.Warnf("%s=%s has no effect: the fabric is InfiniBand", d.Name, d.Value).
			Breaking("nothing here (NCCL before 2.22 would use it for InfiniBand too, where it is wrong)")
	}
	rails, want := v.gidTable()
	for i, p := range rails {
		if want[i] == index {
			continue
		}
		_, there := gidAt(p.Port, index)
		return finding.FailOr(!there && v.ncclSure(), "%s=%s is wrong for %s: %s",
			d.Name, d.Value, p, v.gidWords(p, want[i])).
			See(gidSeen(p, index).Where, "%s", gidSeen(p, index).What).
			Breaking("the port connects with another address, or not at all")
	}
	if len(rails) == 0 || v.nccl.known() && !(span{since: dynamicSince}).holds(v.nccl) {
		return none() // unknown, or it is needed
	}
	return finding.Warnf("%s=%s is not needed: NCCL chooses the entry on its own from 2.21", d.Name, d.Value).
		Breaking("it is right here now, but wrong with another VLAN, address or network namespace")
}

// lintPKey finds a wrong entry: the variable is an index into the table, not a key as in many guides.
func lintPKey(v *view, d setting.Decided) finding.Finding {
	index := leadingInt(d.Value, 0)
	if !v.gpus() {
		return none()
	}
	for _, p := range v.rails() {
		if p.LinkLayer != infiniBand || len(p.PKeys) == 0 {
			continue
		}
		i := slices.IndexFunc(p.PKeys, func(k fabric.PKey) bool { return k.Index == index })
		if i >= 0 && p.PKeys[i].Full() {
			continue
		}
		state := "is a limited membership"
		if i < 0 {
			state = "is not set"
		}
		return finding.Warnf("NCCL_IB_PKEY=%s is an index, but entry %d of %s's partition table %s",
			d.Value, index, p, state).See(p.pkeysSeen().Where, "%s", p.pkeysSeen().What).
			Breaking("its queue pairs do not connect")
	}
	return none()
}

func lintAddrFamily(v *view, d setting.Decided) finding.Finding {
	rails, _ := v.gidTable()
	for _, p := range rails {
		has := slices.ContainsFunc(p.GIDs,
			func(g fabric.GID) bool { return beyondLink(g) && g.Addr.Is4() != (d.Value == "AF_INET6") })
		if !has {
			return finding.Warnf("%s=%s, but %s has no such address", d.Name, d.Value, p).
				Breaking("NCCL uses entry 0: link-local, RoCE v1 on most cards")
		}
	}
	return none()
}

// lintNet finds a missing module: NCCL ends if it does not find the module (src/plugin/net.cc).
func lintNet(v *view, d setting.Decided) finding.Finding {
	if !v.gpus() || d.Value == "" {
		return none()
	}
	const dies = "NCCL stops with \"Failed to initialize any NET plugin\""
	noPlugin := v.Node.Software.Plugin.Version == software.None
	lower := strings.ToLower(d.Value)
	switch {
	case lower == "socket" && len(v.rails()) > 0:
		return finding.Warnf("NCCL_NET=%s, but this node has %s", d.Value,
			finding.Plural(len(v.rails()), "RDMA rail", "RDMA rails")).
			Breaking("NCCL uses TCP instead of the fabric")
	case lower == "ib" && v.unlisted():
		return finding.Warnf("NCCL_NET=%s, but libibverbs lists none of the RDMA devices of this node (%s)", d.Value,
			portList(v.ncclPorts())).Breaking(dies+", unless the job's own libraries list them").
			Do("ibv_devices   # in the job's environment; add ibverbs-providers to the image, or %s", drop(d))
	case lower == "ib" && v.closed():
		return finding.FailOr(v.ncclSure() && len(v.Node.Unknown) == 0,
			"NCCL_NET=%s, but this process can open no ACTIVE RDMA device here", d.Value).Breaking(dies).
			Do("ls -l /dev/infiniband   # give the container its devices, or %s", drop(d))
	case lower == "ib" && len(v.ncclPorts()) == 0:
		return finding.FailOr(v.ncclSure() && len(v.Node.Unknown) == 0,
			"NCCL_NET=%s, but no InfiniBand or RoCE port is ACTIVE here", d.Value).
			Breaking(dies)
	case lower == "gib" && len(v.ncclPorts()) == 0:
		return finding.FailOr(v.ncclSure() && len(v.Node.Unknown) == 0,
			"NCCL_NET=%s, as in Google's images, but no RoCE port is ACTIVE here", d.Value).
			Breaking(dies).Do("%s; or use a machine with RDMA (A3 Ultra, A4)", drop(d))
	case lower != "socket" && lower != "ib" && noPlugin:
		return finding.FailOr(v.ncclSure(), "NCCL_NET=%s is the name of a plugin, but NCCL finds no plugin", d.Value).
			See("libnccl-net.so", "not found").Breaking(dies).
			Do("add its directory to LD_LIBRARY_PATH, or %s", drop(d))
	}
	return none()
}

func lintNetPlugin(v *view, d setting.Decided) finding.Finding {
	if !v.gpus() || d.Value == "" {
		return none()
	}
	needs := ""
	switch {
	case v.needsPlugin():
		needs = "this machine's fabric is " + string(v.fab.Kind)
	case v.netIs(vendorModules()):
		needs = "NCCL_NET=" + v.value("NCCL_NET") + " is a plugin"
	}
	switch {
	case strings.EqualFold(d.Value, software.None) && needs != "":
		return finding.FailOr(strings.HasPrefix(needs, "NCCL_NET") && v.ncclSure(), "NCCL_NET_PLUGIN=%s, but %s",
			d.Value, needs).Breaking("NCCL uses TCP, or stops if NCCL_NET names the plugin")
	case !strings.EqualFold(d.Value, software.None) && v.Node.Software.Plugin.Version == software.None:
		return finding.Warnf("NCCL_NET_PLUGIN=%s: NCCL does not find this plugin", d.Value).
			Breaking("NCCL continues without it and reports it only at NCCL_DEBUG=INFO").
			Do("add its directory to LD_LIBRARY_PATH, or %s", drop(d))
	}
	return none()
}

func lintCrossNIC(v *view, d setting.Decided) finding.Finding {
	if leadingInt(d.Value, 0) != 1 {
		return none()
	}
	subnets := map[netip.Prefix]bool{}
	for _, p := range v.roceRails() {
		i, _ := v.Node.Interface(p.Netdev)
		at := slices.IndexFunc(i.Addrs, func(a netip.Prefix) bool { return a.Addr().IsGlobalUnicast() })
		if at >= 0 {
			subnets[i.Addrs[at].Masked()] = true
		}
	}
	if len(subnets) < 2 {
		return none()
	}
	return finding.Warnf("NCCL_CROSS_NIC=%s, but the %d RoCE rails are in %d subnets",
		d.Value, len(v.roceRails()), len(subnets)).
		Breaking("without a route between them, NCCL hangs when it connects one rail to another").
		Do("%s, or route between the subnets", drop(d))
}

// lintRange finds values out of range: the fields of the address vector (4-bit service level, 8-bit
// traffic class) and the limits of src/transport/net_socket.cc.
func lintRange(v *view, d setting.Decided) finding.Finding {
	most := map[string]int{"NCCL_IB_SL": 15, "NCCL_SOCKET_NTHREADS": 16, "NCCL_NSOCKS_PERTHREAD": 64}[d.Name]
	most = cmp.Or(most, 255)
	n := leadingInt(d.Value, 0)
	if d.Value == "" || !v.gpus() {
		return none()
	}
	if n > most {
		return finding.Warnf("%s=%s is out of range: the maximum is %d", d.Name, d.Value, most).
			Breaking("NCCL uses another value")
	}
	threads := leadingInt(v.value("NCCL_SOCKET_NTHREADS"), 0)
	if d.Name == "NCCL_NSOCKS_PERTHREAD" && n*threads > 64 {
		return finding.Warnf("%d threads with %s sockets each exceed NCCL's 64 sockets", threads, d.Value).
			Breaking("NCCL opens fewer sockets").Do("%s", put(d, strconv.Itoa(64/threads)))
	}
	return none()
}
