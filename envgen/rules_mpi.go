package envgen

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/setting"
)

// mpiRules returns the rules for the MPIs. mpirun carries a subnet to all nodes, not a name.
func mpiRules() []rule {
	unless := func(name string, also func(*view) bool) func(*view) bool {
		return func(v *view) bool { return v.openMPI() && !v.has(name) && also(v) }
	}
	four := func(v *view) bool { return v.MPI != "openmpi5" }
	five := func(v *view) bool { return v.MPI == "openmpi5" }
	const every = "uses every interface that is up except 127.0.0.1/8"
	const astray, subnet = "one of them reaches no other machine, and all hosts are in one subnet", "that subnet"
	hydra := func(mpi string) func(*view) bool { return func(v *view) bool { return v.Mpirun && v.MPI == mpi } }
	return []rule{{
		name:  "OMPI_MCA_btl_tcp_if_include",
		scope: setting.Job, source: "Open MPI opal/mca/btl/tcp/btl_tcp_component.c",
		alone: every, when: astray, value: subnet,
		used: unless("OMPI_MCA_btl_tcp_if_exclude", func(*view) bool { return true }), want: (*view).wantSubnet,
		agrees: (*view).includes,
	}, {
		name:  "OMPI_MCA_oob_tcp_if_include",
		scope: setting.Job, source: "Open MPI 4.1 orte/mca/oob/tcp/oob_tcp_component.c",
		alone: every + " (up to 4)", when: astray, value: subnet,
		used: unless("OMPI_MCA_oob_tcp_if_exclude", four), head: true, want: (*view).wantSubnet,
		agrees: (*view).includes,
	}, {
		name: "PRTE_MCA_prte_if_include", scope: setting.Job, source: "open-mpi/ompi#12508, docs/mca.rst",
		alone: every + " (from 5)", when: astray, value: subnet,
		used: unless("PRTE_MCA_prte_if_exclude", five), head: true, want: (*view).wantSubnet, agrees: (*view).includes,
	}, {
		name:  "OMPI_MCA_opal_common_ucx_devices",
		scope: setting.Job, source: "Open MPI opal/mca/common/ucx/common_ucx.c",
		alone: "uses UCX on its own only for an HCA with a driver mlx*",
		when:  "the HCAs of the training fabric have another driver", value: "any",
		used: func(v *view) bool { return v.openMPI() && v.head() && !v.has("OMPI_MCA_pml") },
		want: (*view).wantUCXDevices,
	}, {
		name: "HYDRA_IFACE", scope: setting.Node, source: "MPICH src/pm/hydra/mpiexec/utils.c",
		alone: "gives the other nodes the host name",
		when:  "it resolves to loopback, or to an interface that does not lead to them", value: "NAME of the interface",
		used: hydra("mpich"), head: true, want: wantHost(setting.MPICH),
	}, {
		name: "I_MPI_HYDRA_IFACE", scope: setting.Node, source: "Intel MPI Library Developer Reference",
		alone: "does the same as MPICH", when: "as for MPICH", value: "NAME of the interface",
		used: hydra("intel"), head: true, want: wantHost(setting.IntelMPI),
	}}
}

// wantSubnet is for Open MPI, which uses every interface that is up except 127.0.0.1/8 (the default
// of btl_tcp_if_exclude), with or without carrier. Every host has to be in the subnet.
func (v *view) wantSubnet() want {
	_, addr, ok := v.via()
	if !ok {
		return v.noWay()
	}
	outside := func(p netip.Addr) bool { return !addr.Contains(p.Unmap()) }
	switch {
	case !addr.Addr().Is4() || addr.IsSingleIP():
		return right(fmt.Sprintf("%s is not an IPv4 subnet", addr))
	case len(v.World.Peers) < v.World.Nodes || slices.ContainsFunc(v.World.Peers, outside):
		return right("not every host is known to be in " + addr.Masked().String())
	}
	up := slices.DeleteFunc(slices.Clone(v.Node.Interfaces), func(i fabric.Interface) bool {
		return !i.Up || !slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr().Is4() })
	})
	also := decoys(v, up)
	w := want{value: addr.Masked().String(), because: v.because(),
		seen: []finding.Seen{ifSeen("interfaces that reach no other machine", also)}}
	if len(also) > 0 {
		w.wrong = "Open MPI uses every interface that is up and would also try " + names(also)
	} else {
		w.not = "every interface here reaches other machines"
	}
	return w
}

// includes reports whether a list of Open MPI (names and CIDRs) selects the interface to the peers.
func (v *view) includes(value string) bool {
	via, _, ok := v.via()
	for word := range strings.SplitSeq(value, ",") {
		p, err := netip.ParsePrefix(word)
		if ok && (word == via.Name || err == nil && p.Contains(v.World.Addr.Unmap())) {
			return true
		}
	}
	return false
}

func (v *view) wantUCXDevices() want {
	rails := v.rails()
	i := slices.IndexFunc(rails, func(p hcaPort) bool { return strings.HasPrefix(p.hca.Driver, "mlx") })
	switch {
	case len(rails) == 0:
		return right("there is no InfiniBand or RoCE here")
	case i >= 0:
		return right("the driver of " + rails[i].hca.Name + " is " + rails[i].hca.Driver)
	case rails[0].hca.Driver == "":
		return right("the driver of " + rails[0].hca.Name + " is unknown")
	}
	p := rails[0]
	return want{value: "any", wrong: "Open MPI would not use UCX for " + p.hca.Name + ", but TCP",
		because: v.railWords(),
		seen:    []finding.Seen{p.driverSeen()}}
}
