package peers

import (
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight"
)

// Checks returns the checks that Decide makes once all nodes have joined: without Run, since the nodes post.
func Checks() []preflight.Check {
	return slices.Concat(pathChecks(), nodeChecks(), lineChecks(), sameChecks())
}

// pathChecks judge the calls between the nodes.
func pathChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "peer.reach", Title: "the nodes reach each other over the address of each, in both directions",
		Doc: "Every rank connects to others, on ports that the kernel chooses. Where a firewall is between two nodes, the " +
			"job times out many minutes later.",
	}, {
		ID: "peer.token", Title: "all nodes have the same LAUNCH_TOKEN", Doc: "The other nodes refuse a node without it.",
	}, {
		ID: "peer.identity", Title: "the node that has an address answers at it",
		Doc: "Ranks reach the wrong node at an address that two machines have, or where a proxy answers.",
	}, {
		ID: "peer.large", Title: "long messages arrive as short ones do",
		Doc: "Where packets of full size vanish, the ranks connect, and the first large collective hangs.",
	}, {
		ID: "peer.mtu", Title: "packets of full size arrive between the nodes",
		Doc: "TCP adapts with smaller segments; RDMA over the same network does not.",
	}, {
		ID: "peer.loss", Title: "few packets between the nodes are lost",
		Doc: "TCP hides lost packets and waits before it sends them again. Where a call sent anything twice, it sends 200 " +
			"small packets more and counts the lost ones.",
	}, {
		ID: "peer.connect", Title: "new connections between the nodes are answered at once",
		Doc: "A limit on new connections, or a full connection table, drops the first packets of connections while those " +
			"of open ones pass. Each call opens a dozen further connections. Those that do not open are tried again; where " +
			"others fail then, it is a failure.",
	}, {
		ID: "peer.flows", Title: "connections between the nodes get through whatever their ports",
		Doc: "Switches and bonds spread connections over several paths by their ports. Where one path is dead, a constant " +
			"share of the connections never opens. The dozen connections of peer.connect are tried again from the same ports.",
	}, {
		ID: "peer.slow", Title: "the network path between two nodes is not slow",
		Doc: "A long message is timed, without the time in which a process did not read or write. It is too short to find " +
			"more than a very slow path; `launch bench` measures speeds. A device that takes TCP's window scaling out " +
			"of the connections in one direction is found as such.",
	}}
}

// nodeChecks judge clocks, names, other addresses and numbers of processes.
func nodeChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "peer.clock", Title: "the wall clocks of the nodes agree",
		Doc: "Certificates, file times and logs of several nodes need equal clocks.",
	}, {
		ID: "peer.name", Title: "the name of each node leads to it",
		Doc: "launch gives the job addresses, but ssh, Ray or the job's own code use names. They miss a node whose name is " +
			"unknown or another node's. Each node looks up those of at most four others; where few are known, the check is " +
			"a skip.",
	}, {
		ID: "peer.port", Title: "the port of the job's own store answers on node rank 0, to every node",
		Doc: "launch holds the port that MASTER_PORT will name, and answers there until the start. Where a firewall closes " +
			"this port alone, the ranks wait for rank 0 for minutes.",
	}, {
		ID: "peer.beside", Title: "the nodes reach each other at the addresses where NCCL and Gloo wait",
		Doc: "A library that uses another interface, or several, hangs where only the node's own address is open. Where " +
			"NCCL would do so by its own choice, launch leaves the other interfaces out.",
	}, {
		ID: "peer.fast", Title: "the job's data goes over the fastest network that all nodes have",
		Doc: "Without RDMA, NCCL and Gloo use the network of the nodes' addresses. Where each node also has one that is at " +
			"least twice as fast, the nodes call each other there, and use it if every call gets through.",
	}, {
		ID: "peer.rails", Title: "each RoCE rail reaches the same rail of the other nodes",
		Doc: "RDMA over Ethernet needs a route for each rail. NCCL connects rail to rail, and hangs or fails where one has " +
			"no path, although the nodes' own addresses reach each other. Where a rail reaches only the same rail of other " +
			"nodes, launch sets NCCL_CROSS_NIC=0.",
	}, {
		ID: "same.role", Title: "the roles of the nodes go together (--role, --after)",
		Doc: "Either all nodes have a role, or none. A role that a node waits for must be there, and must not wait for " +
			"that node's.",
	}, {
		ID: "same.nproc", Title: "the nodes have the same number of processes",
		Doc: "Programs that split work by node go wrong where the ranks are unevenly spread.",
	}}
}

// lineChecks compare the command lines, and what the commands find.
func lineChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "same.command", Title: "the nodes run the same command",
		Doc: "Ranks that run different programs wait for each other's collectives.",
	}, {
		ID: "same.script", Title: "the script has the same content on all nodes",
		Doc: "Ranks that run different versions of a program wait in different collectives.",
	}, {
		ID: "same.modules", Title: "the modules that the script imports have the same content on all nodes",
		Doc: "Compared are those of its own folder, of PYTHONPATH and of folders that it adds to sys.path, outside of " +
			"site-packages: the first ones by the imports that the text names.",
	}, {
		ID: "same.packages", Title: "installed packages that the script imports have the same versions on all nodes",
		Doc: "Compared are those that the texts of the script and of its modules name, by their metadata, else by the file " +
			"that an import runs first.",
	}, {
		ID: "same.dir", Title: "a relative path that the script reads is there on all nodes, or in one working directory",
		Doc: "A rank that finds no checkpoint where it was started begins at step 0, while the others resume.",
	}, {
		ID: "same.noexec", Title: "libraries may be loaded from the same folders on all nodes",
		Doc: "Extensions of torch and kernels of Triton are built in folders for temporary files and caches. Where one " +
			"node mounts such a folder noexec, its ranks die.",
	}, {
		ID: "same.counted", Title: "a script that starts a rank for each processor or GPU finds as many on all nodes",
		Doc: "By torch.multiprocessing, for example. Affinities differ where a scheduler, taskset or a container limits " +
			"one node.",
	}, {
		ID: "same.restarts", Title: "the nodes have the same --restarts",
		Doc: "A node that has already executed its command cannot start it again with the others.",
	}, {
		ID: "same.launch", Title: "the nodes run the same launch", Doc: "A much older one misreads what the others post.",
	}}
}

// sameChecks compare the hardware and software of the nodes.
func sameChecks() []preflight.Check {
	out := []preflight.Check{{
		ID: "same.machine", Title: "no machine has the place of two, while others have one each",
		Doc: "A line that is typed twice on one machine takes two places, and the machine that starts last is refused. " +
			"Nodes whose ranks, roles or GPUs differ by choice are not compared.",
	}, {
		ID: "same.gpu.owner", Title: "no two nodes use one GPU",
		Doc: "Two containers or two starts on one machine may see the same GPUs. NCCL refuses two ranks on one GPU " +
			"(\"Duplicate GPU detected\").",
	}}
	out = append(out, preflight.Check{ID: "same.hostid", Title: "NCCL takes no two machines for one",
		Doc: "NCCL takes ranks with the same NCCL_HOSTID for those of one machine, and where none is set, ranks with the " +
			"same host name and boot id (getHostHash in its src/misc/utils.cc). Copies of a running virtual machine have " +
			"both in common. NCCL then refuses their GPUs as duplicates, or tries shared memory between machines."},
		preflight.Check{ID: "same.guid", Title: "no two machines have an InfiniBand GUID in common",
			Doc: "A subnet manager distinguishes cards and ports by their GUIDs. Virtual functions of different machines may " +
				"be given the same one."})
	for _, r := range traitRules() {
		out = append(out, preflight.Check{ID: r.id, Title: "all nodes have the same " + r.title,
			Doc: sentence(r.breaks)})
	}
	for _, r := range loadRules() {
		c := preflight.Check{ID: r.id, Title: r.title + " is the same on all nodes"}
		var effects []string
		for _, o := range r.outcomes {
			if o.status == finding.Skip {
				continue
			}
			text := o.breaks
			if len(r.outcomes) > 1 {
				text = string(o.status) + ": " + text
			}
			if o.source != "" {
				text += " (" + o.source + ")"
			}
			effects = append(effects, text)
		}
		c.Doc = sentence(strings.Join(effects, "; "))
		out = append(out, c)
	}
	return append(out, preflight.Check{
		ID: "same.env", Title: "settings that must be equal are the same on all nodes",
		Doc: "Ranks that disagree about their messages or their network hang or fail in the first collective.",
	})
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// NotJudged returns the IDs of Checks that the user has switched off.
func NotJudged(o preflight.Options) []string {
	var out []string
	for _, c := range Checks() {
		if slices.Contains(o.Skip, c.ID) || len(o.Only) > 0 && !slices.Contains(o.Only, c.ID) {
			out = append(out, c.ID)
		}
	}
	return out
}
