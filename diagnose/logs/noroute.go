package logs

// The kernel answers "No route to host" where a router or the other host says so, or where no host has the address. A
// process that has ended gives "Connection refused".
const noRoute = "(No route to host): the address is of an interface that the hosts do not share, that host is off, " +
	"or its firewall rejects the call; a rank that ended gives another answer"

// noRouteNeed is what decides between these.
func noRouteNeed(name string) []string {
	return []string{name + " of each node against ip -br addr: it must name the network that the nodes share",
		"ping and ip route get of that address from this node: where ping works, a firewall rejects the port (firewalld, " +
			"iptables -L: icmp-host-prohibited)", "does that host run"}
}

// noRouteCauses are calls that no host answers.
var noRouteCauses = []cause{
	{
		id: "log.nccl-bootstrap", grade: open, words: []string{"No route to host"},
		form: re(`[Cc]onnect(?:ing)? to (?P<peer>[\w.:%-]+)<(?P<port>\d+)> .*?(?P<why>No route to host)`),
		not:  []string{"NCCL INFO"},
		says: "NCCL of {who} has no way to {peer} " + noRoute,
		need: noRouteNeed("NCCL_SOCKET_IFNAME, or the line NCCL INFO Bootstrap,"),
		from: "NVIDIA/nccl socket.cc, Linux EHOSTUNREACH",
	}, {
		id: "log.gloo-mesh", grade: open, words: []string{"No route to host"},
		form: re(`gloo/transport/.*?(?:connect \[(?P<addr>[^\]]+)\]:\d+: No route|No route to host,? ` +
			`remote=\[(?P<addr>[^\]]+)\])`), not: []string{"willRetry=1"},
		says: "Gloo of {who} has no way to {addr} " + noRoute,
		need: noRouteNeed("GLOO_SOCKET_IFNAME, or the address of $(hostname),"),
		from: "pytorch/gloo transport/tcp, Linux EHOSTUNREACH",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, words: []string{"No route to host"},
		form: re(`connect to (?:\[::ffff:)?[\[(]?(?P<host>[\w.-]+)\]?(?:, |:)(?P<port>\d+)\)?.*errno: 113 - No route to ` +
			`host`),
		says: "{who} has no way to the store at {host} " + noRoute,
		need: noRouteNeed("MASTER_ADDR, and the address that its name has on this node (getent hosts),"),
		from: "torch TCPStore, Linux EHOSTUNREACH",
	}, {
		id: "log.mpi-tcp", grade: open, words: []string{"No route to host"},
		form: re(`connect\(\) to (?P<addr>[\w.:]+?)(?::\d+)? failed: No route to host`),
		says: "MPI of {who} has no way to {addr} " + noRoute,
		need: noRouteNeed("btl_tcp_if_include and oob_tcp_if_include (--mca, OMPI_MCA_*)"),
		from: "open-mpi/ompi btl_tcp_endpoint.c, Linux EHOSTUNREACH",
	},
	ownRoute(false, `NCCL WARN .*[Cc]onnect(?:ing)? to (?P<addr>[\w.:%-]+?)<\d+>.*?|`+
		`^socket\w+: Connect to (?P<addr>[\w.:%-]+?)<\d+>.*?|gloo/transport/.*?(?:connect \[(?P<addr>[^\]]+)\]:\d+: |`+
		`connect: )|connect\(\) to (?P<addr>[\w.:]+?)(?::\d+)? failed: `),
	ownRoute(true, `client socket .*connect to [\[(]?(?:::ffff:)?(?P<addr>[\w.:-]+?)\]?(?:, |:)\d+\)?.*errno: 101 - `),
}

// ownRoute returns the row of a call for which the kernel of the caller has no route at all; torch tries it again.
func ownRoute(soft bool, form string) cause {
	return cause{id: "log.wrong-interface", grade: family, soft: soft, words: []string{"Network is unreachable"},
		form: re(`(?:` + form + `)Network is unreachable`), not: []string{"NCCL INFO", "willRetry=1"},
		says: "{who} has no route to the address that another process gives[, {addr}]: it is of a network in which this " +
			"host is not",
		do: "on that host ip route get {addr} shows it; name the network that all hosts share, on all of them: " +
			"NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, --mca btl_tcp_if_include, and an address there as MASTER_ADDR; or bring " +
			"that interface up",
		need: []string{"ip -br addr and ip route of both hosts, in the job's container"},
		from: "Linux ENETUNREACH"}
}
