package logs

import "strings"

// spaced returns the name of an error as text: "Get_Socket" is "Get Socket".
func spaced(name string) string { return strings.TrimSpace(strings.ReplaceAll(name, "_", " ")) }

// hcclHead is what HCCL writes between the code of an error and its text.
const hcclHead = `(?:\[PID: ?\d+\] )?(?:\d{4}-\d\d-\d\d-[\d.:]+ )?`

// What to do where HCCL cannot listen on a port.
const hcclPorts = "end the old processes on that host; where several processes share an NPU or a host, give " +
	"each its own " +
	"ports: HCCL_IF_BASE_PORT (host, 60000 and up), HCCL_NPU_SOCKET_PORT_RANGE and HCCL_HOST_SOCKET_PORT_RANGE " +
	"(16666 and up)"

// hccl returns a row for codes of HCCL's errors, as in "EI0004: …" and "TITLE(EI0004): …".
func hccl(id string, grade grade, codes []string, says, do string, need ...string) cause {
	return cause{id: id, grade: grade, words: codes,
		form: re(`\b(?:` + strings.Join(codes, "|") + `)\)?: *` + hcclHead + `(?P<why>.+)`),
		says: says, do: do, need: need, from: "CANN, errors of HCCL"}
}

// hcclCauses are errors of Ascend's HCCL, by their codes.
var hcclCauses = []cause{
	{
		id: "log.hccl-peers", grade: waits, words: []string{"LinkInfo", "LINK_ERROR_INFO"},
		form: re(`\| *(?P<dest>[\da-fA-F.:]+)\((?P<missing>\d{1,7})\) *\| *\d+ *\| ` +
			`*(?P<src>[\da-fA-F.:]+)\((?P<rank>\d{1,7})\) *` +
			`\| *\d+ *\| *\w+ *\| *(?P<state>[a-z][a-z ]*?) *\|`),
		test: func(v map[string]string) bool { return v["state"] != "connected" && v["state"] != "success" },
		says: "HCCL has no link between {who} ({src}) and rank {missing} ({dest}): {state}",
		need: []string{"the output of rank {missing}: did it end, never start, or begin its first collective later",
			"on both nodes: hccn_tool -i N -link -g, -ip -g, -tls -g and -net_health -g, and a ping between the two addresses " +
				"(hccn_tool -i N -ping -g address {dest})",
			"HCCL_CONNECT_TIMEOUT of all ranks (120 s where it is not set): is it longer than the start of the slowest rank"},
		from: "hccl hccl_socket_manager.cc",
	}, {
		id: "log.hccl-peers", grade: waits, words: []string{"EI0006", "Getting socket times out",
			"wait socket establish timeout"},
		form: re(`\bEI0006\b(?:.*?(?:remote|peer) ?rank: ?\[?(?P<missing>\d{1,7})\b)?|socket (?:times out|establish ` +
			`timeout)`),
		says: "HCCL of {who} got no connection to another rank[, rank {missing},] within HCCL_CONNECT_TIMEOUT",
		need: []string{"the output of the other ranks: did one end, never start, or begin its first collective later",
			"HCCL_CONNECT_TIMEOUT of all ranks (120 s where it is not set): is it longer than the start of the slowest rank",
			"is the NPU's port up, and the other one's reachable: hccn_tool -i N -net_health -g, -tls -g"},
		from: "CANN, errors of HCCL",
	}, {
		id: "log.hccl-peers", grade: waits, words: []string{"EI0002", "task timeout occurred",
			"has not received the Notify record from remote rank", "Notify register waits for execution"},
		form: re(`(?:(?:remote|peer) rank: ?\[?(?P<missing>\d{1,7})\b)|\bEI0002\)?:|task timeout occurred|Notify re`),
		says: "HCCL of {who} waited in a collective for another rank in vain[: {missing}]",
		need: []string{"the output of the other ranks: did one end, hang, or get fewer samples than the others",
			"HCCL_EXEC_TIMEOUT of all ranks: is it longer than the slowest rank needs (compiling, a checkpoint)",
			"is the NPU's port up, and the other one's reachable: hccn_tool -i N -net_health -g"},
		from: "CANN, errors of HCCL",
	}, {
		id: "log.port-in-use", grade: decisive, words: []string{"EI0019", "EI0020", "EJ0003", "Failed to bind the IP port"},
		form: re(`\b(?:EI0019|EI0020|EJ0003)\)?:(?:.*?address (?P<addr>[\da-fA-F.:]+) and port:? ?(?P<port>\d+))?|` +
			`Failed to bind the IP port`),
		later: []string{"listen start failed, port["},
		more:  re(`listen start failed, port\[(?P<port>\d+)\]`),
		says: "HCCL of {who} cannot listen on its port[ ({port})][ of the address {addr}]: another process uses it, as a " +
			"rule one of an earlier run",
		do: hcclPorts, from: "CANN, errors of HCCL",
	}, {
		id: "log.port-in-use", grade: family, words: []string{"and specific port[", "listen start failed, port["},
		form: re(`listen on ip\[(?P<addr>[^\]]*)\] and specific port\[(?P<port>\d+)\] fail|` +
			`listen start failed, port\[(?P<port>\d+)\]`),
		says: "HCCL of {who} cannot listen on its port {port}[ of the address {addr}]: another process uses it, as a " +
			"rule one of an earlier run, or one that shares the NPU or the host",
		do: hcclPorts,
		need: []string{"ss -ltnp on that host, and npu-smi info: which processes use the NPU",
			"the HCCL_*_PORT* of all processes there"},
		from: "hccl hccl_socket.cc",
	}, {
		id: "log.hccl-link", grade: family, words: []string{"The network port is down"},
		form: re(`\b(?:EJ0002|EI0009)\)?:.*port is down`),
		says: "the network port of the NPU of {who} is down",
		do: "on that node: hccn_tool -i N -link -g and -optical -g for each NPU show the ports, the link and the module: " +
			"plug in or replace the module or the cable",
		need: []string{"hccn_tool -i N -link -g for each NPU of that node"},
		from: "CANN, errors of HCCP",
	}, {
		id: "log.hccl-transfer", grade: open, words: []string{"Create Dest error"},
		form: re(`EI0009\)?:.*Create Dest error(?:.*?dst_rank\[(?P<peer>\d+)\](?:.*?remote_ip_addr\[(?P<addr>[^\]]*)\])?)?`),
		says: "HCCL of {who} could not connect to another rank[, rank {peer}][ ({addr})]: that rank ended or failed " +
			"before, or the path between both NPUs does not work",
		need: []string{"the output of the other rank: its own error, or that it ended before",
			"on both nodes: hccn_tool -i N -link -g, -ip -g and -net_health -g", "the plog of both ranks"},
		from: "CANN, errors of HCCL",
	},
	hccl("log.hccl-setting", decisive, []string{"EI0001", "EI0003", "EI0016"},
		"HCCL of {who} refuses a setting or an argument: {why}",
		"correct or unset what it names (env | grep HCCL_). Of HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE only "+
			"one may be 1"),
	hccl("log.hccl-ranktable", decisive, []string{"EI0004", "EI0014", "EI0017"},
		"HCCL of {who} cannot use its rank table: {why}",
		"compare the file that RANK_TABLE_FILE names with the servers, devices and addresses (hccn_tool -i N -ip -g)"),
	hccl("log.collective-mismatch", decisive, []string{"EI0005"},
		"the ranks do not call the same collective, or not with the same arguments: {why}",
		"compare what the ranks call at this point, and the shapes of their tensors"),
	hccl("log.hccl-version", decisive, []string{"EI0008"},
		"the ranks use different versions of CANN or HCCL: {why}",
		"install the same version of CANN on all nodes and in all images"),
	hccl("log.oom", decisive, []string{"EI0011"},
		"HCCL of {who} gets no memory of its NPU: {why}",
		"end other processes of that NPU (npu-smi info), use a smaller batch, or lower HCCL_BUFFSIZE"),
	hccl("log.hccl-resources", family, []string{"EI0007"},
		"HCCL of {who} cannot allocate a resource: {why}",
		"end other processes of that NPU (npu-smi info), lower HCCL_BUFFSIZE, or make fewer groups of ranks",
		"npu-smi info of that node, and its plog"),
	hccl("log.hccl-setting", family, []string{"EJ0004"},
		"HCCL of {who} refuses an address: {why}",
		"compare HCCL_IF_IP, HCCL_SOCKET_IFNAME and the rank table with ip -br addr, and with hccn_tool -i N -ip -g",
		"ip -br addr and hccn_tool -i N -ip -g for each NPU of that node", "env | grep HCCL_ of a rank"),
	{
		id: "log.hccl-link", grade: family, words: []string{"EI0009", "EI0010"},
		form: re(`\b(?:EI0009|EI0010)\)?: *` + hcclHead + `(?P<why>.+)`),
		not:  []string{"Create Dest error"},
		says: "the NPU of {who} cannot reach another NPU: {why}",
		do: "on each node look at the link, the address and the health of the ports: hccn_tool -i N -link -g, -ip -g, " +
			"-net_health -g",
		need: []string{"hccn_tool -i N -link -g and -ip -g for each NPU of both nodes"},
		from: "CANN, errors of HCCL",
	}, {
		id: "log.hccl-transfer", grade: open, words: []string{"EI0012", "EI0013", "EI0018"},
		form: re(`\bEI001[238]\)?:(?:.*?(?:Remote rank: ?\[?(?P<rank>\d+)|Peer information: server (?P<peer>[\w.:-]+?),))?`),
		says: "a transfer of HCCL failed[ with the server {peer}] ({who}): the link between two NPUs broke, or the other " +
			"process ended before",
		need: []string{"the output of the other rank: did it end before", "hccn_tool -i N -link -g and -stat -g on both " +
			"nodes: errors and drops", "the plog of both ranks (error cqe)"},
		from: "CANN, errors of HCCL",
	}, {
		id: "log.ranks-missing", grade: waits, words: []string{"EI0015", "unconnected ranks: "},
		form: re(`\bEI0015\)?:(?:.*unconnected ranks: "?\[(?P<ranks>[\d, ]+)\])?|` +
			`unconnected ranks: "?\[(?P<ranks>[\d, ]+)\]`),
		says: "{who} did not connect to HCCL's root in time",
		need: []string{"the output of these ranks from the start: did they fail, or start late",
			"HCCL_SOCKET_IFNAME and the way to the root's host from their nodes", "HCCL_CONNECT_TIMEOUT"},
		from: "CANN, errors of HCCL",
	},
}
