package logs

import "strconv"

// lossCauses are how processes report that they lost another rank, or were ended with the others, and reports of ends
// without the error.
var lossCauses = []cause{
	{
		id: "log.gloo-mesh", grade: open,
		words: []string{"connectFullMesh failed", "failed to connect, willRetry=0"},
		says: "{who} cannot connect to another rank (Gloo): Gloo of a host chose an address that the others do not reach, " +
			"a firewall is between, or that rank has ended",
		need: []string{
			"which address Gloo takes on each node: the one of getent hosts $(hostname), or of GLOO_SOCKET_IFNAME; set that " +
				"to the interface that the nodes share (with vLLM and Ray before ray start)",
			"is TCP open between the nodes on all ports: launch check",
			"the output of the other ranks: did one end before",
		},
	}, {
		id: "log.gloo-mesh", grade: open, words: []string{"] connect ["},
		form: re(`gloo/transport/\S+\] connect \[(?P<addr>[^\]]+)\]:(?P<port>\d+): (?P<why>.+)`),
		test: func(v map[string]string) bool {
			port := number(v["port"])
			v["swapped"] = strconv.Itoa(port>>8 | port&255<<8)
			return port >= 0
		},
		says: "Gloo of {who} cannot connect to a rank at {addr}: {why}; that rank has ended or does not listen there, or a " +
			"firewall refuses it",
		need: []string{"the output of the ranks on {addr}: did one end before",
			"ss -ltn on {addr}: does a rank listen on port {port} (some Gloo write its bytes in reverse: {swapped})",
			"GLOO_SOCKET_IFNAME of each node"},
		from: "pytorch/gloo transport/tcp/pair.cc",
	}, {
		id: "log.ddp-unused", grade: decisive,
		words: []string{"Expected to have finished reduction in the prior iteration"},
		says:  "a parameter of the model of {who} got no gradient, so DDP waits for it",
		do:    "use all outputs in the loss, or set find_unused_parameters=True",
	}, {
		id: "log.rendezvous-closed", grade: cascade, words: []string{"RendezvousClosedError", "RendezvousGracefulExit"},
		says: "{who} found the rendezvous closed by another node",
	}, {
		id: exitOther.id, grade: exitOther.grade, words: []string{"ProcessExitedException: "},
		form: re(`ProcessExitedException: process (?P<local>\d+) terminated with ` +
			`(?:signal (?P<sig>SIG[A-Z]+)|exit code (?P<code>\d+))`),
		says: exitOther.says, need: exitOther.need,
		from: "torch multiprocessing/spawn.py",
	}, {
		id: "log.wrapper", grade: ended, soft: true, words: []string{"Worker proc "},
		form: re(`Worker proc \w+-(?P<rank>\d+) died unexpectedly`),
		says: "{who} ended as a worker of vLLM; its own error is not in these lines: a signal, as a rule (the OOM killer, " +
			"a crash)",
		need: []string{"the lines of that worker before", "dmesg of that node: did the OOM killer end a process"},
		from: "vllm v1/executor/multiproc_executor.py",
	}, {
		id: "log.wrapper", grade: ended, words: []string{"Horovod detected that one or more processes exited"},
		later: []string{"Process name: "}, more: re(`Process name: (?:\[\[.*\],)?(?P<rank>\d+)`),
		says: "{who} ended first, as Horovod's launcher reports; its own error is not in these lines",
		need: []string{"the output of that rank"},
		from: "horovod runner/gloo_run.py",
	}, {
		id: "log.wrapper", grade: ended, words: []string{"eceived sigquit from a child process"},
		says: "a child process of SGLang on {where} failed, and SGLang then ends all of them; its own error is not in " +
			"these lines",
		need: []string{"the first line with \"hit an exception\", and the end of its traceback, in the output of all nodes"},
		from: "sgl-project/sglang engine.py",
	}, {
		id: "log.wrapper", grade: ended,
		words: []string{
			"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "Engine core initialization failed",
		},
		says: "{who} reports that a rank ended; that rank's own error is not in these logs",
		need: []string{"the output of that rank (torchrun --log-dir DIR --redirects 3)"},
	}, {
		id: "log.cuda-error", grade: open, wraps: true, words: []string{"nhandled cuda error", "ncclUnhandledCudaError"},
		says: "a call of CUDA or HIP failed in the NCCL of {who}; the line does not say which",
		need: []string{"a run with NCCL_DEBUG=INFO: the first line with NCCL WARN names the call and its error",
			"nvidia-smi or rocm-smi, and dmesg, of that node: other processes, free memory, errors of a GPU"},
		from: "NVIDIA/nccl, ROCm/rccl",
	}, {
		id: "log.wrapper", grade: ended,
		words: []string{
			"DistBackendError: NCCL error", "ncclSystemError", "ncclInternalError",
			"ncclInvalidUsage", "RuntimeError: NCCL error", "RuntimeError: NCCL communicator", "ncclCommInitRank failed",
			"unhandled system error", "NCCL operation", "Test NCCL failure",
			"Test CUDA failure", "NCCL failure", "CUDA error: ", "HCCL error in", "OPS function error: Hccl",
			"call hccl api failed", "HCCL function error", "createHCCLComm", "hcclCommInitRootInfo", "HcclGetRootInfo",
			"call acl api failed", "ACL stream synchronize failed", "Proxy Call to rank ",
			"WARN Socket recv failed while polling",
		},
		not:  []string{"has NOT been destroyed"},
		says: "{who} reports an error of NCCL or of a rank, without its cause",
		need: []string{
			"a run with NCCL_DEBUG=INFO, the output of all ranks",
			"nvidia-smi of each node: other processes, free memory, driver",
		},
	}, {
		id: "log.peer-lost", grade: ended, words: []string{"heartbeat timeout. This indicates"},
		form: re(`/job:(?P<job>\w+)/replica:\d+/task:(?P<ranks>\d+) heartbeat timeout`),
		says: "{who} (its task number in {job}) sent no more heartbeats: it failed, was preempted, or its node or network " +
			"did",
		need: []string{"the output of that process and the kernel's log of its node", "was its machine preempted: the " +
			"events of the scheduler or the cloud"},
		from: "tensorflow coordination_service.cc",
	}, {
		id: "log.peer-lost", grade: ended, with: "torch.peer",
		words: []string{"Connection closed by peer", "Connection reset by peer"},
		form:  re(`gloo/transport/.*by peer`),
		says:  "{who} lost the connection to another rank[, rank {fact}], with which it exchanged data: that one ended first",
		need:  []string{"the output of that rank: its own error, or that it left before the others were done"},
		from:  "pytorch/gloo pair.cc",
	}, {
		id: "log.peer-lost", grade: cascade,
		words: []string{
			"Connection reset by peer", "Connection closed by peer", "Connection closed by remote peer",
			"ncclRemoteError", "remote process exited", "Broken pipe", "failed to recv, got 0 bytes",
			"socketProgress: Connection closed", "Socket closed", "recv, socket is closed", "recv() failed",
			"peer closed", "JAX distributed service detected fatal errors",
			"Failed to send RPC to coordination service", "NCCL communicator was aborted",
			"another rank", "Remote host closed", "Failed to execute operation",
		},
		not: []string{"the \"should dump\" flag", "willRetry=1", "sendBytes failed on", "recvValue failed on",
			"recvVector failed on", "retry", "Retry"},
		says: "{who} lost the connection to a rank that ended",
		need: []string{"the output of the rank or node that ended first: it is not in these logs"},
	}, {
		id: "log.peer-lost", grade: cascade, noise: true, words: []string{"check the \"should dump\" flag"},
		says: "{who} lost torch's store: the process with the store (rank 0, or torchrun on that node) ended first",
		need: []string{"the output of rank 0 and of torchrun on its node: why it ended",
			"dmesg of that node: did the OOM killer end it"},
		from: "torch ProcessGroupNCCL",
	}, {
		id: watchdogID, grade: cascade, words: []string{"taking the entire process down",
			"Some NCCL operations have failed or timed out"},
		says: "{who} is ended by torch's watchdog, since a collective failed or timed out",
		need: []string{"the output of all ranks before these lines: which rank failed first, or hangs"},
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.peer-lost", grade: cascade, words: []string{"Horovod has been shut down"},
		says: "{who} was shut down by Horovod, since another rank raised an exception or ended before",
		need: []string{"the output of all ranks before the first of these lines: which rank ended or raised first"},
		from: "horovod common.h",
	}, {
		id: "log.stopped", grade: cascade, words: []string{"closing signal SIGTERM", "closing signal SIGKILL",
			", forcefully exiting via "},
		says: "torchrun ends its processes, since one of them failed, or since torchrun itself was stopped",
		need: []string{
			"the output of the rank whose process these lines do not name (torchrun --log-dir DIR --redirects 3)",
			"what stopped torchrun: a user, the scheduler, or another node that failed before"},
		from: "torch elastic/multiprocessing/api.py",
	}, {
		id: "log.stopped", grade: cascade,
		words: []string{
			"Received 15 death signal", "SignalException", "Received Signals.SIGTERM", "KeyboardInterrupt",
			"death signal, shutting down",
		},
		says: "{who} received SIGTERM or SIGKILL from outside",
		need: []string{"what stopped the job: a user, the scheduler, or another node that failed before"},
	},
	{
		id: "log.end-noise", grade: harmless,
		words: []string{
			"hostname of the client socket cannot be retrieved", "Connection was likely closed", "sendBytes failed on",
			"recvValue failed on",
			"recvVector failed on", "Failed to open libibverbs.so", "vfs_fuse.c",
			"Error waiting on exit barrier", "destroy_process_group() was not called",
			"process group has NOT been destroyed", "failed to get boot id", // src/ucs/sys/sys.c of UCX goes on without
		},
		says: "noise at the end of good runs",
	},
}
