package diagnose

var collectiveCauses = []Cause{
	{
		ID: "peer.ended", depth: absent, Title: "A rank has ended in the middle of a collective",
		Sign:    "One rank has an error, and others hang or fail with Connection reset.",
		For:     "connections between ranks are closed by the other end, or its process has ended",
		Against: "all connections are there",
		Do:      "look at the end of that rank's log",
		Source:  "sockets in CLOSE-WAIT; missing connections",
	},
	{
		ID: "group.subset", depth: onTheSpot, Title: "Not all ranks create a group",
		Sign:    "One rank waits in new_group, the others in a later collective.",
		For:     "the store has fewer keys of that group than its members",
		Against: "all members have their key",
		Do:      "call new_group on all ranks, also on those that are no members",
		Source:  "keys /default_pg/0//GROUP//cpu//0/INDEX",
	},
	{
		ID: "collective.mismatch", depth: onTheSpot, Title: "Ranks are in different collectives",
		Sign:    "All ranks wait, and nothing is retransmitted.",
		For:     "the Python stacks of two ranks are in different collectives, or NCCL counts other ones for a rank",
		Against: "all stacks are at the same line, and all counts are equal",
		Do:      "make all ranks call the same collectives in the same order; TORCH_DISTRIBUTED_DEBUG=DETAIL names them",
		Source:  "py-spy dump; torch's CollectiveFingerPrint; NCCL's RAS",
	},
	{
		ID: "rank.left", depth: waiting, Title: "A rank is not in the collective of the others",
		Sign:    "All other ranks wait in a collective.",
		For:     "its main thread is in other code, and does not move",
		Against: "it computes or reads: then it is slow",
		Do:      "look at its line of the stack: does it make fewer steps, or wait for something else?",
		Source:  "stacks, /proc/PID/syscall",
	},
	{
		ID: "exit.barrier", depth: absent, Title: "torchrun waits for the others at its end",
		Sign:    "The ranks of one node have ended well; its torchrun remains.",
		For:     "fewer agents have reported their end than there are",
		Against: "all have",
		Do:      "look at the ranks that still run",
		Source:  "key terminal_state/num_members",
	},
	{
		ID: "collective.idle", depth: guess, Title: "All ranks wait in a collective",
		Sign:    "Nothing is printed, nothing moves.",
		For:     "all ranks wait, all connections are there and idle",
		Against: "bytes move",
		Do:      "install py-spy on the nodes, or start again with TORCH_DISTRIBUTED_DEBUG=DETAIL",
		Source:  "tcp_info: ages of the last byte",
	},
}

var ncclCauses = []Cause{
	{
		ID: "nccl.dead", depth: absent, Title: "NCCL reaches a process no more",
		Sign:    "The job stops in the middle; no error for 15 minutes and more.",
		For:     "NCCL's RAS considers a process dead: it has not been reached for 60 s",
		Against: "RAS has an answer of all processes",
		Do:      "look at the end of that rank's log, and at its host; end the job and start again",
		Source:  "NCCL's src/ras/client_support.cc: DEAD, considered_dead",
	},
	{
		ID: "nccl.silent", depth: absent, Title: "A process does not answer NCCL's RAS",
		Sign:    "All other ranks wait in a collective.",
		For:     "NCCL's RAS has no data of a process, whose thread for that is another one than the rank's own",
		Against: "RAS has an answer of all processes",
		Do:      "run launch doctor on that node: is the process stopped, is the host reached?",
		Source:  "NCCL's src/ras/client_support.cc: INCOMPLETE, unresponsive",
	},
	{
		ID: "nccl.error", depth: absent, Title: "NCCL has failed on a rank, and the rank does not end",
		Sign:    "All other ranks wait in a collective.",
		For:     "NCCL's RAS shows an error of a communicator on that rank",
		Against: "no rank has one",
		Do:      "look at that rank's log for NCCL WARN; end the job and start again",
		Source:  "NCCL's src/ras/client_support.cc: init_state, async_error",
	},
	{
		ID: "nccl.behind", depth: waiting, Title: "A rank has launched fewer collectives of NCCL than the others",
		Sign:    "All other ranks wait in a collective.",
		For:     "NCCL's RAS counts fewer of one collective for it than for most ranks, twice, seconds apart",
		Against: "a count has changed between the two looks: the job goes on",
		Do:      "look at what that rank does before its next collective: py-spy dump --nonblocking --pid PID",
		Source:  "NCCL's src/ras/client_support.cc: MISMATCH, collective_counts",
	},
	{
		ID: "nccl.join", depth: waiting, Title: "A rank has not joined a communicator that others initialise",
		Sign:    "Some ranks wait in the first collective of a group, the others elsewhere.",
		For:     "NCCL's RAS has the communicator as INIT on other ranks, and this rank is not in it",
		Against: "all ranks are in it",
		Do:      "look at what that rank does instead: py-spy dump --nonblocking --pid PID",
		Source:  "NCCL's src/ras/client_support.cc: NOCOMM",
	},
}

var mpiCauses = []Cause{
	{
		ID: "mpi.daemon", depth: absent, Title: "mpirun waits for a daemon",
		Sign:    "mpirun prints nothing, and no rank starts.",
		For:     "the ssh or srun that starts a daemon on a host is still there, and the daemon has not called back",
		Against: "the daemon's connection is established",
		Do:      "run that ssh by hand; open mpirun's ports from that host to this one",
		Source:  "children of mpirun, its listeners",
	},
}
