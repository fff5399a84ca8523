package peers

import (
	"fmt"
	"slices"

	"launch/internal/finding"
)

// compareHostIDs reports machines that NCCL would take for one: by NCCL_HOSTID, or else by host name and boot id
// (getHostHash in its src/misc/utils.cc). Two nodes on one machine may share both.
func compareHostIDs(posts []Post) (out []judged) {
	if !onGPU(loadsOf(posts)) {
		return nil
	}
	for _, g := range groups(having(posts, func(p Post) string { return p.Traits.HostID }),
		func(p Post) string { return p.Traits.HostID }) {
		machines := groups(having(g.nodes, func(p Post) string { return p.Traits.Machine }),
			func(p Post) string { return p.Traits.Machine })
		if len(machines) < 2 {
			continue
		}
		f := finding.Failf("NCCL_HOSTID=%s on %d machines: %s", g.value, len(machines), finding.Some(namesOf(g.nodes))).
			Named("same.hostid").
			See("NCCL_HOSTID", "%s, with %d different boot ids", g.value, len(machines)).
			Breaking(takenForOne).
			Do("unset NCCL_HOSTID   # on all nodes, or give each machine its own: NCCL_HOSTID=$(hostname)")
		out = append(out, judged{f, ranksIn(machines[1:])})
	}
	unset := slices.DeleteFunc(slices.Clone(posts), func(p Post) bool {
		return p.Traits.HostID != "" || p.Names.Host == ""
	})
	for _, g := range repeated(unset, func(p Post) string { return p.Names.Host + " " + p.Traits.Machine }) {
		if v, ok := hashedAlike(g.nodes); ok {
			out = append(out, v)
		}
	}
	return out
}

const takenForOne = "NCCL takes their ranks for those of one machine: \"Duplicate GPU detected\", or a hang in " +
	"shared memory"

// hashedAlike judges nodes of one host name and boot id of which one has called another at an address that is not its
// own. Containers of one machine may have networks of their own; copies of a virtual machine that was running have all
// else in common, and a sandbox may hide the boot id, so that the host name alone counts.
func hashedAlike(alike []Post) (judged, bool) {
	of := byRank(alike)
	called := func(p Post) bool {
		return slices.ContainsFunc(p.Names.Alike, func(rank int) bool { _, ok := of[rank]; return ok })
	}
	if !slices.ContainsFunc(alike, called) {
		return judged{}, false
	}
	name, who, boot := alike[0].Names.Host, finding.Some(namesOf(alike)), alike[0].Traits.Machine
	what, seen := "and one boot id", boot+"…"
	if boot == "" {
		what, seen = "and no boot id", "cannot be read"
	}
	f := finding.Failf("%d nodes have one host name, %s, %s: %s", len(alike), name, what, who).Named("same.hostid").
		See("/proc/sys/kernel/random/boot_id", "%s", seen).
		Breaking(takenForOne).
		Do("give each node its own host name, or set on each: NCCL_HOSTID=$(hostname)-N   # N: its node rank")
	if nets := groups(having(alike, func(p Post) string { return p.Traits.Net }),
		func(p Post) string { return p.Traits.Net }); boot != "" && len(nets) > 1 {
		f.Status = finding.Warn
		f.What = fmt.Sprintf("%d containers of one machine have one host name, %s, and networks of their own: %s", len(alike),
			name, who)
		return judged{Finding: f.Breaking("NCCL takes their ranks for those of one machine, and connects their GPUs by " +
			"sockets and memory that containers may not share").
			Do("give each container its own host name (docker run --hostname), or its own NCCL_HOSTID")}, true
	}
	return judged{f, finding.Map(alike[1:], func(p Post) int { return p.Rank })}, true
}
