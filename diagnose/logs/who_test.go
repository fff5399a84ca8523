package logs

import (
	"slices"
	"strings"
	"testing"
)

// TestWhoIsNamedByOtherLines: a verdict or an open failure names the rank or the node that other lines show.
func TestWhoIsNamedByOtherLines(t *testing.T) {
	const (
		timedOut = "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: " +
			"store_based_barrier_key:1 (world_size=4, worker_count=2, timeout=0:10:00)\n"
		credential = "srun: error: Task launch for 36.0 failed on node red-3: Job credential expired\n" +
			"step 1\nstep 2\nstep 3\nstep 4\nsrun: error: Application launch failed: Job credential expired\n"
		trace = "Traceback (most recent call last):\n%  File \"/app/a.py\", line 7, in <module>\n%    f()\n%KeyError: 'x'\n"
	)
	gpu := func(host, bus string) string {
		return host + "[ 1843.308145] NVRM: The NVIDIA GPU 0000:" + bus + ":00.0\n"
	}
	fallen := func(host string) string {
		return host + "               NVRM: fallen off the bus and is not responding to commands.\n"
	}
	under := func(label string) string { return label + strings.ReplaceAll(trace, "%", label) }
	for _, c := range []struct{ name, log, says string }{
		{"the ranks that did not join", "[rank1]: Connection refused\n" + timedOut, "no line of ranks 2-3 is in"},
		{"as many lines as ranks", timedOut, "2 of 4 had joined"},
		{"a node that an earlier line names", credential, "on node red-3"},
		{"a label in capitals", under("RED7B: "), "rank.failed a process failed"},
		{"a host in capitals", under("RED7B: ") + "RED7B: [rank0]: step 1\n",
			"rank.failed a process on node RED7B"},
		{"a host of a rank of NCCL", under("RED7B: ") + "RED7B:471:471 [0] NCCL INFO comm 0x5 rank 3 nranks 8 - Init START\n",
			"rank.failed a process on node RED7B"},
		{"a host that torchrun names, too", under("RED7B: ") + "Root Cause (first observed failure):\n[0]:\n  host      : " +
			"RED7B\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 4711)\n", "(node RED7B) failed"},
		{"the name of a logger", under("my_pkg.trainer: "), "rank.failed a process failed first: KeyError: 'x', at a.py:7"},
		{"the name of a run", under("attempt_1: "), "rank.failed a process failed first: KeyError: 'x', at a.py:7"},
		{"a host that NCCL writes, too", "RED7B: RED7B:471:471 [0] NCCL INFO comm 0x5 rank 3 nranks 8 cudaDev 3 - Init " +
			"START\nRED7B: KeyError: 'x'\n", "node RED7B"},
		{"the host whose NCCL ends with it", "red-1:471:475 [3] NCCL INFO bootstrap.cc:280 -> 2\nINTERNAL: " +
			"xla/nccl_utils.cc:3: NCCL operation ncclCommInitRank(&comm) failed: unhandled system error.\n", "node red-1"},
		{"the NCCL of several hosts", "red-1:471:475 [3] NCCL INFO bootstrap.cc:280 -> 2\nred-2:471:475 [3] NCCL INFO " +
			"bootstrap.cc:280 -> 2\nINTERNAL: xla/nccl_utils.cc:3: NCCL operation ncclCommInitRank(&comm) failed: unhandled " +
			"system error.\n", "a process reports"},
		{"the only host of all ranks", "red-1:471:471 [0] NCCL INFO comm 0x5 rank 0 nranks 2 - Init START\n" +
			"red-1:472:472 [1] NCCL INFO comm 0x5 rank 1 nranks 2 - Init START\nCUDA out of memory\n", "node red-1"},
		{"a host of some ranks", "red-1:471:471 [0] NCCL INFO comm 0x5 rank 0 nranks 3 - Init START\n" +
			"red-1:472:472 [1] NCCL INFO comm 0x5 rank 1 nranks 3 - Init START\nCUDA out of memory\n", "a process has run"},
		{"a host with underscores", under("gpu_node_b: ") + "gpu_node_b: [rank0]: step 1\n", "process on node gpu_node_b"},
		{"a level is no label", "my_ERROR: " + strings.ReplaceAll(trace, "%", ""), "KeyError: 'x', at a.py:7"},
		{"a program is no label", "train.py: " + strings.ReplaceAll(trace, "%", ""), "KeyError: 'x', at a.py:7"},
		{"a rank of an NPU", "[ERROR] 2025-02-03-04:15:06 (PID:4711, Device:3, RankID:11) ERR02200 DIST call hccl api " +
			"failed.\n" +
			"EJ0001: 2025-02-03-04:15:06.167.645 Failed to initialize the HCCP process. Reason: Maybe the last training " +
			"process is running.\n", "rank 11"},
		{"around a rank", "init.cc:12 NCCL WARN Mismatched collective detected, please check your collective calls at and " +
			"around rank 39.\n", "around rank 39"},
		{"a program of nccl-tests", "red-h: Test CUDA failure common.cu:45 'CUDA driver version is insufficient for CUDA " +
			"runtime version'\n", "node red-h"},
		{"a GPU of each of two lines", gpu("", "b3") + fallen("") + gpu("", "c4") + fallen(""),
			"a GPU at 0000:b3:00.0, 0000:c4:00.0 of a node"},
		{"a GPU of each of two hosts", gpu("red-1: ", "b3") + gpu("red-2: ", "c4") + fallen("red-1: ") + fallen("red-2: "),
			"a GPU at 0000:b3:00.0 (red-1), 0000:c4:00.0 (red-2) of nodes red-1, red-2"},
		{"a GPU of the line before", "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: " +
			"10de:26b5) installed in this system has\n               NVRM: fallen off the bus and is not responding to " +
			"commands.\n", "0000:b3:00.0"},
		{"a task that is no rank", "[rank0]:[E331 11:07:08.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective " +
			"operation timeout: WorkNCCL(SeqNum=9)\nsrun: error: red-3: task 0: Killed\n", "a process on node red-3 was"},
		{"a task that is a rank", "[rank1]:[E331 11:07:08.1 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective " +
			"operation timeout: WorkNCCL(SeqNum=9)\nsrun: error: red-3: task 0: Killed\n", "rank 0 (node red-3) was"},
		{"another process of mpirun", "[red-1:19546:0:19546] ib_mlx5_log.c:139  Transport retry count exceeded on " +
			"mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\nmpirun noticed that process rank 3 with PID 19548 on node red-1 " +
			"exited on signal 6 (Aborted).\n", "UCX of node red-1 got"},
		{"the same process of mpirun", "[red-1:19548:0:19548] ib_mlx5_log.c:139  Transport retry count exceeded on " +
			"mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\nmpirun noticed that process rank 3 with PID 19548 on node red-1 " +
			"exited on signal 6 (Aborted).\n", "UCX of rank 3 (node red-1) got"},
		{"the interface of an address", "red-1:300:2300 [0] NCCL INFO NET/Socket : Using [0]eth0:10.9.0.4<0> " +
			"[1]link0:169.254.170.23<0>\nred-1:300:2300 [0] NCCL WARN socketPollConnect: Connect to 169.254.170.23<43210> " +
			"returned 111(Connection refused)\n", "(of its interface link0)"},
		{"the other host", "A process or daemon was unable to complete a TCP connection\nto another process:\n" +
			"  Local host:    red-a\n  Remote host:   red-b\n", "node red-a cannot connect to another host (red-b)"},
	} {
		r := readText(t, c.log)
		says := ""
		for _, v := range slices.Backward(r.Verdicts) {
			says = v.Cause + " " + v.Says
		}
		if says == "" && len(r.Open) > 0 {
			says = r.Open[0].Says
		}
		if !strings.Contains(says, c.says) || c.name == "as many lines as ranks" && strings.Contains(says, "no line of") {
			t.Errorf("%s: %q, want %q", c.name, says, c.says)
		}
	}
}
