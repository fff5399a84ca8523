// Package system holds the checks of resource limits, control groups, file systems, reserved ports and sidecars.
package system

import (
	"context"
	"fmt"
	"math"
	"net/netip"
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
func Checks() []preflight.Check { return slices.Concat(limitChecks(), systemChecks(), storageChecks()) }

func systemChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "proc.mounted", Title: "/proc shows the processes of this node",
		Doc: "launch watches the job by what the kernel shows there. Without it a job runs as it does without launch: " +
			"unwatched.",
		Run: preflight.One(procMounted),
	}, {
		ID: "limits.pids", Title: "the limits allow the processes and threads of the job",
		Doc: "At the limit no process or thread can start: \"Resource temporarily unavailable\" in the middle of the " +
			"job's start, on this node only.",
		Run: preflight.One(pids),
	}, {
		ID: "limits.memory", Title: "the control group grants the memory that the processes need at least",
		Doc: "The kernel kills a process whose group is at its limit, without a message, and the others wait for it.",
		Run: preflight.One(memory),
	}, {
		ID: "limits.cpu", Title: "the control group grants processor time to the job",
		Doc: "A group with a quota stands still for the rest of each tenth of a second. The node answers late, and looks " +
			"like one that is not reached.",
		Run: preflight.One(processor),
	}, {
		ID: "port.ephemeral", Title: "there are ports for outgoing connections, and none takes one that the user chose",
		Doc: "The kernel gives outgoing connections the ports of a range (net.ipv4.ip_local_port_range). A fixed port in " +
			"that range may be in use when the job needs it, and a short range has too few for the ranks.",
		Run: preflight.One(portEphemeral),
	}, {
		ID: "mesh.sidecar", Title: "no service mesh is between this pod and its peers",
		Doc: "A sidecar proxy redirects every connection of its pod through itself. It breaks those that do not speak its " +
			"protocol, slows down the others, and keeps the pod running after the job.",
		Run: preflight.One(sidecar),
	}}
}

// procMounted reports a node whose /proc is empty or hidden: the limits of a process are in it on every Linux.
func procMounted(_ context.Context, in preflight.Input) finding.Finding {
	missing := func(u fabric.Unknown) bool { return u.What == "self/limits" }
	i := slices.IndexFunc(in.Node.Unknown, missing)
	switch {
	case i < 0 && in.Node.Hostname == "" && in.Node.BootID == "":
		return finding.Skipf("could not tell: the facts of this node were not read")
	case i < 0:
		return finding.Passf("it does")
	}
	return finding.Warnf("/proc is not mounted on this node, so launch cannot watch the job here").
		See("/proc/self/limits", "%s", in.Node.Unknown[i].Why).
		Breaking("a rank of this node that hangs or is killed is not named").
		Do("mount -t proc proc /proc")
}

// localRanks returns the number of processes of this node, at least one.
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
		return finding.Warnf("the control group has room for %d more processes and threads, %d processes of the job need "+
			"about %d", group, ranks, need).See("pids.max", "%d, %d of them in use", s.Cgroup.Pids, s.Cgroup.PidsUsed).
			Breaking("processes end with \"Resource temporarily unavailable\" while they start").
			Do("%s", in.Remedy(map[preflight.Place]string{
				preflight.InKubernetes: "raise podPidsLimit in the kubelet's configuration of this node",
				preflight.InContainer:  "docker run --pids-limit=-1 …",
				preflight.InSystemd:    "TasksMax=infinity in the unit's [Service]",
				preflight.InShell:      "systemctl set-property user-$(id -u).slice TasksMax=infinity",
			}))
	case s.Procs > 0 && s.Procs < need && !s.FreeProcs:
		return finding.Warnf("this user may have %d processes and threads, %d processes of the job need about %d",
			s.Procs, ranks, need).See("getrlimit RLIMIT_NPROC", "%d", s.Procs).
			Breaking("processes end with \"Resource temporarily unavailable\" while they start").
			Do("%s", in.Remedy(map[preflight.Place]string{
				preflight.InContainer: "docker run --ulimit nproc=65536 …",
				preflight.InSlurm:     "PropagateResourceLimitsExcept=NPROC in slurm.conf, LimitNPROC=infinity in slurmd.service",
				preflight.InSystemd:   "LimitNPROC=infinity in the unit's [Service]",
				preflight.InShell:     "ulimit -u unlimited\nor in /etc/security/limits.d/90-job.conf: * - nproc unlimited",
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

// memory judges the limit, and of what is used only what the kernel cannot give back: that which caches files it can.
func memory(_ context.Context, in preflight.Input) finding.Finding {
	limit := uint64(max(0, in.Node.System.Cgroup.Memory))
	ranks := localRanks(in)
	need, held := ranks*uint64(in.Threshold("limits.memory")), uint64(in.Node.System.Cgroup.Held)
	var agent uint64 // torchrun itself imports torch
	if in.Job.Line.Kind == launcher.Torchrun {
		agent = uint64(in.Threshold("limits.memory"))
	}
	switch {
	case limit == 0 && in.Node.System.Procs == 0:
		return finding.Skipf("could not tell: the control group could not be read")
	case limit == 0:
		return finding.Passf("no limit")
	case in.Node.System.Cgroup.Stalls:
		return finding.Warnf("the control group grants %s, and its OOM killer is off", finding.Size(limit)).
			See("memory.oom_control", "oom_kill_disable 1").
			Breaking("at the limit nothing is killed: the processes of this node wait in the kernel, also launch, and the "+
				"other nodes wait for them").
			Do("%s", in.Remedy(map[preflight.Place]string{
				preflight.InContainer: "docker run …   # without --oom-kill-disable",
				preflight.InShell: "echo 0 > memory.oom_control   # as root, in the group's folder below /sys/fs/cgroup/memory: " +
					"see /proc/self/cgroup",
			}))
	case limit >= need+agent && limit-min(limit, held) < need+agent:
		return filled(in, limit, held, need+agent)
	case limit >= need:
		return finding.Passf("%s for %d of the job's processes", finding.Size(limit), ranks)
	}
	return finding.Warnf("the control group grants %s to all processes, %d of the job need at least %s",
		finding.Size(limit), ranks, finding.Size(need)).See("memory.max", "%d bytes", limit).
		Breaking("the kernel kills a process without a message, and the others wait for it").
		Do("%s", in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "raise resources.limits.memory of the container",
			preflight.InContainer:  fmt.Sprintf("docker run --memory=%dg …   # or no --memory", (4*need)>>30+1),
			preflight.InSlurm:      "sbatch --mem=0   # takes all memory of the node",
			preflight.InSystemd:    "MemoryMax=infinity in the unit's [Service]",
			preflight.InShell:      "raise memory.max of this group, or start the job outside it",
		}))
}

// filled warns of a group that files in memory have filled.
func filled(in preflight.Input, limit, held, need uint64) finding.Finding {
	return finding.Warnf("the control group grants %s, and files in memory hold %s of that: %s is left, the job needs at "+
		"least %s", finding.Size(limit), finding.Size(held), finding.Size(limit-min(limit, held)), finding.Size(need)).
		See("memory.stat", "shmem: %d bytes, and no free swap for them", held).
		Breaking("the kernel kills a process without a message, and the others wait for it").
		Do("%s", "ls -la /dev/shm; df -h -t tmpfs   # on this node: remove what an earlier job has left there\n"+
			in.Remedy(map[preflight.Place]string{
				preflight.InKubernetes: "or raise resources.limits.memory of the container, which counts them",
				preflight.InShell:      "or raise memory.max of this group",
			}))
}

func processor(_ context.Context, in preflight.Input) finding.Finding {
	quota := in.Node.System.Cgroup.CPUs
	ranks := localRanks(in)
	need := float64(ranks) * in.Threshold("limits.cpu")
	switch {
	case quota == 0 && in.Node.System.Procs == 0:
		return finding.Skipf("could not tell: the control group could not be read")
	case quota == 0:
		return finding.Passf("no quota")
	case quota >= need:
		return finding.Passf("%.3g cores for %d of the job's processes", quota, ranks)
	}
	return finding.Warnf("the control group grants %.3g cores to all processes, %d of the job need at least %.3g", quota,
		ranks, need).See("cpu.max", "%.3g cores", quota).
		Breaking("this node starts many times as slowly as the others, which wait for it or take it for lost").
		Do("%s", in.Remedy(map[preflight.Place]string{
			preflight.InKubernetes: "raise resources.limits.cpu of the container, or leave it out",
			preflight.InContainer:  fmt.Sprintf("docker run --cpus=%d …   # or no --cpus", ranks),
			preflight.InSystemd:    "CPUQuota= in the unit's [Service]",
			preflight.InShell:      "raise cpu.max of this group, or start the job outside it",
		}))
}

// portEphemeral looks at ports that the user fixed; launch itself chooses ports outside the range.
func portEphemeral(_ context.Context, in preflight.Input) finding.Finding {
	first, last := in.Node.Ephemeral[0], in.Node.Ephemeral[1]
	// better is a port that launch chooses itself.
	warn := func(port int, name, option string, better int) finding.Finding {
		var reserved strings.Builder // the setting replaces the whole list
		for _, r := range in.Node.System.Reserved {
			fmt.Fprintf(&reserved, "%d-%d,", r[0], r[1])
		}
		fix := fmt.Sprintf("sysctl -w net.ipv4.ip_local_reserved_ports=%s%d   # reserves it", &reserved, port)
		if !ephemeral(in, better) {
			fix = fmt.Sprintf("%s%d, or %s", option, better, fix)
		}
		return finding.Warnf("port %d of %s is in the range of outgoing connections (%d to %d)", port, name, first, last).
			See("net.ipv4.ip_local_port_range", "%d %d", first, last).
			Breaking("if an outgoing connection of any process uses that port, the job cannot listen on it").Do("%s", fix)
	}
	store, master := in.Job.Store, in.Job.MasterPort
	typedStore := store.Set && store.V.Embedded && store.From.Tier == setting.Explicit &&
		store.V.Port != job.DefaultStorePort && len(in.Serve) > 0
	ranks := int(localRanks(in))
	need := 64 + 20*ranks // each rank listens at a few ports, and calls each other rank from some
	few := last > 0 && last-first+1 < need
	typedMaster := master.Set && master.From.Tier == setting.Explicit && in.Job.Line.Kind != launcher.Mpirun &&
		!(in.Job.Index.Set && in.Job.Index.V > 0)
	switch {
	case few && in.Job.Several():
		return finding.Warnf("the kernel has %d ports for connections without a port of their own (%d to %d), %s may need %d",
			last-first+1, first, last, finding.Plural(ranks, "process", "processes"), need).
			See("net.ipv4.ip_local_port_range", "%d %d", first, last).
			Breaking("ranks stop with \"Cannot assign requested address\" or \"Address already in use\" while they connect").
			Do("sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"")
	case !typedStore && !typedMaster:
		return finding.Skipf("the user chose no port on which this node would listen")
	case typedStore && ephemeral(in, store.V.Port):
		return warn(store.V.Port, store.From.Name, "on all nodes: --store "+store.V.Host+":", job.DefaultStorePort)
	case typedMaster && ephemeral(in, master.V):
		return warn(master.V, master.From.Name, master.From.Name+" ", job.DefaultMasterPort)
	}
	return finding.Passf("outside %d to %d, or reserved", first, last)
}

// ephemeral reports whether the kernel may give a port to an outgoing connection.
func ephemeral(in preflight.Input, port int) bool {
	r := in.Node.Ephemeral
	if r[1] == 0 || port < r[0] || port > r[1] {
		return false
	}
	return !slices.ContainsFunc(in.Node.System.Reserved, func(r [2]int) bool { return port >= r[0] && port <= r[1] })
}

// meshes are the ports by which a sidecar redirects a pod's connections in both
// directions. That processes listen on all ports of one mesh is no coincidence.
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
		return finding.Skipf("not running in a Kubernetes pod")
	case !in.Job.Several():
		return finding.Skipf("one node has no peers")
	case in.PortUse == nil:
		return finding.Skipf("this run looks at no port")
	}
	for _, m := range meshes {
		all := true
		for _, port := range m.ports {
			u, err := in.PortUse(netip.AddrPortFrom(netip.IPv6Unspecified(), port))
			all = all && err == nil && u.Taken
		}
		if all {
			return finding.Warnf("a sidecar of %s redirects this pod's connections", m.name).
				See("ports of this pod", "in use: %s",
					finding.Join(m.ports, func(p uint16) string { return strconv.Itoa(int(p)) })).
				Breaking("NCCL and Gloo do not speak its protocol: connections break or are slow, and the pod keeps running "+
					"after the job").Do("%s", m.fix)
		}
	}
	return finding.Passf("no sidecar listens here")
}
