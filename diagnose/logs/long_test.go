package logs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// long is a log of a job of many ranks: it starts with harmless warnings, computes, fails in the middle, and ends with
// what the other ranks write of it. Each text is of one rank: "{n}" is that rank, "{node}" its host, "{l}" its local
// rank.
type long struct {
	name       string
	nodes, per int
	prefix     string   // of each line of a rank
	steps      int      // 0: it fails in its start
	rank       int      // that fails; -1: of no rank
	cause      []string // lines of that rank; those of the kernel have no prefix
	bare       bool     // the lines of the cause have no prefix
	effect     []string // lines of each other rank
	end        []string // lines of the launcher
	files      bool     // one file for each node
	want       string
	only       []int // ranks that the verdict names; nil: any
}

var (
	lostPeer = []string{
		"{node}:47{n}:48{n} [{l}] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer red-1<43210>",
		"Traceback (most recent call last):\n  File \"/app/train.py\", line 71, in main\n    loss.backward()\n" +
			"  File \"/opt/env/lib/python3.11/site-packages/torch/_tensor.py\", line 581, in backward\n" +
			"    torch.autograd.backward(\ntorch.distributed.DistBackendError: NCCL error in: " +
			"../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:77, remote process exited or there was a network error, " +
			"NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting " +
			"prematurely.\nLast error:\nsocketProgress: Connection closed by remote peer red-1<43210>",
	}
	waited = []string{
		"[E203 04:15:06.1 ProcessGroupNCCL.cpp:632] [Rank {n}] Watchdog caught collective operation timeout: " +
			"WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600051 " +
			"milliseconds before timing out.",
		"[E203 04:15:06.2 ProcessGroupNCCL.cpp:687] [Rank {n}] Some NCCL operations have failed or timed out. Due to the " +
			"asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
		"[E203 04:15:06.3 ProcessGroupNCCL.cpp:693] [Rank {n}] To avoid data inconsistency, we are taking the entire " +
			"process " +
			"down.",
	}
	torchrunEnd = []string{
		"W0203 04:15:09.100000 4700 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4712 closing " +
			"signal SIGTERM",
		"E0203 04:15:10.100000 4700 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) " +
			"local_rank: 5 " +
			"(pid: 4716) of binary: /opt/env/bin/python",
		"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
	}
	srunEnd = []string{
		"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
		"slurmstepd: error: *** STEP 4711.0 ON red-1 CANCELLED AT 2025-02-03T04:15:12 ***",
		"srun: error: red-1: tasks 0-3: Terminated",
	}
)

var longs = []long{
	{name: "memory of a GPU", nodes: 8, per: 8, prefix: "[default{l}]:[rank{n}]: ", steps: 12, rank: 37,
		cause: []string{"Traceback (most recent call last):\n  File \"/app/train.py\", line 60, in main\n    y = model(x)\n" +
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.10 GiB " +
			"of which 1.05 GiB is free."},
		effect: lostPeer, end: torchrunEnd, want: "log.oom", only: []int{37}},
	{name: "an error of the program", nodes: 4, per: 8, prefix: "[rank{n}]: ", steps: 9, rank: 11,
		cause: []string{"Traceback (most recent call last):\n  File \"/app/data.py\", line 48, in item\n" +
			"    raise ValueError(\"bad shard\")\nValueError: shard 17 has 0 rows, expected 4096"},
		effect: append(slices.Clone(lostPeer), waited...), end: torchrunEnd, want: "rank.failed", only: []int{11}},
	{name: "a GPU that is lost", nodes: 4, per: 4, prefix: "{w}: ", steps: 20, rank: 6, files: true,
		cause: []string{"[81234.123456] NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen " +
			"off " +
			"the bus.", "RuntimeError: CUDA error: unspecified launch failure"},
		effect: append(slices.Clone(waited), lostPeer...), end: srunEnd, want: "log.gpu-lost"},
	{name: "an RDMA transfer", nodes: 8, per: 8, prefix: "{w}: ", steps: 15, rank: 24,
		cause: []string{"{node}:47{n}:48{n} [{l}] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer " +
			"10.4.0.7<51234> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca " +
			"mlx5_4"},
		effect: waited, end: srunEnd, want: "log.rdma-completion"},
	{name: "memory of a host", nodes: 4, per: 8, prefix: "{w}: ", steps: 30, rank: 13, bare: true,
		cause: []string{"slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have " +
			"been OOM " +
			"Killed.", "srun: error: {node}: task 13: Out Of Memory"},
		effect: lostPeer, end: srunEnd, want: "log.host-oom", only: []int{13}},
	{name: "shared memory of a DataLoader", nodes: 2, per: 8, prefix: "[rank{n}]: ", steps: 3, rank: 5,
		cause: []string{"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared " +
			"memory " +
			"(shm).", "Traceback (most recent call last):\n  File \"/app/train.py\", line 55, in main\n    for x in loader:\n" +
			"RuntimeError: DataLoader worker (pid 5123) is killed by signal: Bus error. It is possible that dataloader's " +
			"workers are out of shared memory. Please try to raise your shared memory limit."},
		effect: append(slices.Clone(waited), lostPeer...), end: torchrunEnd, want: "log.shm-too-small", only: []int{5}},
	{name: "a full disk at a checkpoint", nodes: 4, per: 8, prefix: "[default{l}]:[rank{n}]: ", steps: 40, rank: 0,
		cause: []string{"Traceback (most recent call last):\n  File \"/app/train.py\", line 88, in save\n" +
			"    torch.save(state, path)\nOSError: [Errno 28] No space left on device: '/data/ckpt/step-40.pt'"},
		effect: waited, end: torchrunEnd, want: "log.disk-full", only: []int{0}},
	{name: "a crash below mpirun", nodes: 4, per: 16, prefix: "[1,{n}]<stderr>:", steps: 8, rank: 21,
		cause: []string{"[{node}:4721] *** Process received signal ***", "[{node}:4721] Signal: Segmentation fault (11)",
			"[{node}:4721] [ 0] /lib64/libpthread.so.0(+0x12cf0)[0x7f00]",
			"[{node}:4721] [ 1] /opt/ucx/lib/libuct.so.0(uct_mm_ep_am_short+0x1f)[0x7f01]"},
		effect: []string{"[1700000000.101010] [{node}:47{n} :0]          tcp_ep.c:1 UCX  WARN  tcp_ep 0x1: recv failed: " +
			"Connection reset by peer"},
		end: []string{"--------------------------------------------------------------------------",
			"mpirun noticed that process rank 21 with PID 4721 on node red-2 exited on signal 11 (Segmentation fault)."},
		want: "log.crashed", only: []int{21}},
	{name: "a time limit", nodes: 2, per: 8, prefix: "{w}: ", steps: 50, rank: -1, bare: true,
		cause: []string{"slurmstepd: error: *** STEP 4711.0 ON red-1 CANCELLED AT 2025-02-03T04:15:12 DUE TO TIME LIMIT ***"},
		effect: []string{"Traceback (most recent call last):\n  File \"/app/train.py\", line 71, in main\n    step()\n" +
			"torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"},
		end: srunEnd[:1], want: "log.slurm-time"},
	{name: "a name that is not there", nodes: 8, per: 1, prefix: "[pod/job-worker-{n}/main] ", rank: 3,
		cause: []string{"Traceback (most recent call last):\n  File \"/app/train.py\", line 12, in main\n    init()\n" +
			"socket.gaierror: [Errno -2] Name or service not known"},
		effect: []string{"[W203 04:05:30.1 socket.cpp:697] [c10d] The client socket has failed to connect to " +
			"[job-master-0]:29500 (errno: 111 - Connection refused).",
			"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined."},
		want: "log.dns"},
	{name: "a file system that is gone", nodes: 4, per: 8, prefix: "{node} | [rank{n}]: ", steps: 25, rank: 18,
		cause: []string{"Traceback (most recent call last):\n  File \"/app/data.py\", line 48, in item\n    f.read()\n" +
			"OSError: [Errno 116] Stale file handle: '/nfs/data/17.bin'"},
		effect: waited, end: torchrunEnd, want: "log.mount-gone", only: []int{18}},
	{name: "a library of the driver", nodes: 4, per: 8, prefix: "{w}: ", rank: 9,
		cause: []string{"Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in <module>\n    import x\n" +
			"ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"},
		effect: []string{"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 31/32 clients " +
			"joined."}, end: srunEnd, want: "log.no-gpu", only: []int{9}},
	{name: "offline mode", nodes: 2, per: 4, prefix: "(RayWorker pid=47{n}, ip=10.0.0.{l}) ", rank: 2,
		cause: []string{"huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache " +
			"and outgoing traffic has been disabled."},
		effect: []string{"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"},
		end:    []string{"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."},
		want:   "log.offline-mode"},
	{name: "a rank that is behind", nodes: 2, per: 8, prefix: "[rank{n}]: ", steps: 15, rank: 10,
		cause: []string{"[E203 04:15:06.1 ProcessGroupNCCL.cpp:632] [Rank 10] Watchdog caught collective operation " +
			"timeout: " +
			"WorkNCCL(SeqNum=811, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600051 " +
			"milliseconds before timing out.",
			"[E203 04:15:06.1 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank 10] Exception (either an error or timeout) " +
				"detected by watchdog at work: 811, last enqueued NCCL work: 811, last completed NCCL work: 810."},
		effect: append(slices.Clone(waited), "[E203 04:15:06.1 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank {n}] "+
			"Exception (either an error or timeout) detected by watchdog at work: 812, last enqueued NCCL work: 812, last "+
			"completed NCCL work: 811."),
		end: torchrunEnd, want: "log.rank-behind", only: []int{10}},
}

// startNoise are lines of good starts that look like errors.
var startNoise = []string{
	"ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
	"2025-02-03 04:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:99] Unable to register cuDNN " +
		"factory: Attempting to register factory for plugin cuDNN when one has already been registered",
	"[1700000000.101010] [{node}:4711 :0]    ucp_context.c:2001 UCX  WARN  UCP version is incompatible, required: 1.17, " +
		"actual: 1.15 (release 0)",
	"slurmstepd: error: couldn't chdir to `/scratch/a': No such file or directory: going to /tmp instead",
	"srun: error: spank: x11.so: Plugin file not found",
	"WARN: device bnxt_re0 is not enumerated as an mlx5 device. Skipping...",
	"wandb: WARNING Failed to connect to https://api.wandb.ai, retrying",
	"Fontconfig error: No writable cache directories", "Apex is not installed. Falling back to Torch Norm",
	"[{node}:04711] mca_base_component_repository_open: unable to open mca_btl_openib: librdmacm.so.1: cannot open " +
		"shared object file: No such file or directory (ignored)",
	"Error in cpuinfo: failed to parse the list of possible processors in /sys/devices/system/cpu/possible",
}

// fill returns a text of a rank with its numbers.
func (l long) fill(text string, n int) string {
	return strings.NewReplacer("{n}", fmt.Sprint(n), "{w}", fmt.Sprintf("%2d", n), "{l}", fmt.Sprint(n%l.per),
		"{node}", fmt.Sprintf("red-%d", 1+n/l.per)).Replace(text)
}

// write returns the logs, by node or as one. A log that is well has neither the failure nor what follows from it. With
// stamps each line begins with its time; a late cause is among the effects, as where its output had waited in a buffer.
func (l long) write(r *rand.Rand, well, stamps, late bool) []string {
	out := make([]strings.Builder, l.nodes)
	clock := time.Date(2025, 2, 3, 4, 0, 0, 0, time.UTC)
	raw := func(n int, text string) {
		if clock = clock.Add(70 * time.Millisecond); stamps {
			text = clock.Format("2006-01-02T15:04:05.000000Z ") + text
		}
		node := 0
		if l.files {
			node = max(0, n) / l.per
		}
		out[node].WriteString(text + "\n")
	}
	say := func(n int, text string) {
		for line := range strings.SplitSeq(l.fill(text, n), "\n") {
			raw(n, l.fill(l.prefix, n)+line)
		}
	}
	ranks := l.nodes * l.per
	for range 3 { // interleaved
		for _, n := range r.Perm(ranks) {
			say(n, noise[r.IntN(len(noise))])
			say(n, startNoise[r.IntN(len(startNoise))])
		}
	}
	steps := l.steps
	if well {
		steps = 20
	}
	for step := range steps {
		for _, n := range r.Perm(ranks) {
			say(n, fmt.Sprintf("step %d loss %.3f lr 1e-4", step, r.Float64()))
			if r.IntN(30) == 0 && step < steps-3 {
				say(n, noise[r.IntN(len(noise))])
			}
		}
	}
	if well {
		return texts(out)
	}
	if !late {
		l.fails(raw, say)
	}
	for i, n := range r.Perm(ranks) {
		if late && i == 3 {
			l.fails(raw, say)
		}
		for _, text := range l.effect {
			if n != l.rank {
				say(n, text)
			}
		}
	}
	for _, text := range l.end {
		raw(0, text)
	}
	raw(0, "2025-02-03 04:15:2") // cut
	return texts(out)
}

// fails writes the cause.
func (l long) fails(raw, say func(n int, text string)) {
	for _, text := range l.cause {
		if l.bare || strings.Contains(text, "NVRM") {
			raw(l.rank, l.fill(text, max(0, l.rank)))
		} else {
			say(l.rank, text)
		}
	}
}

func texts(all []strings.Builder) (out []string) {
	for i := range all {
		if all[i].Len() > 0 {
			out = append(out, all[i].String())
		}
	}
	return out
}

// read reads the logs from files of their nodes.
func (l long) read(t *testing.T, all []string) Reading {
	t.Helper()
	dir := t.TempDir()
	for i, text := range all {
		name := filepath.Join(dir, fmt.Sprintf("red-%d.log", i+1))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLongLogs: the cause is found among hundreds of lines of many ranks, and no cause where it is left out.
func TestLongLogs(t *testing.T) {
	for i, l := range longs {
		for seed := range 3 {
			r := l.read(t, l.write(rand.New(rand.NewPCG(uint64(i), uint64(seed))), false, seed == 1, seed == 2 && l.rank >= 0))
			id, ranks, says := "", []int(nil), ""
			switch {
			case len(r.Verdicts) > 0:
				id, ranks, says = r.Verdicts[0].Cause, r.Verdicts[0].Ranks, r.Verdicts[0].Says
			case len(r.Open) > 0:
				id, ranks, says = r.Open[0].Family, r.Open[0].Ranks, r.Open[0].Says
			}
			if id != l.want || l.only != nil && !slices.Equal(ranks, l.only) {
				t.Errorf("%s (%d): %s of %v: %s; want %s of %v", l.name, seed, id, ranks, says, l.want, l.only)
			}
			r = l.read(t, l.write(rand.New(rand.NewPCG(uint64(i), uint64(seed))), true, seed == 1, false))
			if len(r.Verdicts) > 0 || len(r.Open) > 0 {
				t.Errorf("%s (%d), and it is well: %+v %+v", l.name, seed, r.Verdicts, r.Open)
			}
		}
	}
}
