package system

import (
	"context"
	"fmt"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

func limitChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "limits.memlock", Needs: []string{"rdma.loop"}, Title: "RDMA may lock enough memory",
		Doc: "An HCA reads and writes locked memory. Where the limit is low, registering memory fails in the first " +
			"collective.",
		Run: preflight.One(memlock),
	}, {
		ID: "limits.nofile", Title: "a process may open a socket to every rank",
		Doc: "The number of sockets grows with the ranks. Where the limit is low, the job stops while it connects, with " +
			"\"too many open files\".",
		Run: preflight.One(nofile),
	}, {
		ID: "shm.size", Title: "/dev/shm has space for the processes of this node",
		Doc: "NCCL and data loaders share memory there. A container has 64 MiB by default, and processes that need more " +
			"die of a bus error.",
		Run: preflight.One(shmSize),
	}}
}

// shmSize looks at the free space, since other jobs may share it. It never fails: GPUs with a direct path need none.
func shmSize(_ context.Context, in preflight.Input) finding.Finding {
	l := in.Node.Limits
	local, ok := preflight.Processes(in)
	gpus, users := in.Node.GPUs, "processes"
	// NCCL needs the memory for each GPU: one process may use all, and accelerate or vLLM start their own.
	if u, why := preflight.GPUsOf(in); why == "" && in.Job.Line.Kind != launcher.Torchrun && len(u.Devices) > local {
		local, ok, users = len(u.Devices), true, "GPUs"
	}
	switch {
	case gpus.Err != "":
		return finding.Skipf("could not tell: the driver could not be asked for the GPUs of this node")
	case !gpus.Present && gpus.Absent == "":
		return finding.Skipf("the driver was not asked for the GPUs of this node")
	case len(gpus.Devices) == 0:
		return finding.Skipf("no NVIDIA GPU, NCCL shares no memory here")
	case !ok || local < 2:
		return finding.Skipf("one process on this node")
	case l.Shm < 0:
		return finding.Warnf("/dev/shm is not mounted").
			Breaking("NCCL and data loaders cannot share memory").Do("%s", moreShm(in, local, "mount -t tmpfs tmpfs /dev/shm"))
	case float64(l.Shm) >= float64(local)*in.Threshold("shm.size"):
		return finding.Passf("%s free for %d %s", finding.Size(uint64(l.Shm)), local, users)
	}
	need := finding.Size(uint64(float64(local) * in.Threshold("shm.size")))
	return finding.Warnf("/dev/shm has %s free of %s, %d %s need about %s",
		finding.Size(uint64(l.Shm)), finding.Size(uint64(max(0, l.ShmSize))), local, users, need).
		See("statfs /dev/shm", "%d of %d bytes free", l.Shm, l.ShmSize).
		Breaking("NCCL or a data loader dies of a bus error when it is full").
		Do("%s", moreShm(in, local, "mount -o remount,size=50% /dev/shm\nls -lS /dev/shm   # shows what fills it"))
}

// moreShm returns how to enlarge /dev/shm, to a gigabyte for each process.
func moreShm(in preflight.Input, ranks int, here string) string {
	return in.Remedy(map[preflight.Place]string{
		preflight.InKubernetes: fmt.Sprintf("volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: %dGi}}] in the "+
			"pod\nvolumeMounts: [{name: shm, mountPath: /dev/shm}] in the container", ranks),
		preflight.InContainer: fmt.Sprintf("docker run --shm-size=%dg … (or --ipc=host)", ranks),
		preflight.InShell:     here,
	})
}
