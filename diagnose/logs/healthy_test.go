package logs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Lines of good runs that look bad.
var noise = []string{
	"[1795644199.842185] [vm:782  :0]             sys.c:302  UCX  ERROR failed to get boot id",
	"[W1122 13:17:26.404481933 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
	"[W1122 13:17:26.404481933 socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 " +
		"(errno: 97 - Address family not supported by protocol).",
	"[W1122 13:17:26.4 socket.cpp:697] [c10d] The IPv6 network addresses of (blue-1, 29500) cannot be retrieved " +
		"(gai error: -9 - Address family for hostname not supported).",
	"[W1122 13:17:26.4 socket.cpp:697] [c10d] The client socket has failed to connect to [blue-1]:29500 " +
		"(errno: 111 - Connection refused).",
	"[W1122 13:17:26.4 socket.cpp:697] [c10d] The client socket cannot be initialized to connect to [blue-1]:29500 " +
		"(errno: 97 - Address family not supported by protocol).",
	"h:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
	"h:1:2 [0] NCCL INFO NET/IB : No device found.",
	"h:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]",
	"h:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
	"h:1:2 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>",
	"h:1:2 [0] NCCL INFO cudaDriverVersion 12080",
	"h:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE",
	"NCCL version 2.27.3+cuda12.9",
	"libibverbs: Warning: couldn't load driver 'libbnxt_re-rdmav34.so': cannot open shared object file: No such file",
	"UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly.",
	"eval/error_rate 0.031 eval/word_error 0.2 error: 0.004",
	"mean absolute error: 0.113, killed_connections=0, exceptions=0",
	"WARNING:root:download failed: Connection reset by peer; retrying in 2 s (attempt 1 of 5)",
	"INFO:root:download succeeded after 2 attempts",
	"WARNING tensorboard: port 6006 Address already in use, trying another port 6007",
	"FutureWarning: ImportError will be raised in a later version",
	"[2026-01-02 10:00:00,000] [WARNING] [runner.py:215:fetch_hostfile] Unable to find hostfile, will proceed with " +
		"training with local resources only.",
	"srun: job 1201 queued and waiting for resources",
	"srun: job 1201 has been allocated resources",
	"W1122 13:17:26.39 12694 torch/distributed/run.py:982] Setting OMP_NUM_THREADS environment variable to be 1",
	"exit code 0",
	"Process 12 exited with code 0",
	"Downloading shards:  33%|███▎      | 1/3 [00:01<00:02]\rDownloading shards: 100%|██████████| 3/3 [00:03<00:00]",
	"[W1122 13:40:00.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed " +
		"before we destruct ProcessGroupNCCL. destroy_process_group() was not called",
	"traceback : <N/A>",
	"Sanity check: no CUDA out of memory expected at batch 8; retry enabled",
}

// Lines at the end of good runs.
var goodEnds = []string{
	"[W1122 13:45:29.9 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=9): Broken pipe",
	"[W1122 13:45:29.9 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3): Connection reset by peer",
	"[W1122 13:45:29.9 TCPStore.cpp:130] [c10d] recvVector failed on SocketImpl(fd=3): Failed to recv, got 0 bytes. " +
		"Connection was likely closed. Did the remote server shutdown or crash?",
	"W1122 13:45:30.1 99 torch/distributed/elastic/agent/server/api.py:700] Error waiting on exit barrier. " +
		"Elapsed: 300.1 s",
	"Traceback (most recent call last):\n" +
		"  File \"torch/distributed/elastic/agent/server/api.py\", line 960, in _exit_barrier\n" +
		"    store_util.barrier(\ntorch.distributed.DistNetworkError: failed to recv, got 0 bytes",
	"wandb: Synced 5 W&B file(s), 0 media file(s)",
	"Training finished, 0 errors",
}

func healthyLog(r *rand.Rand) string {
	var out strings.Builder
	ranks := 1 << r.IntN(4)
	prefix := [](func(int) string){
		func(int) string { return "" },
		func(n int) string { return fmt.Sprintf("[default%d]:", n) },
		func(n int) string { return fmt.Sprintf("[rank%d]: ", n) },
		func(n int) string { return fmt.Sprintf("%d: ", n) },
		func(n int) string { return fmt.Sprintf("[1,%d]<stdout>:", n) },
		func(n int) string { return fmt.Sprintf("[pod/job-worker-%d/main] ", n) },
	}[r.IntN(6)]
	line := func(n int, text string) {
		for part := range strings.SplitSeq(text, "\n") {
			out.WriteString(prefix(n) + part + "\n")
		}
	}
	for n := range ranks {
		for range 1 + r.IntN(20) {
			line(n, noise[r.IntN(len(noise))])
		}
		if r.IntN(4) == 0 { // an error that the program survives
			line(n, "Traceback (most recent call last):\n  File \"fetch.py\", line 9, in get\n    raise OSError(x)\n"+
				"OSError: host is busy")
			line(n, "fetch: trying once more")
		}
	}
	for step := range 10 + r.IntN(200) {
		for n := range ranks {
			line(n, fmt.Sprintf("step %d loss %.3f grad_norm %.2f error_rate %.3f", step, r.Float64(), r.Float64(), r.Float64()))
			if r.IntN(40) == 0 {
				line(n, fmt.Sprintf("\r%3d%%|##   | %d/200 [00:10<01:00, 3.1it/s]", step, step))
			}
		}
	}
	for range r.IntN(4) {
		line(r.IntN(ranks), goodEnds[r.IntN(len(goodEnds))])
	}
	return out.String()
}

func TestHealthyLogsHaveNoVerdict(t *testing.T) {
	for seed := range 300 {
		text := healthyLog(rand.New(rand.NewPCG(uint64(seed), 1)))
		r := readText(t, text)
		if len(r.Verdicts) > 0 {
			t.Errorf("log %d: %+v", seed, r.Verdicts)
		}
		if len(r.Open) > 0 && seed < 30 {
			t.Logf("log %d: open %s: %s", seed, r.Open[0].Family, r.First.Error)
		}
	}
}
