package diagnose

var processCauses = []Cause{
	{
		ID: "rank.stopped", depth: onTheSpot, Title: "A process is stopped",
		Sign:    "All other ranks wait in init_process_group or in a collective; nothing is printed.",
		For:     "its state is T",
		Against: "its state is S or R, even if nothing moves",
		Do:      "on its node: kill -CONT PID, which continues it; or end the job and start again",
		Source:  "proc_pid_status(5), State",
	},
	{
		ID: "rank.traced", depth: onTheSpot, Title: "A debugger holds a process",
		Sign:    "All other ranks wait in init_process_group or in a collective; nothing is printed.",
		For:     "its state is t, and TracerPid names the debugger",
		Against: "TracerPid is 0",
		Do:      "let the debugger continue it or detach",
		Source:  "proc_pid_status(5), TracerPid",
	},
	{
		ID: "rank.frozen", depth: onTheSpot, Title: "A control group holds a process",
		Sign:    "All other ranks wait in init_process_group or in a collective; the rank is in state D, or in S.",
		For:     "the freezer of its control group says so, or all its threads are in state D and wait for no I/O",
		Against: "the group is not frozen",
		Do:      "thaw the group: echo 0 > cgroup.freeze (version 1: echo THAWED > freezer.state); docker unpause",
		Source:  "cgroup.events and freezer.state; /proc/PID/wchan: do_freezer_trap, __refrigerator",
	},
	{
		ID: "rank.storage", depth: onTheSpot, Title: "A process waits for a file system",
		Sign: "The rank cannot be killed; df and ls hang on the same mount.",
		For: "its main thread waits in FUSE, NFS or a block device, and has not gone on for seconds; or it tries again and " +
			"again, and a path that it names gives ESTALE, EIO, ENOTCONN or ETIMEDOUT",
		Against: "bytes are read, a file's position moves, or its main thread goes on: then the file system is slow",
		Do:      "repair or remount the file system on that node; touch no path there until then",
		Source:  "/proc/PID/wchan: request_wait_answer, rpc_wait_bit_killable, percpu_rwsem_wait (frozen)",
	},
	{
		ID: "rank.memory", depth: onTheSpot, Title: "A process waits for memory",
		Sign:    "The rank is in state D, and no storage is slow; nothing is killed.",
		For:     "its control group is full, and the OOM killer of the group is off",
		Against: "it waits elsewhere",
		Do: "raise the memory limit of its control group, or let the kernel end a process: " +
			"echo 0 > memory.oom_control   # of that group",
		Source: "mem_cgroup_oom_synchronize in /proc/PID/wchan (Linux mm/memcontrol.c)",
	},
	{
		ID: "node.starved", depth: onTheSpot, Title: "A node gets almost no processor time",
		Sign:    "All others wait for one node, which is slow in all that it does; its calls time out.",
		For:     "a quota holds its control group for most of the time",
		Against: "the group has had more than half a processor, or is not held",
		Do: "raise the quota (Kubernetes: resources.limits.cpu; docker run --cpus; systemd: CPUQuota=), or start the job " +
			"outside it",
		Source: "cpu.stat of the control group, twice",
	},
	{
		ID: "node.frozen", depth: onTheSpot, Title: "The processes of a node do not run",
		Sign:    "The job stops in the middle, and no process of one node prints anything.",
		For:     "its kernel takes connections, and launch there does not even greet",
		Against: "a process there answers",
		Do:      "look at that machine: is it paused (a virtual machine), stopped, or out of memory? launch doctor   # there",
		Source:  "a connection to launch's own port there",
	},
	{
		ID: "rank.vfork", depth: onTheSpot, Title: "A process waits for a child that does not execute",
		Sign:    "The rank is in state D, and no storage is slow.",
		For:     "its state is D in kernel_clone",
		Against: "it waits elsewhere",
		Do:      "end the child that hangs between vfork and exec",
		Source:  "vfork(2)",
	},
	{
		ID: "rank.lock", depth: onTheSpot, Title: "A rank is blocked on a lock of its own",
		Sign:    "The rank neither computes nor reads, and never reaches the next call of torch.distributed.",
		For:     "all its threads, but those of torch, NCCL and CUDA, wait on futexes, outside of init and collectives",
		Against: "a thread waits for something else or with a time limit, or its CPU time grows",
		Do:      "look at the line of the stack; start DataLoader workers with spawn or forkserver",
		Source:  "/proc/PID/task/*/wchan: futex_do_wait",
	},
	{
		ID: "rank.child", depth: onTheSpot, Title: "A rank waits for a process of its own that can do nothing more",
		Sign: "All other ranks wait for one rank, which waits for a queue, a lock, a pool or a program that it has started.",
		For: "what its main thread waits for, only processes of its own can do: followed from one to the next, each has " +
			"ended, or waits for another of them, or for a thread that it does not have",
		Against: "one of them works, sleeps, waits with a time limit, or waits for another machine",
		Do:      "look at what the rank has printed: an error of that process is there, unless a signal has ended it",
		Source: "/proc/PID/task/*/syscall; the other ends of pipes and unix sockets (sock_diag(7)); zombies, whose " +
			"exit_code in proc_pid_stat(5) has the signal",
	},
	{
		ID: "rank.events", depth: onTheSpot, Title: "A rank waits for events that nothing can send",
		Sign: "The rank is in the event loop of asyncio, and uses no processor time.",
		For: "its epoll set has only pipes or sockets of which it alone has the other end, there is no time limit, and " +
			"its other threads do not run",
		Against: "the set has a connection or a timer, or the wait a time limit",
		Do: "a task has ended with an error that no code waits for, or was never started: PYTHONASYNCIODEBUG=1 shows " +
			"which; await each task, or look at its result in a callback",
		Source: "/proc/PID/fdinfo of the epoll set; /proc/PID/syscall",
	},
	{
		ID: "rank.failed", depth: onTheSpot, Title: "A rank has failed and does not end",
		Sign: "A traceback in one log; its process remains.",
		For: "Python's main thread is in threading._shutdown, or the log ends with a traceback, or the kernel writes its " +
			"core (CoreDumping of /proc/PID/status)",
		Against: "the main thread is in the script",
		Do:      "repair the error in its log; make background threads daemons so that the process ends",
		Source:  "threading._shutdown of CPython joins threads that are no daemons",
	},
	{
		ID: "rank.gil", depth: onTheSpot, Title: "A thread of a rank prevents the others from running Python",
		Sign:    "All ranks wait in a collective, and nothing is retransmitted.",
		For:     "a thread holds Python's global interpreter lock (GIL) and sleeps in the kernel; the main one waits for it",
		Against: "the thread runs, or has given the lock away; what it waits for may still arrive",
		Do: "look at what that line calls: native code that waits has to release the GIL first (Py_BEGIN_ALLOW_THREADS; " +
			"ctypes.CDLL, not PyDLL); end the job",
		Source: "py-spy dump --json: owns_gil; /proc/PID/task/TID/syscall",
	},
	{
		ID: "rank.thread", depth: onTheSpot, Title: "A rank has left its script, and a thread remains",
		Sign:    "The other ranks have ended, or wait in a collective; its process remains.",
		For:     "Python's main thread is in threading._shutdown, and no error is seen",
		Against: "the main thread is in the script",
		Do: "look at the last lines of that rank, for an error; end the thread on all ways out of the script, as by " +
			"close(), or make it a daemon: Thread(daemon=True); then end this process: kill PID",
		Source: "threading._shutdown of CPython joins threads that are no daemons",
	},
	{
		ID: "agent.stopped", depth: onTheSpot, Title: "torchrun is stopped",
		Sign:    "The ranks of one node are missing, or the store does not answer.",
		For:     "the state of its torchrun is T",
		Against: "its state is S",
		Do:      "on its node: kill -CONT PID, which continues it; or end the job and start again",
		Source:  "proc_pid_status(5), State",
	},
	{
		ID: "rank.gone", depth: absent, Title: "A rank has ended or was never started",
		Sign:    "All other ranks wait in init_process_group.",
		For:     "its key is missing in the store, and its node has no such process",
		Against: "its process exists",
		Do:      "look at the end of its log on that node",
		Source:  "key /default_pg/0//cpu//0/RANK",
	},
	{
		ID: "rank.absent", depth: waiting, Title: "A rank has not reached init_process_group",
		Sign:    "All other ranks wait in init_process_group.",
		For:     "its key is missing in the store while others have theirs",
		Against: "the key is there",
		Do:      "run launch doctor on that node",
		Source:  "key /default_pg/0//cpu//0/RANK",
	},
	{
		ID: "rank.before-init", depth: waiting, Title: "A rank does something else before init_process_group",
		Sign: "All other ranks wait in init_process_group.",
		For: "its process is there, has no thread of Gloo or NCCL, and does not move; of a program without torch, it " +
			"has no connection to the others, or is another program",
		Against: "CPU time, bytes read or children change: then it is slow",
		Do:      "look at what it waits for: py-spy dump --nonblocking --pid PID",
		Source:  "thread gloo_tcp_loop is missing",
	},
	{
		ID: "rank.working", depth: waiting, Title: "A rank is slow",
		Sign:    "All other ranks wait, and one node computes, reads or compiles.",
		For:     "its CPU time, the bytes it has read, its memory or its children change",
		Against: "nothing of it moves for seconds",
		Do:      "wait, or look at why that node is slower",
		Source:  "/proc/PID/stat, /proc/PID/io over two samples",
	},
	{
		ID: "rank.spins", depth: waiting, Title: "A rank spins at one line",
		Sign: "All other ranks wait, and one uses a core for minutes, or asks one address again and again.",
		For: "two looks, --hang-after apart: its stack has the same line and it uses one core, or it is in the same " +
			"function, waits or sleeps there and asks one address; it reads nothing and does not grow, and no byte moves " +
			"between ranks",
		Against: "its stack is elsewhere, it reads or grows",
		Do:      "look at the line of the stack: a loop that polls never ends, a computation does",
		Source:  "py-spy and /proc/PID in two looks; only launch itself looks twice",
	},
}
