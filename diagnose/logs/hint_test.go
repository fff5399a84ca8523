package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHints: a line with words of failures counts where the logs have nothing else, and no step after it.
func TestHints(t *testing.T) {
	for _, c := range []struct{ name, log, where string }{
		{"alone", "start\nagent: unable to open its port\n", "stdin:2"},
		{"the first one", "agent: cannot be started\nagent: exited unexpectedly\n", "stdin:1"},
		{"after steps", "step 1 loss 0.5\nagent: cannot be started\n", "stdin:2"},
		{"before a known failure", "agent: cannot be started\nCUDA out of memory\n", "stdin:2"},
		{"before a step", "agent: cannot be started\nstep 1 loss 0.5\n", ""},
		{"before progress", "agent: cannot be started\nmodel saved: checkpoint 3\n", ""},
		{"with another way", "agent: cannot be started, using the local one\n", ""},
		{"in a traceback that a program survives",
			"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    x = g(\"cannot be started\")\n", ""},
		{"after many calm lines", strings.Repeat("info: cannot be used\n", maxHints-1) + "agent: NOT ready\n", "stdin:200"},
	} {
		r := readText(t, c.log)
		where := ""
		if r.First != nil && !strings.Contains(r.First.Error, wordTrace) {
			where = r.First.Where
		}
		if where != c.where {
			t.Errorf("%s: %q; want %q", c.name, where, c.where)
		}
	}
}

// TestHintsOfOtherRanks: the log of a rank that writes no steps is well where another one does.
func TestHintsOfOtherRanks(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{
		"rank0.log": "step 1 loss 0.5\nstep 2 loss 0.4\n", "rank1.log": "tracker: unable to reach its server\n",
	} {
		file := filepath.Join(dir, name)
		files = append(files, file)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(nil, files...)
	if err != nil || r.First != nil {
		t.Errorf("first %+v, %v; want no failure", r.First, err)
	}
}

// TestWhoIsNamed: what a line says of ranks, peers, hosts and devices is in the sentence.
func TestWhoIsNamed(t *testing.T) {
	for _, c := range []struct{ log, want string }{
		{"kex_exchange_identification: read: Connection reset by peer\nConnection reset by 10.1.2.3 port 22\n",
			"the ssh server of node 10.1.2.3 ended"},
		{"[rank2]: EJ0003: [PID: 4711] Failed to bind the IP port. Reason: bound already.\n" +
			"[rank2]:         host nic listen start failed, port[60001], return[7]\n",
			"HCCL of rank 2 cannot listen on its port (60001)"},
		{" 0.0/8.0 GPU\n {'node:red-1': 0.001, 'GPU': 1.0} * 1, {'GPU': 1.0} * 7 (PACK): 1+ pending placement groups\n",
			"no node of the address red-1 with what is asked for: Ray knows that node by another one, or it is busy. 8 GPUs " +
				"are asked for in all, and the cluster has 8"},
		{"Error: No available node types can fulfill resource request {'GPU': 2.0}. Add suitable node types.\n" +
			" 0.0/2.0 GPU\n {'GPU': 1.0} * 4 (STRICT_PACK): 1+ pending placement groups\n",
			"wait for GPUs in Ray: 4 with 1 each, on one node (STRICT_PACK); its cluster has 2 in all"},
		{" 0.0/4.0 GPU\n {'node:red-1': 0.001, 'GPU': 1.0} * 1, {'GPU': 1.0} * 5 (PACK): 1+ pending placement groups\n",
			"processes wait for GPUs in Ray: 6 in all; its cluster has 4 in all"},
		{" 0.0/4.0 GPU\n 0.0/8.0 GPU\n {'node:red-1': 0.001, 'GPU': 1.0} * 1, {'GPU': 1.0} * 5 (PACK): 1+ pending " +
			"placement groups\n", "no node of the address red-1"},
		{"Error: No available node types can fulfill resource request {'node:red-1': 0.001, 'GPU': 1.0}. Add nodes.\n" +
			" 0.0/4.0 GPU\n {'node:red-1': 0.001, 'GPU': 1.0} * 1, {'GPU': 1.0} * 5 (PACK): 1+ pending placement groups\n",
			"processes wait for GPUs in Ray: 6 in all; its cluster has 4 in all"},
		{"ssh: connect to host red-1 port 22: Connection refused\nssh: connect to host red-2 port 22: No route to host\n" +
			"ssh: connect to host red-3 port 22: No route to host\nWarning: Permanently added 'red-1' (ED25519) to the list\n",
			"cannot connect to nodes red-2, red-3 port 22: No route to host"},
		{"ssh: Could not resolve hostname red-1: Name or service not known\nssh: Could not resolve hostname red-2: Name or " +
			"service not known\nWarning: Permanently added 'red-1' (ED25519) to the list of known hosts.\n", "a name (red-2)"},
		{"A call to mkdir was unable to create the desired directory:\n\n  Directory: /local/a\n  Error:     File exists\n",
			"cannot make a folder on a node, /local/a: File exists"},
		{"[red-2:4711] [[812,1],3] selected pml ob1, but peer [[812,1],0] on red-1 selected pml ucx\n",
			"ob1 on node red-2, ucx on red-1"},
		{"DeepEP timeout check failed: rank = 1, thread = 2, value = 0)\n" +
			"DeepEP timeout check failed: rank = 1, thread = 3, value = 1024)\n" +
			"DeepEP timeout check failed: rank = 4, thread = 3, value = 1024)\n",
			"ranks 1, 4 waited in DeepEP's barrier for rank 3"},
		{"DeepEP dispatch NVL receiver timeout, channel: 6, RDMA: 0, nvl: 0, src NVL: 5, head: 3, tail: 3\n" +
			"CUDA error: unspecified launch failure\n", "NVL rank 5"},
		{"x(EI0015): Reason: no rank can\nconnect in time. List of unconnected ranks: \"[2,7,]\"\n",
			"ranks 2, 7 did not connect"},
		{"[rank2]:[E1 a.cpp:1] [Rank 2] Received a dump signal due to a collective timeout from  rank 13 and we\n",
			"rank 13 waited"},
		{"[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d: Socket Timeout\n",
			"rank 3 gave up waiting for rank 0"},
		{"[1738555506.1] [red-3:4711 :0]  sock.c:334  UCX  ERROR   connect(fd=7, dest_addr=10.9.8.7:400) failed: Network " +
			"is unreachable\n", "node red-3 has no route to 10.9.8.7"},
		{"[red-3:4711] PML ucx cannot be selected\n", "node red-3"},
		{"red-3 kernel: NVRM: Xid (PCI:0000:dc:00): 149, x\nred-3 kernel: NVRM: Xid (PCI:0000:ba:00): 149, x\n",
			"GPU 0000:dc:00, 0000:ba:00"},
		{"Feb  3 04:05:06 red-3 kernel: NVRM: Xid (PCI:0000:dc:00): 149, x\nFeb  3 04:05:07 red-4 kernel: NVRM: Xid " +
			"(PCI:0000:ba:00): 149, x\n", "NVLink of nodes red-3, red-4 has an error (Xid 149; GPU 0000:dc:00 (red-3), " +
			"0000:ba:00 (red-4))"},
		{"red-3:1:2 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev " +
			"mlx5_2:1, curr state INIT, next state RTR, local GID index 1, local GID fe80::4, remote GID fe80::9\n",
			"device mlx5_2 of node red-3 looks for the GID fe80::9"},
		{"[red-3:4711:0:4720] Caught signal 11 (Segmentation fault)\n 0  /lib/libucs.so.0(ucs_handle_error+0x2) [0x1]\n" +
			" 1  /lib/libnccl.so.2(ncclProxyService+0x70) [0x7f3]\n", "crashed in libnccl (function ncclProxyService)"},
		{"NET/IB : Got completion from peer 10.5.0.34<339> with error 5, opcode 0\n", "the peer 10.5.0.34"},
		{"failed (exitcode: -9) local_rank: 3 (pid: 4711) of binary: python\n", "local rank 3 was killed"},
		{"Abort(1) on node 7 (rank 7 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\n" +
			"MPIDI_OFI_mpi_init_hook(1): OFI get address vector map failed\n", "MPI of rank 7"},
		{"The node with node id: a and ip: 10.1.2.3 has been marked dead because the detector has missed too many\n" +
			"The node with node id: b and ip: 10.1.2.4 has been marked dead because the detector has missed too many\n",
			"nodes 10.1.2.3, 10.1.2.4"},
		{"Last heartbeat was sent 900 ms ago\nLast heartbeat was sent 1900 ms ago\nThis node has been marked as dead.\n",
			"it had sent heartbeats late, so"},
		{"  Local host:        red-3\n  Application name:  ./build\n  Error:             Permission denied\n",
			"./build on node red-3: Permission denied"},
		{"Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that\n", "rank 37"},
		{"Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(" +
			"SequenceNumber=5, OpType=ALLREDUCE), but Rank 1 is running collective: CollectiveFingerPrint(" +
			"SequenceNumber=8, OpType=ALLREDUCE)\n", "rank 0 has called 3 collectives fewer than rank 1"},
		{"Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(" +
			"SequenceNumber=5, OpType=ALLREDUCE), but Rank 1 is running collective: CollectiveFingerPrint(" +
			"SequenceNumber=5, OpType=BARRIER)\n", "rank 0 calls ALLREDUCE, rank 1 BARRIER"},
	} {
		r := readText(t, c.log)
		said := ""
		if len(r.Verdicts) > 0 {
			said = r.Verdicts[0].Says
		} else if len(r.Open) > 0 {
			said = r.Open[0].Says
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%q; want %q in it", said, c.want)
		}
	}
}
