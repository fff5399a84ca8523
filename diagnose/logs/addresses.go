package logs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wordUsing is in the lines with the interfaces that NCCL uses.
const wordUsing = " Using ["

var interfaceForm = regexp.MustCompile(`\[\d+\]([A-Za-z][\w.-]*):([\da-fA-F.:%\w]+)<`)

// noteInterfaces notes which address is of which interface.
func (f *follower) noteInterfaces(body []byte) {
	for _, m := range interfaceForm.FindAllSubmatch(body, maxFacts) {
		if len(f.interfaces) < maxStreams {
			f.interfaces[string(m[2])] = string(m[1])
		}
	}
}

// ownAddress is an address that means another host, or nothing, on each host: of bridges of containers and virtual
// machines, and link-local ones.
const ownAddress = `(?P<addr>172\.17\.0\.\d+|192\.168\.122\.\d+|169\.254\.\d+\.\d+|` +
	`fe80:[\da-fA-F:]+(?:%(?P<if>[\w.-]+))?)`

// meetWords are how processes report that they do not reach the store, or another rank by Gloo.
var meetWords = []string{"client socket has timed out", "client socket has failed to connect",
	"failed to connect/validate to host", "failed to connect to any network address", "Failed to connect to GCS",
	"Unable to connect to GCS", "onnect timeout [", "remote=[172.17.", "remote=[192.168.122.", "remote=[169.254.",
	"remote=[fe80"}

// addressCauses are addresses of peers or stores that only their own host knows.
var addressCauses = []cause{
	{
		id: "log.store-address", grade: family, with: "store.octal", words: []string{"onnection timed out",
			"connect() timed out", "client socket has timed out", "o route to host", "onnection refused"},
		form: re(`timed out|route to host|refused`),
		says: "{who} does not reach the address {latest}: a part of it begins with 0, which the system reads as an octal " +
			"number (010 is 8, and 08 no number)",
		do:   "write the address without leading zeros, on all nodes",
		need: []string{"ip -br addr of the host that is to have that address"},
		from: "inet_aton(3)",
	}, {
		id: "log.store-address", grade: family, soft: true, words: []string{"cluster_spec", "TF_CONFIG"},
		form: re(`(?:cluster_spec|TF_CONFIG)\b.*['"](?P<host>[\w.-]+@[\w.-]+):\d+['"]`),
		says: "TensorFlow of {who} is given {host} as a host: the part before the @ is no part of an address, and no such " +
			"name is found",
		do:   "write only HOST:PORT for each task of the cluster (TF_CONFIG), on all of them",
		need: []string{"TF_CONFIG of each task"},
		from: "tensorflow TFConfigClusterResolver",
	},
	{
		id: "log.wrong-interface", grade: family,
		words: []string{"onnect to fe80:", "onnecting to fe80:"},
		form: re(`[Cc]onnect(?:ing)? to ` + ownAddress + `(?:<\d+>)? ?(?:failed|timed out|returned)(?:[ ` +
			`:]+(?P<why>[A-Z][\w ]+))?`),
		says: "NCCL of {who} calls {addr}, a link-local address: the interface[ {if}] that NCCL chose has no other, and " +
			"is no network between the hosts",
		do: "set NCCL_SOCKET_IFNAME to the interface with the address by which the hosts reach each other, the same on all " +
			"(ip -br addr), or leave this one out (NCCL_SOCKET_IFNAME=^{if}); in a cloud it is often the second half of the " +
			"first interface (Azure's accelerated networking: enP…)",
		need: []string{"ip -br addr of both hosts, in the job's container"},
		from: "NVIDIA/nccl socket.cc",
	}, {
		id: "log.wrong-interface", grade: family, soft: true, words: meetWords,
		form: re(`(?:[Cc]onnect(?:ing)? to(?: host)?|GCS at(?: address)?|remote=|onnect timeout|validate to host) ` +
			`?[\[(]{0,2}` +
			`(?:::ffff:)?` + ownAddress),
		not: []string{"errno: 111", "onnection refused", "errno: 97", "retrying (try="},
		says: "{who} calls {addr}, an address that other hosts do not know: of a bridge of containers or virtual machines " +
			"of one host, or a link-local one",
		do: "over several hosts let the host that is called name an address that the others reach: start its container " +
			"with " +
			"the host's network, and set MASTER_ADDR, VLLM_HOST_IP, ray start --node-ip-address or GLOO_SOCKET_IFNAME to the " +
			"network that the hosts share. On one host look why the process with that address does not answer",
		need: []string{"ip -br addr of both hosts, in the job's containers", "where that address was set: MASTER_ADDR, " +
			"or the framework's choice of its own address"},
		from: "docker0, RFC 3927, RFC 4291",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, words: []string{"client socket has timed out",
			"client socket has failed to connect", "failed to connect to any network address"},
		form: re(`connect to [\[(]{0,2}(?:::ffff:)?(?P<host>127\.[\d.]+|localhost|::1)\]?(?:, |:)(?P<port>\d+)`),
		not:  []string{"errno: 97"},
		says: "{who} cannot connect to the store at {host} port {port}, which is its own host: rank 0 does not listen " +
			"there, or runs on another host",
		need: append([]string{"over several hosts: MASTER_ADDR must be an address of rank 0's host that the others reach"},
			storeNeed...),
		from: "torch TCPStore",
	},
}

// addressFacts are addresses of stores of which a part begins with 0 and means another number so.
var addressFacts = []cause{
	{id: "store.octal", grade: fact, words: []string{"tcp://", "MASTER_ADDR", "connect to ("},
		form: re(`(?:tcp://|MASTER_ADDR\W{1,4}|connect to \()(?P<v>\d{1,3}(?:\.\d{1,3}){3})\b`),
		test: func(v map[string]string) bool {
			return slices.ContainsFunc(strings.Split(v["v"], "."), func(part string) bool {
				octal, err := strconv.ParseUint(part, 8, 8) // 001 is 1 in both, and 08 is no number
				return len(part) > 1 && part[0] == '0' && (err != nil || int(octal) != number(part))
			})
		}},
}
