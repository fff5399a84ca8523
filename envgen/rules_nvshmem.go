package envgen

import (
	"slices"
	"strings"

	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

// nvshmemRules returns the rules for NVSHMEM, which makes NCCL's choices under its own names.
func nvshmemRules() []rule {
	const source = "NVSHMEM src/modules/transport/common/env_defs.h"
	const boot = "NVSHMEM src/modules/bootstrap/common/env_defs.h"
	used := func(v *view) bool { return v.nvshmem() && v.gpus() && v.head() }
	out := []rule{{
		name: "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", scope: setting.Node, source: boot,
		alone: "takes the first interface, like NCCL before 2.28.3", when: "as for NCCL_SOCKET_IFNAME",
		value: "=NAME of the interface", used: used, want: (*view).wantNVSHMEMIf, agrees: ncclAgrees,
	}, {
		name: "NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", scope: setting.Job, source: boot,
		alone: "uses IPv4", when: "the nodes reach each other by IPv6", value: "AF_INET6",
		used: used, want: (*view).wantNVSHMEMFamily,
	}, {
		name: "NVSHMEM_REMOTE_TRANSPORT", scope: setting.Job, source: "NVSHMEM src/include/host/env/env_defs.h",
		alone: "uses InfiniBand verbs (ibrc)", when: "the fabric is EFA or Slingshot", value: "libfabric",
		used: used, want: (*view).wantTransport,
	}, {
		name: "NVSHMEM_LIBFABRIC_PROVIDER", scope: setting.Job, source: source,
		alone: "uses the provider cxi", when: "the fabric is EFA", value: "efa",
		used: used, want: (*view).wantNVSHMEMProvider,
	}, {
		name: "NVSHMEM_HCA_LIST", scope: setting.Node, source: source,
		alone: "uses every ACTIVE port", when: "as for NCCL_IB_HCA", value: "HCA:PORT,… of the training fabric",
		used: used, want: (*view).wantHCAList,
	}, {
		name: "NVSHMEM_ENABLE_NIC_PE_MAPPING", scope: setting.Job, source: "NVSHMEM src/include/host/env/env_defs.h",
		alone: "ignores NVSHMEM_HCA_LIST", when: "that is set", value: "1", used: used, want: (*view).wantMapping,
	}, {
		name: "NVSHMEM_HCA_PREFIX", scope: setting.Node, source: source,
		alone: "takes only HCAs with mlx5 in their names, for IBGDA",
		when:  "NVSHMEM_IB_ENABLE_IBGDA is set and the HCAs are renamed", value: "the prefix of their names",
		used: used, want: (*view).wantHCAPrefix,
	}}
	return append(out, gidVars("NVSHMEM_IB_", setting.NVSHMEM, source, used,
		func(v *view) gidPlan { return v.gid("NVSHMEM_IB_", true) })...)
}

func (v *view) wantNVSHMEMIf() want {
	via, _, ok := v.via()
	if !ok {
		return v.noWay()
	}
	got := ncclAlone(v, true)
	w := want{value: "=" + via.Name, because: v.because(),
		seen: []finding.Seen{ifSeen("interfaces that NVSHMEM finds, in its order", got)}}
	if len(got) == 0 || got[0].Name != via.Name { // only its bootstrap uses TCP
		w.wrong = setting.NVSHMEM + " " + ncclWrong(v, got, via)
	}
	return w
}

func (v *view) wantNVSHMEMFamily() want {
	_, addr, ok := v.via()
	switch {
	case !ok:
		return v.noWay()
	case addr.Addr().Is4():
		return right("the nodes reach each other by IPv4")
	}
	return want{value: "AF_INET6", wrong: "NVSHMEM would look for an IPv4 address",
		because: v.because(), seen: saw("this node's address", addr.String())}
}

// fabricSeen returns the kind of the fabric as evidence.
func (v *view) fabricSeen() []finding.Seen {
	return saw("the fabric of this node", string(v.fab.Kind)+": "+v.fab.Why)
}

func (v *view) wantTransport() want {
	if !v.needsPlugin() {
		return right("the fabric is " + string(v.fab.Kind))
	}
	return want{value: "libfabric", wrong: "NVSHMEM would look for InfiniBand verbs",
		because: "the fabric is " + string(v.fab.Kind), seen: v.fabricSeen()}
}

func (v *view) wantNVSHMEMProvider() want {
	if v.fab.Kind != rail.EFA {
		return right("the fabric is " + string(v.fab.Kind))
	}
	return want{value: "efa", wrong: "NVSHMEM would ask libfabric for cxi",
		because: "the fabric is EFA", seen: v.fabricSeen()}
}

func (v *view) wantHCAList() want {
	if v.has("NVSHMEM_HCA_PE_MAPPING") {
		return right("NVSHMEM_HCA_PE_MAPPING is set, which is more specific")
	}
	return wantHCA(setting.NVSHMEM, "")(v)
}

func (v *view) wantMapping() want {
	w := v.wantHCAList()
	if v.has("NVSHMEM_HCA_LIST") || w.wrong == "" {
		return right("launch sets no NVSHMEM_HCA_LIST")
	}
	w.value, w.wrong = "1", "NVSHMEM would ignore NVSHMEM_HCA_LIST"
	return w
}

func (v *view) wantHCAPrefix() want {
	rails := v.rails()
	if leadingInt(v.value("NVSHMEM_IB_ENABLE_IBGDA"), 0) == 0 || len(rails) == 0 {
		return right("NVSHMEM_IB_ENABLE_IBGDA is not set, or there is no InfiniBand or RoCE")
	}
	if slices.ContainsFunc(rails, func(p hcaPort) bool { return strings.Contains(p.hca.Name, "mlx5") }) {
		return right("the HCAs have mlx5 in their names")
	}
	common := rails[0].hca.Name
	for _, p := range rails {
		for !strings.HasPrefix(p.hca.Name, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.TrimRight(common, "0123456789")
	if common == "" {
		return right("the names of the HCAs have no common prefix")
	}
	return want{value: common, wrong: "NVSHMEM would skip every HCA without mlx5 in its name",
		because: "the HCAs are " + portList(rails),
		seen:    []finding.Seen{finding.Seen{Where: "/sys/class/infiniband", What: portList(rails)}}}
}
