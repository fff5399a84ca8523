package logs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/diagnose/verdict"
)

// TestTheMessageNamesWho: the rank or node in a message, or in other lines of the same pod, is the one that is named.
func TestTheMessageNamesWho(t *testing.T) {
	const placed = "9m    Normal    Scheduled   pod/fit-w-3    Successfully assigned ml/fit-w-3 to pool-b-77\n"
	for _, c := range []struct{ name, log, says string }{
		{"a rank in the message, and another label", "5: Abort(7) on node 0 (rank 2 in comm 0): Fatal error in PMPI_Init: " +
			"Other MPI error, error stack:\n5: MPIDI_OFI_mpi_init_hook(10): OFI addrinfo() failed " +
			"(ofi_init.c:10:MPIDI_OFI_mpi_init_hook:No data available)\n", "MPI of rank 2 cannot"},
		{"a list of ranks", "RuntimeError: [Rank 0]: Ranks 3, 5, 6 failed to pass monitoredBarrier in 9000 ms\n",
			"ranks 3, 5-6 did not reach"},
		{"one rank of that list", "RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 9000 ms\n",
			"rank 3 did not reach"},
		{"the node of a rank with NaN", "RuntimeError: Rank 9, node red-4, device 1, iteration 7: Unexpected result nan " +
			"(message='found NaN in local grad norm')\n", "rank 9 (node red-4), device 1,"},
		{"in two lines", "ERROR:rerun:Unexpected result nan on rank 9 at iteration #7 (message='found NaN in local grad " +
			"norm')\nERROR:rerun:Rank 9, node red-4, device 1, iteration #7: First rerun: reproducible\n",
			"rank 9 (node red-4), device 1,"},
		{"the node of a pod", placed + "41s   Warning   Evicted     pod/fit-w-3    The node was low on resource: memory. " +
			"Threshold quantity: 1\n", "a pod, fit-w-3, of the job from node pool-b-77, which was low on memory"},
		{"the node of another pod", placed + "41s   Warning   Evicted     pod/fit-w-4    The node was low on resource: " +
			"memory. Threshold quantity: 1\n", "a pod, fit-w-4, of the job from a node, which"},
		{"the only pod of a list of events", "Events:\n  Normal   Scheduled  4m   default-scheduler  Successfully assigned " +
			"ml/fit-w-3 to pool-b-77\n  Warning  Failed     2m   kubelet            Error: hook failed\n" +
			"nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown\n",
			"versions on node pool-b-77"},
		{"a worker of vLLM", "(Worker_TP3 pid=411) ERROR 02-03 04:05:06 [m.py:8] RuntimeError: Error 803: system has " +
			"unsupported display driver / cuda driver combination\n", "the node of rank 3"},
		{"a worker that starts on a host", "Model worker 5 started on host red-8\nTraceback (most recent call last):\n" +
			"  File \"/app/a.py\", line 3, in f\n    g()\nsafetensors_rust.SafetensorError: Error while deserializing header: " +
			"MetadataIncompleteBuffer\n", "node red-8"},
		{"workers that start on two hosts", "Model worker 5 started on host red-8\nModel worker 6 started on host red-9\n" +
			"safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer\n", "a process"},
		{"a column before the time", "  | 2031-02-03T04:05:06.208-07:00 | red-8:79:126 [0] nccl_net_ofi_domain_get_ep:969 " +
			"NCCL WARN NET/OFI Creating new endpoint for domain 0x7f failed: Invalid argument\n", "node red-8"},
		{"a line of a container engine", `{"log":"[rank7]: torch.OutOfMemoryError: CUDA out of memory. Tried\n",` +
			`"stream":"stderr","time":"2031-02-03T04:05:06.4Z","host":"red-8"}` + "\n", "rank 7 (node red-8) has run out"},
		{"several nodes", "srun: error: Task launch for StepId=7.0 failed on node red-1: Socket timed out on send/recv " +
			"operation\nsrun: error: Task launch for StepId=7.0 failed on node red-3: Socket timed out on send/recv " +
			"operation\n", "on nodes red-1, red-3"},
		{"a host that ssh of another one does not find", "ssh not successful for host red-4:\nssh: Could not resolve " +
			"hostname red-4: Name or service not known\n", "the host where it runs finds no address for red-4"},
		{"a host that ssh of another one reaches", "ssh not successful for host red-4:\nPermission denied " +
			"(publickey).\n", "red-4"},
		{"the address of a daemon", "srun: error: slurm_receive_msgs: [[red-3]:6818] failed: Socket timed out on " +
			"send/recv operation\n", "red-3 does not answer"},
		{"a container by its id", "[1738555506.101010] [0a1b2c3d4e5f:4711:0]      ib_device.c:918  UCX  ERROR Invalid " +
			"gid[0] on mlx5_6:1\n", "node 0a1b2c3d4e5f finds no usable GID 0 at mlx5_6:1"},
		{"the writer of a BTL", "[red-3][[463,1],0][btl_tcp_endpoint.c:803:mca_btl_tcp_endpoint_complete_connect] " +
			"connect() to 10.9.1.4 failed: No route to host (113)\n", "node red-3 has no way to 10.9.1.4"},
		{"a host before >>", "2031-02-03 04:05:06.4 worker-9 >> [2031-02-03 04:05:06] :166:1226 [0] misc/socket.cc:484 " +
			"NCCL WARN socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9\n", "on node worker-9: what it " +
			"sends begins with \"GET /met\""},
		{"two ranks of one host", "At least one pair of MPI processes are unable to reach each other for\n\n  Process 1 " +
			"([[7,1],1]) is on host: red-3\n  Process 2 ([[7,1],0]) is on host: red-3\n  BTLs attempted: self\n",
			"on red-3 and red-3 have no transport in common: the list of BTLs (self)"},
		{"the host of two that uses no adapter", "red-0:47:47 [1] transport/net_ib.cc:149 NCCL WARN NET/IB : Unable to " +
			"open device mlx5_8\nred-9:47:47 [1] transport/net_ib.cc:149 NCCL WARN NET/IB : Unable to open device mlx5_1\n" +
			"red-0:47:47 [1] NCCL INFO NET/IB : Using [0]mlx5_1:1/RoCE ; OOB eth0:10.9.0.2<0>\n", "node red-9 sees the RDMA " +
			"device mlx5_1"},
		{"a file system that fails", "RuntimeError: write(): fd 29 failed with Input/output error\n",
			"the file system or disk of that folder fails"},
		{"the reason of an eviction", "Evicted: Pod The node had condition: [MemoryPressure].\n", "low on Memory"},
		{"a rank to which DDP gives no answers", "RuntimeError: DDP expects same model across all ranks, but Rank 3 has " +
			"128 params, while rank 0 has inconsistent 0 params.\n", "rank 3 did not get the answers of the other ranks"},
		{"the rank in another collective", "Stalled ops: a [ready ranks: 3], b [ready ranks: 2, 0, 1]\n",
			"rank 3 waited in other collectives of Horovod than the ranks 2, 0, 1"},
		{"no rank in another collective", "Stalled ops: a [ready ranks: 3, 0], b [ready ranks: 2, 0, 1]\n",
			"ranks that are not ready"},
		{"the raylet's own report", "The node with node id: 0f21 and address: 10.9.0.4 and node name: x has been marked " +
			"dead because the detector has missed too many heartbeats from it.\n{\"host_name\":\"red-4\",\"message\":" +
			"\"this node manager has mistakenly been marked as dead by the GCS\"}\n", "while its daemon (raylet) ran"},
		{"the raylet's own report by its label", "(raylet, ip=10.9.0.4) [2031-02-03 04:05:06,123 C 99 99] (raylet) " +
			"node_manager.cc:1: Exiting because this node manager has mistakenly been marked as dead by the GCS\n",
			"took node 10.9.0.4 for dead"},
		{"the host in a block of Open MPI", "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\n" +
			"should not happen.\n\n  Local host: red-3\n  PID:        4711\n  Message:    connect() to 169.254.1.2:1026 " +
			"failed\n", "node red-3 calls 169.254.1.2"},
		{"Windows by its paths", "[W ..\\torch\\csrc\\distributed\\c10d\\socket.cpp:601] [c10d] The client socket has " +
			"failed to connect to [PC-7]:22582 (system error: 10049 - x).\nRuntimeError: Distributed package doesn't have " +
			"NCCL built in\n", "none for this system, Windows"},
		{"a host in the journal", "Feb  3 04:05:06 red-3 slurmd[4711]: fatal: gres.conf duplicate records for gpu\n",
			"slurmd of node red-3 does not start"},
		{"a host of the journal whose name begins with slurm", "Feb  3 04:05:06 slurm-node1 trainer: ValueError: x\n",
			"node slurm-node1 failed first: ValueError"},
		{"a process that the kernel killed", "E0203 04:05:06.1 33 torch/x/api.py:874] failed (exitcode: -9) local_rank: 2 " +
			"(pid: 4711) of binary: p\nRoot Cause (first observed failure):\n[0]:\n  host      : red-8\n  rank      : 42 " +
			"(local_rank: 2)\n  exitcode  : -9 (pid: 4711)\n[1.0] Out of memory: Killed process 4711 (p)\n",
			"a process of rank 42 on node red-8"},
		{"what the server of ssh says", "root@red-8: Permission denied (publickey,password).\nServer listening on 0.0.0.0 " +
			"port 22.\nAuthentication refused: bad ownership or modes for directory /home/u/.ssh\n",
			"sshd of node red-8 refuses the keys of a user, since /home/u/.ssh"},
		{"a process that the kernel of another node killed", "E0203 04:05:06.1 33 torch/x/api.py:874] failed (exitcode: " +
			"-9) local_rank: 2 (pid: 77) of binary: p\nRoot Cause (first observed failure):\n[0]:\n  host      : " +
			"red-8\n  rank      : 42 (local_rank: 2)\n  exitcode  : -9 (pid: 77)\nFeb  3 04:05:06 red-1 kernel: Out of memory:" +
			" Killed process 77 (p)\n", "a process on node red-1"},
		{"what the server of ssh on another node says", "root@red-1: Permission denied (publickey).\nred-8 sshd[811]: " +
			"Authentication refused: bad ownership or modes for directory /home/u/.ssh\n", "ssh without a password does not"},
		{"a line after an event of a pod", placed + "torch.OutOfMemoryError: CUDA out of memory. Tried\n",
			"a process has run out"},
		{"a line after a warning of a pod", placed + "41s   Warning   Unhealthy   pod/fit-w-3    Readiness probe failed: " +
			"x\ntorch.OutOfMemoryError: CUDA out of memory. Tried\n", "a process has run out"},
		{"where data is", "botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: " +
			"\"https://store.example.org/b\"\n", "storage (https://store.example.org/b) in time"},
		{"another process that the kernel killed", "E0203 04:05:06.1 33 torch/x/api.py:874] failed (exitcode: -9) " +
			"local_rank: 2 (pid: 4711) of binary: p\n[1.0] Out of memory: Killed process 4799 (p)\n", "a process on a node"},
	} {
		r, says := readText(t, c.log), ""
		if len(r.Verdicts) > 0 {
			says = r.Verdicts[0].Says
		} else if len(r.Open) > 0 {
			says = r.Open[0].Says
		}
		if !strings.Contains(says, c.says) {
			t.Errorf("%s: %q; want %q in it", c.name, says, c.says)
		}
	}
}

// TestTheMissingRankIsNamed: by its earlier collective, or as the one that is missing among those that wait.
func TestTheMissingRankIsNamed(t *testing.T) {
	waits := func(group string, seq int, ranks ...int) (out string) {
		for _, n := range ranks {
			out += fmt.Sprintf("[rank%d]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:632] [%sRank %d] Watchdog caught collective "+
				"operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran\n",
				n, group, n, seq)
		}
		return out
	}
	const (
		dump = "[rank2]:[E203 04:05:07.1 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump " +
			"signal due to a collective timeout from rank 1 and we will try our best to dump the debug info. Last enqueued " +
			"NCCL work: 87, last completed NCCL work: 87.\n"
		prepares = "Running tokenizer on dataset (num_proc=8): 12%|\n"
		broken   = "red-1:41:77 [3] NCCL WARN NET/IB : Got completion from peer 10.9.0.4<1> with status=12 opcode=1 len=1 " +
			"vendor err 129\n"
	)
	for _, c := range []struct {
		name, log, says string
		ranks           []int
	}{
		{"an earlier collective", waits("", 88, 0, 1, 3) + dump, "the last one there is number 87", []int{2}},
		{"the same collective", waits("", 87, 0, 1, 3) + dump, "", nil},
		{"no line", waits("", 88, 0, 1, 3, 4, 5), "rank 2 did not reach collective number 88", []int{2}},
		{"no line, and data to prepare", prepares + waits("", 1, 1, 2, 3, 4), "output): a process still prepares", []int{0}},
		{"lines, and data to prepare", "[rank0]: " + prepares + "[rank0]: step\n" + waits("", 1, 1, 2, 3, 4),
			"show: a process still prepares", []int{0}},
		{"data was prepared long before", prepares + waits("", 88, 0, 1, 3, 4, 5), "as far as these logs show (they may " +
			"lack that output)", []int{2}},
		{"too many have no line", waits("", 88, 0, 3, 5), "", nil},
		{"the group may be without it", waits("PG ID 3 PG GUID 7(dp) ", 88, 0, 1, 3, 4, 5), "", nil},
		{"another failure is first", broken + waits("", 88, 0, 1, 3, 4, 5), "", nil},
	} {
		r := readText(t, c.log)
		at := slices.IndexFunc(r.Verdicts, func(v verdict.Verdict) bool { return v.Cause == "log.rank-behind" })
		if strings.Contains(c.name, "data") && at >= 0 &&
			(r.Verdicts[at].Sure == verdict.Likely) != strings.HasPrefix(c.name, "lines") {
			t.Errorf("%s: %v", c.name, r.Verdicts[at].Sure)
		}
		switch {
		case at < 0 && c.ranks != nil, at >= 0 && c.ranks == nil:
			t.Errorf("%s: %+v", c.name, r.Verdicts)
		case at >= 0 && (!slices.Equal(r.Verdicts[at].Ranks, c.ranks) || !strings.Contains(r.Verdicts[at].Says, c.says)):
			t.Errorf("%s: %+v, want %v, %q", c.name, r.Verdicts[at], c.ranks, c.says)
		}
	}
}

// TestEventsOfKubernetesAreOrderedByAge: kubectl does not sort them.
func TestEventsOfKubernetesAreOrderedByAge(t *testing.T) {
	const later = "2m    Warning   Evicted     pod/b-1   The node was low on resource: memory.\n"
	const first = "1h3m  Warning   NodeNotReady   pod/b-1   Node is not ready\n"
	for _, log := range []string{first + later, later + first} {
		if r := readText(t, log); len(r.Verdicts) == 0 || r.Verdicts[0].Cause != "log.k8s-lost" {
			t.Errorf("%q: %+v", log, r.Verdicts)
		}
	}
	for text, want := range map[string]time.Duration{"45s": 45 * time.Second, "1h3m": 63 * time.Minute,
		"2d4h": 52 * time.Hour, "3d": 72 * time.Hour, "": 0, "<unknown>": 0, "x1d": 0} {
		if d := age(text); d != want {
			t.Errorf("%q: %v, want %v", text, d, want)
		}
	}
}

// TestUnpacked: only lines that a collector of logs packs as JSON are read as what is in them.
func TestUnpacked(t *testing.T) {
	for line, want := range map[string]string{
		`{"log":"a: b\n","stream":"stdout","time":"2031-02-03T04:05:06Z"}`: "2031-02-03T04:05:06Z a: b",
		`{"log": "a", "pod": "w-3", "host": "red-8"}`:                      "w-3 | a",
		`{"log":"a","host":"red"}`:                                         "a",
		`{"loss":1.5,"step":7}`:                                            `{"loss":1.5,"step":7}`,
		`{"level":"error","msg":"a"}`:                                      `{"level":"error","msg":"a"}`,
		`{"log":7}`:                                                        `{"log":7}`,
		`{"log":"a"`:                                                       `{"log":"a"`,
	} {
		if got := string(unpacked([]byte(line))); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestRunsBeforeTheLastAreMarked: what they had is counted, and no cause of its own.
func TestRunsBeforeTheLastAreMarked(t *testing.T) {
	run := func(n int, text string) string {
		return fmt.Sprintf("+ torchrun fit.py --batch %d\n[rank%d]: %s\n", n, n, text)
	}
	r := readText(t, run(4, "torch.OutOfMemoryError: CUDA out of memory. Tried")+run(2, "KeyError: 'vocab'"))
	if len(r.Verdicts) != 1 || r.Verdicts[0].Cause != "rank.failed" || !slices.ContainsFunc(r.Cascade, func(c Count) bool {
		return c.Kind == "log.oom" && strings.HasPrefix(c.Says, "in a run before this one: ")
	}) {
		t.Errorf("%+v %+v", r.Verdicts, r.Cascade)
	}
}
