package logs

import (
	"encoding/hex"
	"slices"
	"strings"
)

// fileAddresses are parts of lines that name the file of a UNIX socket.
var fileAddresses = []string{"listen unix ", "Binding to socket /", "ipc:///", "unix:/", "bind() failed on error "}

const (
	shortFolder = "set a short TMPDIR on a disk of each host, the same on all (export TMPDIR=/tmp; Open MPI: --mca " +
		"orte_tmpdir_base /tmp), and remove folders of ended runs there (ompi.*, openmpi-sessions-*)"
	socketFileSays = "MPI of {who} cannot set up the socket file of its session folder, below TMPDIR[ ({why})]: " +
		"the path is too long, so that two daemons have the same one, or an ended run or another host uses that folder"
)

var socketFileNeed = []string{"TMPDIR of that host, as the job sees it, and the length of its path",
	"is that folder on a file system that the hosts share", "ls -l of the session folders there, and df"}

// socketCauses are sockets that a process cannot open, where no other process uses its port.
var socketCauses = []cause{
	{
		id: "log.foreign-call", grade: family, soft: true, words: []string{": wrong magic "},
		form: re(`: wrong magic (?P<magic>[\da-f]{8,16}) != [\da-f]+`), test: asText,
		says: "another program than NCCL has called a port of NCCL on {where}: what it sends begins with \"{text}\", as " +
			"a scraper of metrics, a health check or a scanner of ports does; NCCL closes that call, and may hang after it",
		do: "let no such program call the ports of the job (Prometheus finds them by annotations or a service, scanners by " +
			"ranges: net.ipv4.ip_local_port_range), give NCCL a network of its own (NCCL_SOCKET_IFNAME), and use a newer NCCL",
		need: []string{"which host called: tcpdump or ss on that node, and the targets of Prometheus"},
		from: "NVIDIA/nccl socket.cc socketFinalizeAccept",
	},
	{
		id: "log.socket-path", grade: family, words: []string{"bind() failed on error "},
		form: re(`\bbind\(\) failed on error (?P<why>.+?)(?: \(\d+\))?\s*$`), // ORTE and PRRTE, of a UNIX socket
		says: socketFileSays, do: shortFolder, need: socketFileNeed, from: "open-mpi/ompi orte/util/listener.c",
	}, {
		id: "log.socket-path", grade: family, words: []string{"usock_component.c", "usock_peer_recv_connect_ack: "},
		form: re(`ERROR_LOG: .+ in file \S*usock_component\.c|received unexpected process identifier`),
		says: socketFileSays, do: shortFolder, need: socketFileNeed, from: "open-mpi/ompi oob_usock_component.c",
	}, {
		id: "log.socket-path", grade: decisive, words: []string{"AF_UNIX path length cannot exceed", "AF_UNIX path " +
			"too long",
			"(sizeof(sockaddr_un.sun_path))", "too long for Unix domain socket"},
		form: opt(`cannot exceed (?P<most>\d+) bytes|longer than (?P<most>\d+) characters`),
		says: "{who} cannot make a UNIX socket: its path is longer than the system permits[ ({most} bytes)]",
		do: "set a short folder for it: TMPDIR=/tmp; for Ray RAY_TMPDIR or ray start --temp-dir; for vLLM " +
			"VLLM_RPC_BASE_PATH; " +
			"for ssh a short ControlPath (%C)",
		from: "Linux unix(7)",
	}, {
		id: "log.socket-path", grade: family, words: []string{"ddress already in use"},
		form: re(`(?:listen unix|Binding to socket|addr='ipc://|unix:(?://)?|ipc://)[ '"]*(?P<file>/[^\s'",:]+)`),
		says: "{who} cannot make the socket file {file}: it is there already, of a process that runs or that left it",
		do: "look which process has it (ss -xlp | grep {file}) and end that; where none has, remove the file. Give " +
			"each run and user a folder of its own (TMPDIR)",
		need: []string{"ss -xlp on that host, and ls -l {file}"},
		from: "Linux unix(7)",
	}, {
		id: "log.local-ports", grade: family, with: "bind.any-port",
		words: []string{"Address already in use", "address already in use"},
		form:  re(`^: Address|bind on local address`),
		says: "MPI of {who} gets no port of its own for an outgoing connection (it asks for any): its host has no " +
			"free one, as a rule, since very many connections are open or were closed shortly before",
		do: "on that host: ss -s shows how many there are; widen net.ipv4.ip_local_port_range, raise ulimit -n, and " +
			"open fewer connections (--mca btl_tcp_links 1, one interface in btl_tcp_if_include)",
		need: []string{"ss -s and sysctl net.ipv4.ip_local_port_range of that host", "ulimit -n as the job sees it"},
		from: "open-mpi/ompi btl_tcp_endpoint.c, ip(7)",
	},
}

// asText reads NCCL's magic as the first bytes that came over the socket: text is of another program.
func asText(v map[string]string) bool {
	const size = 16
	magic, err := hex.DecodeString(strings.Repeat("0", max(0, size-len(v["magic"]))) + v["magic"])
	if err != nil {
		return false
	}
	slices.Reverse(magic) // of a little-endian machine
	v["text"] = strings.TrimRight(string(magic), "\r\n\x00")
	return len(v["text"]) > 3 && !strings.ContainsFunc(v["text"], func(r rune) bool { return r < ' ' || r > '~' })
}

// socketFacts are calls of bind for any port: no other process can use that one.
var socketFacts = []cause{
	{id: "bind.any-port", grade: fact, words: []string{"bind on local address ("},
		form: re(`bind on local address \((?P<v>[^)]*:0)\) failed`)},
}
