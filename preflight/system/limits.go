package system

import (
	"context"
	"fmt"
	"time"

	"launch/fabric"
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
		ID: "limits.ends", Title: "no limit ends a process for its time, memory or length of a file",
		Doc: "ulimit -t, -f, -d and -v are for login shells. A rank that exceeds one is killed in the middle of its work, " +
			"or while it writes a checkpoint. Where -d or -v grants too little, torch crashes in its import.",
		Run: ending,
	}, {
		ID: "limits.connections", Title: "the kernel's connection table has room",
		Doc: "A firewall or NAT on this node keeps an entry for each connection (nf_conntrack). Where the table is full, " +
			"the kernel drops new connections, and their callers wait.",
		Run: preflight.One(connections),
	}, {
		ID: "limits.idle", Title: "the kernel's connection table remembers connections that are idle for some minutes",
		Doc: "A firewall that lets in the packets of known connections drops or resets those of a connection that has left " +
			"the table. Ranks exchange nothing while they compute, validate or write a checkpoint.",
		Run: preflight.One(idleConnections),
	}, {
		ID: "limits.retries", Title: "TCP does not give up a connection after a short silence",
		Doc: "A cable that is put in again, a switch that restarts or a route that changes interrupts a network for " +
			"seconds. A node that gives up meanwhile ends its ranks, where the others would go on.",
		Run: preflight.One(retries),
	}, {
		ID: "shm.size", Title: "/dev/shm has space for the processes of this node",
		Doc: "NCCL and data loaders share memory there. A container has 64 MiB by default, and processes that need more " +
			"die of a bus error.",
		Run: preflight.One(shmSize),
	}}
}

// shortest is a length of a file that a checkpoint or a log may exceed, in bytes.
const shortest = 1 << 40

// ending looks at the limits whose excess the kernel answers with a signal (setrlimit(2)).
func ending(_ context.Context, in preflight.Input) (out []finding.Finding) {
	l := in.Node.Limits
	if l == (fabric.Limits{}) {
		return []finding.Finding{finding.Skipf("could not tell the limits of this node")}
	}
	if l.CPUTime > 0 {
		out = append(out, finding.Warnf("the kernel ends each process after %d s of processor time (ulimit -t), over all "+
			"its threads", l.CPUTime).
			See("/proc/self/limits", "Max cpu time %d", l.CPUTime).
			Breaking("a rank ends with SIGXCPU or SIGKILL (status 152 or 137), and the others wait for it").
			Do("ulimit -t unlimited   # or the cpu line of /etc/security/limits.conf"))
	}
	if l.FileSize > 0 && l.FileSize < shortest {
		out = append(out, finding.Warnf("a file may have %s at most (ulimit -f)", finding.Size(l.FileSize)).
			See("/proc/self/limits", "Max file size %d", l.FileSize).
			Breaking("a rank that writes a longer checkpoint or log ends with SIGXFSZ (status 153), or gets \"File too large\"").
			Do("ulimit -f unlimited   # or the fsize line of /etc/security/limits.conf"))
	}
	if in.Job.Line.Kind == launcher.Torchrun {
		out = append(out, tooTight("-d", "memory of its own", "Max data size", l.Data, importData)...)
		out = append(out, tooTight("-v", "addresses", "Max address space", l.Addresses, importAddresses)...)
	}
	return preflight.OrPass(out, "a process may run and write without a limit")
}

// importData and importAddresses are what a process has after the import of torch 2.15 (VmData, VmPeak), in bytes.
const importData, importAddresses = 760 << 20, 3 << 30

// tooTight warns of a limit that is below what an import of torch takes.
func tooTight(flag, what, line string, limit, need uint64) []finding.Finding {
	if limit == 0 || limit >= need {
		return nil
	}
	return []finding.Finding{finding.Warnf("a process may have %s of %s (ulimit %s), and an import of torch alone takes "+
		"about %s", finding.Size(limit), what, flag, finding.Size(need)).
		See("/proc/self/limits", "%s %d", line, limit).
		Breaking("torch crashes in its import (SIGSEGV, status 139) or finds no memory, and the others wait for the rank").
		Do("ulimit %s unlimited   # or its line in /etc/security/limits.conf", flag)}
}

// nearlyFull is the share of the connection table from which a job may fill it. The kernel evicts what it can only when
// it is full.
const nearlyFull = 0.95

func connections(_ context.Context, in preflight.Input) finding.Finding {
	held, most := in.Node.Tracked[0], in.Node.Tracked[1]
	switch {
	case most == 0:
		return finding.Skipf("this kernel tracks no connections, or does not show it")
	case float64(held) < nearlyFull*float64(most):
		return finding.Passf("%d of %d entries are used", held, most)
	}
	return finding.Warnf("the kernel's connection table is full or nearly so: %d of %d entries", held, most).
		See("/proc/sys/net/netfilter/nf_conntrack_count", "%d", held).
		See("/proc/sys/net/netfilter/nf_conntrack_max", "%d", most).
		Breaking("the kernel drops new connections (\"nf_conntrack: table full, dropping packet\"), and ranks wait for them").
		Do("sysctl -w net.netfilter.nf_conntrack_max=%d   # on the machine itself\n"+
			"dmesg | grep conntrack; conntrack -S   # shows drops", 2*most)
}

// shortMemory is how many seconds a connection may be idle at the least. The kernel's own limit is 5 days, and RFC 5382
// asks a NAT for 2 hours; some administrators of web servers set 10 minutes.
const shortMemory = 300

func idleConnections(_ context.Context, in preflight.Input) finding.Finding {
	switch after := in.Node.Forgets; {
	case after == 0:
		return finding.Skipf("this kernel tracks no connections, or does not show it")
	case after >= shortMemory:
		return finding.Passf("an idle connection is forgotten after %d s", after)
	default:
		const file = "nf_conntrack_tcp_timeout_established"
		return finding.Warnf("this node's connection table forgets a TCP connection that is idle for %d s", after).
			See("/proc/sys/net/netfilter/"+file, "%d", after).
			Breaking("a firewall that lets in known connections drops or resets its packets then: ranks that exchange nothing "+
				"for so long hang afterwards, or fail with \"Connection closed by peer\"").
			Do("sysctl -w net.netfilter.%s=432000   # the kernel's own value", file)
	}
}

// fewRetries is the number of retransmissions below which TCP gives up within 13 s. The kernel's own is 15, which take
// 15 minutes, and RFC 1122 asks for 100 s, which are 8 (Documentation/networking/ip-sysctl.rst, tcp_retries2).
const fewRetries = 6

// leastTimeout is TCP's first wait for an acknowledgement at the least; each is twice as long as the one before
// (include/net/tcp.h, TCP_RTO_MIN).
const leastTimeout = 200 * time.Millisecond

func retries(_ context.Context, in preflight.Input) finding.Finding {
	n := in.Node.Retries
	switch {
	case n == 0:
		return finding.Skipf("could not tell the limits of TCP")
	case n >= fewRetries:
		return finding.Passf("TCP sends a packet %d times again", n)
	}
	return finding.Warnf("this node gives up a TCP connection after %s without an answer", leastTimeout*(1<<(n+1)-1)).
		See("/proc/sys/net/ipv4/tcp_retries2", "%d", n).
		Breaking("a short outage of the network ends ranks with \"Connection timed out\"").
		Do("sysctl -w net.ipv4.tcp_retries2=15   # the kernel's own value; in /etc/sysctl.d for good")
}

// shmSize looks at the free space, since other jobs may share it. It never fails: GPUs with a direct path need none.
func shmSize(_ context.Context, in preflight.Input) finding.Finding {
	l := in.Node.Limits
	local, ok := preflight.Processes(in)
	gpus, each, all := in.Node.GPUs, "process", "processes"
	// NCCL needs the memory for each GPU: one process may use all, and accelerate or vLLM start their own.
	u, why := preflight.GPUsOf(in)
	used := len(u.Devices)
	if others := len(preflight.Accelerators(in)); why != "" && others > 0 && gpus.Err == "" {
		used, why = others, "" // RCCL shares memory as NCCL does
	}
	if why == "" && in.Job.Line.Kind != launcher.Torchrun && used > local {
		local, ok, each, all = used, true, "GPU", "GPUs"
	}
	who, need := finding.Plural(local, each, all), finding.Size(uint64(float64(local)*in.Threshold("shm.size")))
	switch {
	case l.ShmDenied:
		return finding.Warnf("this user may not write into /dev/shm").
			See("access /dev/shm", "permission denied").
			Breaking("Python's multiprocessing, data loaders and NCCL cannot share memory: ranks stop with PermissionError").
			Do("chmod 1777 /dev/shm   # as root")
	case l.Shm == 0 && l.ShmSize > 0:
		return finding.Warnf("/dev/shm has no space or no inode left").
			See("statfs /dev/shm", "0 of %d bytes usable", l.ShmSize).
			Breaking("Python's multiprocessing, data loaders and NCCL stop with \"No space left on device\"").
			Do("df -h /dev/shm; df -i /dev/shm; ls -lS /dev/shm   # shows what fills it")
	case gpus.Err != "":
		return finding.Skipf("could not tell: the driver could not be asked for the GPUs of this node")
	case used == 0 && !gpus.Present && gpus.Absent == "":
		return finding.Skipf("the driver was not asked for the GPUs of this node")
	case used == 0 && len(gpus.Devices) == 0:
		return finding.Skipf("no NVIDIA GPU, NCCL shares no memory here")
	case !ok || local < 2 && (in.Job.Nodes.V == 1 || used == 0):
		return finding.Skipf("one process on this node")
	case l.Shm < 0:
		return finding.Warnf("/dev/shm is not mounted").
			Breaking("NCCL and data loaders cannot share memory").Do("%s", moreShm(in, local, "mount -t tmpfs tmpfs /dev/shm"))
	case float64(l.Shm) >= float64(local)*in.Threshold("shm.size"):
		return finding.Passf("%s free for %s", finding.Size(uint64(l.Shm)), who)
	}
	if local == 1 {
		who = "NCCL's buffers" // also between hosts: its proxy has them there
	}
	return finding.Warnf("/dev/shm has %s free of %s, %s need about %s",
		finding.Size(uint64(l.Shm)), finding.Size(uint64(max(0, l.ShmSize))), who, need).
		See("statfs /dev/shm", "%d of %d bytes free", l.Shm, l.ShmSize).
		Breaking("NCCL stops with \"No space left on device\", or a data loader dies of a bus error, when it is full").
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
