package diagnose

// Cause is one reason why a job does not go on. The IDs are stable.
type Cause struct {
	ID    string
	Title string // of the page of causes
	// Sign is what a person sees who looks without launch.
	Sign string
	// For is the evidence that decides, Against what speaks against it.
	For, Against string
	Do           string // the fix where the verdict has no better one
	Source       string // where the evidence was seen, or which line of a library prints it
	depth        int
}

// The depths of causes: a cause explains every deeper number that concerns the same ranks or nodes.
const (
	onTheSpot = 1 // seen in a process, a socket or the numbers of two nodes
	absent    = 2 // somebody is not there, and the store or a node says so
	waiting   = 3 // a rank has not done what others wait for; the reason is not known
	guess     = 4 // what remains where nothing else was found
)

// Causes is the table of causes, in the order of the manual.
func Causes() []Cause {
	var all []Cause
	for _, group := range [][]Cause{processCauses, meetingCauses, storeCauses, pathCauses, collectiveCauses,
		ncclCauses, mpiCauses} {
		all = append(all, group...)
	}
	return all
}

// Find returns the cause with this ID.
func Find(id string) (Cause, bool) {
	for _, c := range Causes() {
		if c.ID == id {
			return c, true
		}
	}
	return Cause{}, false
}

var meetingCauses = []Cause{
	{
		ID: "launch.waits", depth: absent, Title: "launch has not started its command",
		Sign:    "No torchrun and no rank runs yet; launch prints what it waits for.",
		For:     "launch runs, and has not become its command",
		Against: "a torchrun or a rank of the job runs",
		Do:      "launch status --store HOST names the nodes that are missing",
		Source:  "processes of this node",
	},
	{
		ID: "node.missing", depth: absent, Title: "A node has not joined",
		Sign:    "torchrun prints nothing on the nodes that are there.",
		For:     "the store's init/ is below the number of nodes, and its role_info is missing",
		Against: "its role_info is there",
		Do:      "start the command on that node with the same line, or look at why it ended there",
		Source:  "keys init/ and role_info/NODE; c10d: the state's participants",
	},
	{
		ID: "node.ended", depth: onTheSpot, Title: "The command of a node has ended",
		Sign:    "A traceback on one node; the others are silent.",
		For:     "the node has written role_info, and holds no connection to the store any more; its launch is gone",
		Against: "a connection of it to the store exists",
		Do:      "look at the end of the log on that node; end the job on the others and start again",
		Source:  "key role_info/NODE, sockets of the store's process",
	},
	{
		ID: "node.duplicate", depth: onTheSpot, Title: "Two nodes have the same node rank",
		Sign:    "torchrun prints nothing, on all nodes.",
		For:     "two torchruns have the same --node-rank",
		Against: "all node ranks differ",
		Do:      "give each node its own --node-rank, 0 to N-1",
		Source:  "command lines; init/ complete while a role_info is missing",
	},
	{
		ID: "nnodes.differ", depth: onTheSpot, Title: "Nodes expect different numbers of nodes",
		Sign:    "torchrun prints nothing on the nodes that are there.",
		For:     "the --nnodes of two torchruns differ",
		Against: "they are equal",
		Do:      "use the same --nnodes on all nodes",
		Source:  "command lines",
	},
	{
		ID: "rdzv.ids-differ", depth: onTheSpot, Title: "Nodes use different rendezvous ids",
		Sign:    "torchrun prints nothing, on all nodes.",
		For:     "the store holds two incomplete rendezvous",
		Against: "there is one, or each is complete",
		Do:      "use the same --rdzv-id on all nodes",
		Source:  "keys torch.rendezvous.ID",
	},
	{
		ID: "world.differs", depth: onTheSpot, Title: "Ranks believe in different world sizes",
		Sign:    "All ranks wait in init_process_group, and all keys are there.",
		For:     "the lengths of the ranks' addresses in the store, or their WORLD_SIZE, differ",
		Against: "they are equal",
		Do:      "set the same WORLD_SIZE for all ranks",
		Source:  "Gloo's address blob: one u64 per rank at its end",
	},
	{
		ID: "world.counted", depth: onTheSpot, Title: "Scripts that start their ranks count other numbers of them",
		Sign: "All ranks wait in init_process_group; a script has started them, by multiprocessing.",
		For: "the nodes have other numbers of ranks below the script, and their calls of init_process_group other " +
			"values of world_size",
		Against: "the calls have the same world_size",
		Do:      "give the script the same number on every node, or compare what it counts: taskset -p PID; nvidia-smi -L",
		Source:  "the variables rank and world_size of init_process_group, by py-spy",
	},
	{
		ID: "world.larger", depth: onTheSpot, Title: "The script wants more ranks than were started",
		Sign:    "All ranks wait in init_process_group, and none is missing.",
		For:     "all ranks of WORLD_SIZE wait in init_process_group, and have published addresses for a larger world",
		Against: "a rank has not reached the store",
		Do:      "leave rank and world_size out of init_process_group, so that it takes those of the environment",
		Source:  "lengths of the keys /default_pg/0//cpu//0/RANK; rank 0 of env:// counts the clients of its store",
	},
	{
		ID: "rank.duplicate", depth: onTheSpot, Title: "Two processes have the same RANK",
		Sign:    "All other ranks wait in init_process_group.",
		For:     "two processes have the same RANK; or all ranks wait for keys, and the key of one is missing",
		Against: "every RANK is there once",
		Do:      "give each process its own RANK, 0 to WORLD_SIZE-1",
		Source:  "/proc/PID/environ; keys /default_pg/0//cpu//0/RANK",
	},
}

var storeCauses = []Cause{
	{
		ID: "store.refused", depth: absent, Title: "No process listens at the store's address",
		Sign:    "Ranks sleep between tries; torch prints nothing for a minute or more.",
		For:     "MASTER_ADDR:MASTER_PORT refuses connections",
		Against: "the store answers",
		Do:      "start the command on the node that MASTER_ADDR names (node rank 0), or correct the address",
		Source:  "ECONNREFUSED",
	},
	{
		ID: "store.elsewhere", depth: onTheSpot, Title: "Rank 0 hosts no store where the others are sent",
		Sign:    "All ranks sleep between tries; each may try an address of its own machine.",
		For:     "rank 0 listens elsewhere, MASTER_ADDR:MASTER_PORT refuses, and another rank in init does not call rank 0",
		Against: "the store answers, or rank 0 has not begun",
		Do:      "leave init_method, MASTER_ADDR and MASTER_PORT out of the script: launch sets both for all ranks",
		Source:  "ECONNREFUSED, and the sockets of rank 0",
	},
	{
		ID: "store.dropped", depth: onTheSpot, Title: "Packets to the store are dropped",
		Sign:    "torchrun prints nothing on the nodes that are there.",
		For:     "SYN to MASTER_ADDR:MASTER_PORT was sent several times without an answer",
		Against: "the connection is established",
		Do:      "open that port in the firewall between the nodes, or repair the route",
		Source:  "tcp_info: SYN-SENT with retransmissions",
	},
	{
		ID: "store.stopped", depth: onTheSpot, Title: "The store's process is stopped",
		Sign:    "All nodes are silent, without any time limit.",
		For:     "the state of the process that listens is T, or its queue of connections grows",
		Against: "the store answers",
		Do:      "on its node: kill -CONT PID, which continues it; or end the job and start again",
		Source:  "/proc/PID/status; Recv-Q of the listener",
	},
	{
		ID: "store.silent", depth: onTheSpot, Title: "Something that does not answer holds the store's port",
		Sign:    "The port is open, and torch waits without a time limit.",
		For:     "connections are accepted, and no byte comes back",
		Against: "the store answers",
		Do:      "look at which process listens there (ss -ltnp), end it, or choose another MASTER_PORT",
		Source:  "tcp_info: 10 bytes sent, none received",
	},
	{
		ID: "store.foreign", depth: onTheSpot, Title: "Another job's store holds the port",
		Sign:    "torchrun of node 0 ends with EADDRINUSE; the others are silent.",
		For:     "the keys of the store, or the process that listens, are another job's",
		Against: "the listener is this job's node 0",
		Do:      "end the other job, or choose another MASTER_PORT",
		Source:  "role_info with another local_world_size; the listener's command line",
	},
	{
		ID: "store.name", depth: onTheSpot, Title: "The store's name has no address on a node",
		Sign:    "torch or launch retries the name lookup; other nodes are silent.",
		For:     "MASTER_ADDR, or the name of launch's own store, does not resolve on that node",
		Against: "it resolves",
		Do:      "use an address or a name that all nodes resolve",
		Source:  "getaddrinfo(3); what launch answers about its wait",
	},
}

var pathCauses = []Cause{
	{
		ID: "address.loopback", depth: onTheSpot, Title: "A rank has published a loopback address",
		Sign:    "One node fails with a connection to 127.x; the other is silent.",
		For:     "the address of a rank in the store is 127.x, and ranks of other hosts need it",
		Against: "all ranks are on one host",
		Do:      "set GLOO_SOCKET_IFNAME to the interface of the network, or give the host name its real address",
		Source:  "Gloo's address blob",
	},
	{
		ID: "address.unreachable", depth: onTheSpot, Title: "A rank has published an address that others cannot reach",
		Sign:    "All ranks wait in init_process_group, and all keys are there.",
		For:     "SYN to the published address stays unanswered, and its node is reached at another one",
		Against: "the address is the one by which the node reaches the store",
		Do:      "set GLOO_SOCKET_IFNAME on that node to the interface of the common network",
		Source:  "Gloo's address blob against the sockets to the store",
	},
	{
		ID: "mesh.dropped", depth: onTheSpot, Title: "Packets between ranks are dropped",
		Sign:    "All ranks wait in init_process_group, and all keys are there; Gloo is silent for up to 2.5 hours.",
		For:     "SYN to the port of a rank was sent several times without an answer, and the store is reached",
		Against: "the connection is established",
		Do:      "open the ephemeral ports (sysctl net.ipv4.ip_local_port_range) between the nodes",
		Source:  "tcp_info: SYN-SENT with retransmissions; gloo: 5 times the group's timeout",
	},
	{
		ID: "mesh.incomplete", depth: waiting, Title: "Connections between ranks are missing",
		Sign:    "All ranks wait in init_process_group, and all keys are there.",
		For:     "a rank has fewer connections than other ranks, and all keys are there",
		Against: "each pair of ranks has a connection",
		Do:      "run launch doctor on the other node too: the direction that is blocked shows there",
		Source:  "sockets against the addresses in the store",
	},
	{
		ID: "path.lost", depth: onTheSpot, Title: "A node is not reached any more",
		Sign: "The job stops in the middle; no error for 15 minutes and more.",
		For: "data is retransmitted without an answer, and nothing else of that host answers. Where a third node reaches " +
			"both ends, it is no cable: what has arrived at one end shows which direction is lost",
		Against: "the same host answers on another connection",
		Do:      lostFix,
		Source:  "tcp_info: backoff, unacked, and the bytes at both ends; ARP; what a third node passes on",
	},
	{
		ID: "path.here", depth: onTheSpot, Title: "Packets do not leave a node, or are not taken",
		Sign: "Connections of one node fail, or stop in the middle; the network and the other nodes are sound.",
		For: "the node's own kernel refuses a call; or data waits, nothing counts as sent, and the other end takes more; " +
			"or packets get lost and the node shows why: IPsec, rp_filter, no answers by ARP, its own queue, a router that " +
			"does not exist, a firewall without an entry for the connection",
		Against: "data was sent and is not acknowledged",
		Do:      "ip rule; ip route; nft list ruleset; iptables -L OUTPUT -v; tc -s qdisc   # on that node",
		Source: "the error of connect(2), which is EINVAL for a blackhole route; tcp_info: backoff, 0 unacked, send queue; " +
			"ip xfrm policy; /proc/net/xfrm_stat; /proc/net/netstat; sysctl net.ipv4.conf; the kernel's table of connections",
	},
	{
		ID: "path.stale", depth: onTheSpot, Title: "A connection is dead that was open",
		Sign:    "The job ran, was still for minutes (a checkpoint), and then hangs.",
		For:     "a connection's data is retransmitted without an answer while a new one takes long messages",
		Against: "nothing of that host answers, or new connections do not take long messages either",
		Do: "raise the time and size after which the firewall or NAT between drops a connection, or take it out of the " +
			"job's way",
		Source: "tcp_info: backoff; a new connection between the companions",
	},
	{
		ID: "path.new", depth: onTheSpot, Title: "No new connection gets to a node",
		Sign:    "The job trains on until it makes a new group, as for a checkpoint, and then hangs.",
		For:     "a rank's call was sent three times more without an answer, and launch's own calls have no answer either",
		Against: "launch's own calls open: then it is one port",
		Do:      "look at the filters of both nodes, and at limits on new connections",
		Source:  "tcp_info: SYN-SENT with retransmissions; new connections between the companions",
	},
	{
		ID: "path.loss", depth: onTheSpot, Title: "A path loses packets",
		Sign:    "The job is slow by far, or stops for seconds each time.",
		For:     "packets are retransmitted again and again, and long ones arrive at times",
		Against: "no long packet arrives, or no packet at all",
		Do:      "ethtool -S IFACE on both nodes: errors, a duplex of half; change the cable or the port of the switch",
		Source:  "tcp_info: retransmissions; datagrams and a new connection between the companions",
	},
	{
		ID: "path.mtu", depth: onTheSpot, Title: "Long packets vanish",
		Sign:    "Everything connects; the first large tensor hangs.",
		For:     "large data is retransmitted without an answer while the same host answers short messages",
		Against: "nothing of that host answers",
		Do:      "set the same MTU on all interfaces and switches of the path, or allow ICMP fragmentation needed",
		Source:  "tcp_info: backoff with a full send queue",
	},
}
