// Package system holds the checks of this node's operating system: resource
// limits, control groups, file systems, reserved ports and sidecars.
package system

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"

	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
)

// Checks returns the checks of this package, in the order of the report.
func Checks() []preflight.Check {
	return slices.Concat(limitChecks(), systemChecks(), storageChecks())
}

func systemChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "limits.pids", Limit: preflight.Computed,
		Title: "there may be as many processes and threads as the job has",
		Doc:   "Where the limit is reached, a process or a thread cannot be started: \"Resource temporarily unavailable\" in the middle of the job's start, on this node only.",
		Run:   preflight.One(pids),
	}, {
		ID: "limits.memory", Limit: preflight.Computed,
		Title: "the control group grants the memory that the processes need at least",
		Doc:   "The kernel kills a process whose group is at its limit, without a word to it; the others wait for it.",
		Run:   preflight.One(memory),
	}, {
		ID: "port.ephemeral", Limit: preflight.Computed,
		Title: "no connection gets by itself a port that was named for the job",
		Doc:   "The kernel gives outgoing connections the ports of a range (net.ipv4.ip_local_port_range); a fixed port in it may be in use at the moment when the job needs it.",
		Run:   preflight.One(portEphemeral),
	}, {
		ID: "mesh.sidecar", Limit: preflight.Computed,
		Title: "no service mesh stands between this pod and its peers",
		Doc:   "A sidecar proxy takes every connection of its pod through itself: it breaks those that do not speak its protocol, slows down the others, and lets the pod live on when the job has ended.",
		Run:   preflight.One(sidecar),
	}}
}

// localRanks are the processes of this node, one at least.
func localRanks(in preflight.Input) uint64 {
	local, _ := preflight.Processes(in)
	return uint64(max(1, local))
}

func pids(_ context.Context, in preflight.Input) finding.Finding {
	s := in.Node.System
	ranks := localRanks(in)
	need := ranks * uint64(in.Threshold("limits.pids"))
	group := uint64(max(0, s.Cgroup.Pids-s.Cgroup.PidsUsed))
	switch {
	case s.Cgroup.Pids > 0 && group < need:
		return finding.Warnf("the control group has room for %d more processes and threads, %d processes of the job want about %d", group, ranks, need).
			See("pids.max", "%d, %d of them in use", s.Cgroup.Pids, s.Cgroup.PidsUsed).
			Breaking("processes end with \"Resource temporarily unavailable\" while they start").
			Do("%s", in.Remedy(map[preflight.Place]string{
				preflight.InKubernetes: "raise podPidsLimit in the kubelet's configuration of this node",
				preflight.InContainer:  "docker run --pids-limit=-1 …",
				preflight.InSystemd:    "TasksMax=infinity in the unit's [Service]",
				preflight.InShell:      "systemctl set-property user-$(id -u).slice TasksMax=infinity",
			}))
	case s.Procs > 0 && s.Procs < need && !s.FreeProcs:
		return finding.Warnf("this user may have %d processes and threads, %d processes of the job want about %d", s.Procs, ranks, need).
			See("getrlimit RLIMIT_NPROC", "%d", s.Procs).
			Breaking("processes end with \"Resource temporarily unavailable\" while they start").
			Do("%s", in.Remedy(map[preflight.Place]string{
				preflight.InContainer: "docker run --ulimit nproc=65536 …",
				preflight.InSlurm:     "PropagateResourceLimitsExcept=NPROC in slurm.conf, LimitNPROC=infinity in slurmd.service",
				preflight.InSystemd:   "LimitNPROC=infinity in the unit's [Service]",
				preflight.InShell:     "ulimit -u unlimited, or in /etc/security/limits.d/90-job.conf: * - nproc unlimited",
			}))
	case s.Cgroup.Pids > 0:
		return finding.Passf("room for %d more, about %d are needed", group, need)
	case s.Procs > 0 && s.Procs < math.MaxUint64 && !s.FreeProcs:
		return finding.Passf("%d, about %d are needed", s.Procs, need)
	case s.Procs == 0:
		return finding.Skipf("could not tell: the limits could not be read")
	}
	return finding.Passf("no limit")
}

// memory judges the limit alone: how much of it is left is not known, since
// the kernel gives back what only caches files.
func memory(_ context.Context, in preflight.Input) finding.Finding {
	limit := uint64(max(0, in.Node.System.Cgroup.Memory))
	ranks := localRanks(in)
	need := ranks * uint64(in.Threshold("limits.memory"))
	switch {
	case limit == 0 && in.Node.System.Procs == 0:
		return finding.Skipf("could not tell: the control group could not be read")
	case limit == 0:
		return finding.Passf("no limit")
	case limit >= need:
		return finding.Passf("%s for %d of the job's processes", preflight.Size(limit), ranks)
	}
	return finding.Warnf("the control group grants %s to all processes, %d of the job want %s at least", preflight.Size(limit), ranks, preflight.Size(need)).
		See("memory.max", "%d bytes", limit).
		Breaking("the kernel kills a process without a word, and the others wait for it").
		Do("%s", in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "raise resources.limits.memory of the container",
			preflight.InContainer:  fmt.Sprintf("docker run --memory=%dg …, or no --memory", (4*need)>>30+1),
			preflight.InSlurm:      "ask for more: sbatch --mem=0 takes all of the node's",
			preflight.InSystemd:    "MemoryMax=infinity in the unit's [Service]",
			preflight.InShell:      "raise memory.max of this group, or start the job outside it",
		}))
}

// portEphemeral looks at ports that a person fixed: launch finds others by
// itself, outside the range.
func portEphemeral(_ context.Context, in preflight.Input) finding.Finding {
	var found []finding.Finding
	// better is a port that launch takes by itself.
	judge := func(port int, name, option string, better int) {
		if ephemeral(in, port) {
			fix := fmt.Sprintf("keep it free: sysctl -w net.ipv4.ip_local_reserved_ports=%d", port)
			if !ephemeral(in, better) {
				fix = fmt.Sprintf("%s%d, or %s", option, better, fix)
			}
			found = append(found, finding.Warnf("port %d of %s is one that connections get by themselves (%d to %d)",
				port, name, in.Node.Ephemeral[0], in.Node.Ephemeral[1]).
				See("net.ipv4.ip_local_port_range", "%d %d", in.Node.Ephemeral[0], in.Node.Ephemeral[1]).
				Breaking("where a connection of any process has it by chance, the job cannot listen there").
				Do("%s", fix))
		}
	}
	store, master := in.Job.Store, in.Job.MasterPort
	typedStore := store.Set && store.V.Embedded && store.From.Tier == setting.Explicit && store.V.Port != job.DefaultStorePort && len(in.Serve) > 0
	typedMaster := master.Set && master.From.Tier == setting.Explicit && in.Job.Line.Kind != launcher.Mpirun && !(in.Job.Index.Set && in.Job.Index.V > 0)
	if !typedStore && !typedMaster {
		return finding.Skipf("no port was named that this node would listen on")
	}
	if typedStore {
		judge(store.V.Port, store.From.Name, "on all nodes: --store "+store.V.Host+":", job.DefaultStorePort)
	}
	if typedMaster {
		judge(master.V, master.From.Name, master.From.Name+" ", job.DefaultMasterPort)
	}
	if len(found) > 0 {
		return found[0]
	}
	return finding.Passf("outside of %d to %d, or reserved", in.Node.Ephemeral[0], in.Node.Ephemeral[1])
}

// ephemeral tells whether the kernel gives a port away by itself.
func ephemeral(in preflight.Input, port int) bool {
	r := in.Node.Ephemeral
	if r[1] == 0 || port < r[0] || port > r[1] {
		return false
	}
	return !slices.ContainsFunc(in.Node.System.Reserved, func(r [2]int) bool { return port >= r[0] && port <= r[1] })
}

// meshes are the ports by which a sidecar takes a pod's connections in both
// directions; that somebody listens on all of one mesh's is no chance.
var meshes = []struct {
	name  string
	ports []uint16
	fix   string
}{
	{"Istio", []uint16{15001, 15006}, "the label sidecar.istio.io/inject: \"false\" in the pod template's metadata"},
	{"Linkerd", []uint16{4140, 4143, 4191}, "the annotation linkerd.io/inject: disabled in the pod template's metadata"},
}

func sidecar(_ context.Context, in preflight.Input) finding.Finding {
	switch {
	case in.Node.Container.Kind != "kubernetes":
		return finding.Skipf("this is no pod")
	case !in.Job.Several():
		return finding.Skipf("one node has no peers")
	case in.PortUse == nil:
		return finding.Skipf("no port is looked at now")
	}
	for _, m := range meshes {
		all := true
		for _, port := range m.ports {
			u, err := in.PortUse(netip.AddrPortFrom(netip.IPv6Unspecified(), port))
			all = all && err == nil && u.Taken
		}
		if all {
			return finding.Warnf("a sidecar of %s takes this pod's connections", m.name).
				See("ports of this pod", "something listens on %s", preflight.Join(m.ports, func(p uint16) string { return strconv.Itoa(int(p)) })).
				Breaking("NCCL and Gloo do not speak what it expects: connections break or are slow, and the pod lives on when the job has ended").
				Do("%s", m.fix)
		}
	}
	return finding.Passf("none listens here")
}
