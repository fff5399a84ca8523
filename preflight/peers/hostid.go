package peers

import (
	"launch/internal/finding"
)

// compareHostIDs reports machines that NCCL would take for one. Two nodes on one machine may share the setting.
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
			Breaking("NCCL takes their ranks for those of one machine: \"Duplicate GPU detected\", or a hang in shared memory").
			Do("unset NCCL_HOSTID   # on all nodes, or give each machine its own: NCCL_HOSTID=$(hostname)")
		out = append(out, judged{f, ranksIn(machines[1:])})
	}
	return out
}
