package system

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

// What one process opens. Gloo was measured (torch 2.15, 2 to 32 ranks): a process group opens a socket for each
// rank and four more files, and the store on rank 0 a socket for each rank and nine more.
const (
	filesOwn     = 256 // libraries, the pipes of data loaders
	filesCUDA    = 256 // more with CUDA: the device nodes of each GPU, events, memory that is shared
	filesPerRank = 4   // two process groups of Gloo, the store on rank 0, and NCCL's bootstrap

	// NCCL over the network. A ring has two connections in each channel and a tree six (src/graph/connect.cc); 16
	// channels are usual on a fast network, and a job with several kinds of parallelism has about four communicators.
	// Two ranks that send to each other directly have two channels in each direction (src/graph/paths.cc).
	ncclGroups   = 4
	ncclLinks    = ncclGroups * 16 * 8
	ncclPerPeer  = 4
	ncclMaxSocks = 64 // of a connection (MAX_SOCKETS in src/transport/net_socket.cc)
)

// world is what the limits of one process depend on.
type world struct {
	ranks, local, mine uint64 // of the job, of this node, of one process
	nccl               bool   // NCCL connects this node to others
}

// worldOf returns the ranks of the job. A program that is not torchrun may use all GPUs of its node in one process,
// with a rank for each.
func worldOf(in preflight.Input) world {
	w := world{local: localRanks(in), mine: 1}
	u, why := preflight.GPUsOf(in)
	if why == "" {
		w.nccl = in.Job.Several()
		if in.Job.Line.Kind != launcher.Torchrun && !in.Job.NProc.Set {
			w.local = max(1, uint64(len(u.Devices)))
			w.mine = w.local
		}
	}
	w.ranks = uint64(max(1, in.Job.Nodes.V)) * w.local
	return w
}

// files returns how many files a process may have open, and what needs most of them.
func (w world) files(in preflight.Input) (need uint64, why string) {
	need, why = filesOwn+filesPerRank*w.ranks, fmt.Sprintf("%d ranks", w.ranks)
	if !w.nccl {
		return need, why
	}
	each := w.mine * sockets(in) * (ncclLinks + ncclPerPeer*(w.ranks-w.local))
	if each > need {
		why = "NCCL with " + why
	}
	return need + filesCUDA + each, why
}

// sockets returns how many sockets a connection of NCCL has: one over RDMA, and over TCP one and those of
// NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD, whose defaults follow the maker of the card (net_socket.cc).
func sockets(in preflight.Input) uint64 {
	own, _ := in.Getenv("NCCL_NET")
	if own != "Socket" && rail.Of(in.Node, in.Addr).Kind != rail.TCP {
		return 1
	}
	threads, each := uint64(0), uint64(1)
	switch in.Node.Cloud.Provider {
	case "aws":
		threads, each = 2, 8
	case "gcp":
		threads = 4
	}
	for name, at := range map[string]*uint64{"NCCL_SOCKET_NTHREADS": &threads, "NCCL_NSOCKS_PERTHREAD": &each} {
		text, _ := in.Getenv(name)
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			*at = n
		}
	}
	return 1 + min(threads*each, ncclMaxSocks)
}

func nofile(_ context.Context, in preflight.Input) finding.Finding {
	l := in.Node.Limits
	if !l.NofileKnown {
		return finding.Skipf("could not tell the limit that launch was started with: " +
			"a build without cgo cannot read it, and a recording may lack it")
	}
	need, why := worldOf(in).files(in)
	if l.Nofile >= need {
		return finding.Passf("%d files, about %d are needed", l.Nofile, need)
	}
	f := finding.Warnf("a process may open only %d files; %s may need about %d", l.Nofile, why, need).
		See("getrlimit RLIMIT_NOFILE", "%d", l.Nofile).
		Breaking("processes stop with \"too many open files\" while they connect")
	if l.NofileHard >= need {
		return f.See("the hard limit", "%d", l.NofileHard).
			Do("ulimit -n %d   # before launch, in the same shell or job script: the hard limit allows it", l.NofileHard)
	}
	return f.Do("%s", in.Remedy(map[preflight.Place]string{
		preflight.InKubernetes: "LimitNOFILE=1048576 in the runtime's unit (containerd.service)\n" +
			"the soft limit in the container: ulimit -n $(ulimit -Hn)",
		preflight.InContainer: fmt.Sprintf("docker run --ulimit nofile=%d …", max(need, 65536)),
		preflight.InSlurm: "PropagateResourceLimitsExcept=NOFILE in slurm.conf, LimitNOFILE=1048576 in slurmd.service\n" +
			"for this job: ulimit -n $(ulimit -Hn)",
		preflight.InSystemd: fmt.Sprintf("LimitNOFILE=%d in the unit's [Service]", max(need, 65536)),
		preflight.InShell:   fmt.Sprintf("ulimit -n %d", max(need, 65536)),
	}))
}

// What a process locks in memory for RDMA.
const (
	lockedPerPort = 32 << 20 // NCCL opens every port: queues and doorbells of the user's driver
	// directShare is the part of a rank's buffers that remains in host memory with GPUDirect: flags, queues, and
	// the buffers of the protocols for short messages.
	directShare = 8
)

// locked returns how much memory a process may lock, and why.
func (w world) locked(in preflight.Input, ports int) (need uint64, why string) {
	each := uint64(in.Threshold("limits.memlock"))
	why = "buffers in host memory"
	if d := in.Node.GPUDirect; w.nccl && (d.Peermem || d.DMABuf == "yes") {
		each /= directShare
		why = "buffers in GPU memory"
	}
	return w.mine*each + uint64(ports)*lockedPerPort,
		fmt.Sprintf("%s and %s, with %s", finding.Count(int(w.mine), "rank"), finding.Count(ports, "RDMA port"), why)
}

// memlock never fails: the limit does not bind root and CAP_IPC_LOCK.
func memlock(_ context.Context, in preflight.Input) finding.Finding {
	ports := 0
	for _, h := range in.Node.HCAs {
		if slices.ContainsFunc(h.Ports, fabric.Port.Active) {
			ports++
		}
	}
	limit := in.Node.Limits.Memlock
	need, why := worldOf(in).locked(in, ports)
	switch {
	case ports == 0:
		return finding.Skipf("no active RDMA port here")
	case limit == math.MaxUint64:
		return finding.Passf("unlimited")
	case limit >= need:
		return finding.Passf("%s, about %s are needed", finding.Size(limit), finding.Size(need))
	case in.Node.System.IPCLock:
		return finding.Passf("%s, which does not bind a process with CAP_IPC_LOCK", finding.Size(limit))
	}
	return finding.Warnf("memlock is %s, a process of this job may need %s (%s)", finding.Size(limit), finding.Size(need),
		why).See("getrlimit RLIMIT_MEMLOCK", "%d bytes", limit).
		Breaking("registering memory fails with \"cannot allocate memory\" unless the job has CAP_IPC_LOCK").
		Do("%s", in.MoreMemlock())
}
