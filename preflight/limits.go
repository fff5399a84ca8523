package preflight

import (
	"context"
	"fmt"
	"math"
	"slices"

	"launch/fabric"
	"launch/internal/finding"
)

const (
	// minMemlock is what one process registers with the HCA at most before it
	// is suspicious: NCCL has up to 32 channels with about 5 MB of buffers in
	// each of two directions, and as much again for trees (src/include/channel.h,
	// NCCL_BUFFSIZE 4 MiB, LL and LL128 buffers). The kernel's own default is
	// 8 MiB, 64 KiB of old (include/uapi/linux/resource.h).
	minMemlock = 1 << 30

	// Descriptors that one process needs: for itself (libraries, CUDA, the
	// pipes of data loaders), and for each rank of the job (a Gloo pair, the
	// connections of the store on rank 0, NCCL's bootstrap).
	filesOwn     = 256
	filesPerRank = 4

	// shmPerRank: NCCL makes a segment of a little less than 10 MB for each
	// connection between two ranks of a node without a direct path; two rings
	// and a tree are some six of them. Its manual asks for 1 GB for containers,
	// whose default is 64 MiB in all.
	shmPerRank = 64 << 20
)

func limitChecks() []Check {
	return []Check{{
		ID: "limits.memlock", Limit: computed, Needs: []string{"rdma.loop"},
		Title: "RDMA may lock as much memory as it needs",
		Doc:   "An HCA reads and writes memory that is locked; where the limit is low, registering it fails in the first collective.",
		Run:   one(memlock),
	}, {
		ID: "limits.nofile", Limit: computed,
		Title: "a process may open a socket to every rank",
		Doc:   "The number of sockets grows with the ranks; where the limit is low, the job stops while it connects, with \"too many open files\".",
		Run:   one(nofile),
	}, {
		ID: "shm.size", Limit: computed,
		Title: "/dev/shm has room for the processes of this node",
		Doc:   "NCCL and data loaders share memory there; a container has 64 MiB unless it is given more, and the processes die of a bus error.",
		Run:   one(shmSize),
	}}
}

// memlock never fails: root and CAP_IPC_LOCK are not bound by the limit.
func memlock(_ context.Context, in Input) finding.Finding {
	active := slices.ContainsFunc(in.Node.HCAs, func(h fabric.HCA) bool { return slices.ContainsFunc(h.Ports, fabric.Port.Active) })
	limit := in.Node.Limits.Memlock
	switch {
	case !active:
		return finding.Skipf("no active RDMA port here")
	case limit == math.MaxUint64:
		return finding.Passf("unlimited")
	case float64(limit) >= in.threshold("limits.memlock"):
		return finding.Passf("%s", size(limit))
	case in.Node.System.IPCLock:
		return finding.Passf("%s, which does not bind a process with CAP_IPC_LOCK", size(limit))
	}
	return finding.Warnf("memlock is %s, RDMA wants unlimited", size(limit)).See("getrlimit RLIMIT_MEMLOCK", "%d bytes", limit).
		Breaking("registering memory fails with \"cannot allocate memory\" unless the job has CAP_IPC_LOCK").
		Do("%s", in.moreMemlock())
}

// moreMemlock is where the limit of locked memory is set.
func (in Input) moreMemlock() string {
	return in.remedy(map[around]string{
		inKubernetes: "securityContext: {capabilities: {add: [\"IPC_LOCK\"]}} in the container; the limit itself: LimitMEMLOCK=infinity in the runtime's unit (containerd.service)",
		inContainer:  "docker run --ulimit memlock=-1:-1 …",
		inSlurm:      "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, LimitMEMLOCK=infinity in slurmd.service, then restart slurmd",
		inSystemd:    "LimitMEMLOCK=infinity in the unit's [Service]",
		inShell:      "ulimit -l unlimited, or in /etc/security/limits.d/90-rdma.conf: * - memlock unlimited, and a new login",
	})
}

func nofile(_ context.Context, in Input) finding.Finding {
	l := in.Node.Limits
	if !l.NofileKnown {
		return finding.Skipf("cannot tell the limit that launch was started with: a build without cgo does not see it, and a recording may lack it")
	}
	local, _ := asked(in)
	ranks := max(1, in.Job.Nodes.V) * max(1, local)
	need := uint64(filesOwn + filesPerRank*ranks)
	if l.Nofile >= need {
		return finding.Passf("%d files, about %d are needed", l.Nofile, need)
	}
	return finding.Warnf("a process may open %d files, %d ranks need about %d", l.Nofile, ranks, need).
		See("getrlimit RLIMIT_NOFILE", "%d", l.Nofile).
		Breaking("processes stop with \"too many open files\" while they connect").
		Do("%s", in.remedy(map[around]string{
			inKubernetes: "LimitNOFILE=1048576 in the runtime's unit (containerd.service); the container's own soft limit: ulimit -n $(ulimit -Hn)",
			inContainer:  fmt.Sprintf("docker run --ulimit nofile=%d …", max(need, 65536)),
			inSlurm:      "PropagateResourceLimitsExcept=NOFILE in slurm.conf, LimitNOFILE=1048576 in slurmd.service; for this job: ulimit -n $(ulimit -Hn)",
			inSystemd:    fmt.Sprintf("LimitNOFILE=%d in the unit's [Service]", max(need, 65536)),
			inShell:      fmt.Sprintf("ulimit -n %d", max(need, 65536)),
		}))
}

// shmSize looks at what is free, since other jobs may share it. It never
// fails: GPUs with a direct path between them need none.
func shmSize(_ context.Context, in Input) finding.Finding {
	l := in.Node.Limits
	local, ok := asked(in)
	gpus := in.Node.GPUs
	switch {
	case gpus.Err != "":
		return finding.Skipf("could not tell: the GPUs of this node could not be asked")
	case !gpus.Present && gpus.Absent == "":
		return finding.Skipf("the GPUs of this node were not asked for")
	case len(gpus.Devices) == 0:
		return finding.Skipf("no NVIDIA GPU, NCCL shares no memory here")
	case !ok || local < 2:
		return finding.Skipf("one process on this node")
	case l.Shm < 0:
		return finding.Warnf("/dev/shm is not mounted").
			Breaking("NCCL and data loaders cannot share memory").Do("%s", in.moreShm(local, "mount -t tmpfs tmpfs /dev/shm"))
	case float64(l.Shm) >= float64(local)*in.threshold("shm.size"):
		return finding.Passf("%s free for %d processes", size(uint64(l.Shm)), local)
	}
	return finding.Warnf("/dev/shm has %s free of %s, %d processes want about %s",
		size(uint64(l.Shm)), size(uint64(max(0, l.ShmSize))), local, size(uint64(float64(local)*in.threshold("shm.size")))).
		See("statfs /dev/shm", "%d of %d bytes free", l.Shm, l.ShmSize).
		Breaking("NCCL or a data loader dies of a bus error when it is full").
		Do("%s", in.moreShm(local, "mount -o remount,size=50% /dev/shm; what fills it: ls -lS /dev/shm"))
}

// moreShm is how more is given, a gigabyte for each process.
func (in Input) moreShm(ranks int, here string) string {
	gigs := max(1, ranks)
	return in.remedy(map[around]string{
		inKubernetes: fmt.Sprintf("volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: %dGi}}] in the pod, volumeMounts: [{name: shm, mountPath: /dev/shm}] in the container", gigs),
		inContainer:  fmt.Sprintf("docker run --shm-size=%dg … (or --ipc=host)", gigs),
		inShell:      here,
	})
}

// size writes bytes with a binary unit and no more digits than it needs.
func size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if f == math.Trunc(f) || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
