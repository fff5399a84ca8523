package logs

import (
	"maps"
	"slices"
	"strings"
)

// ncclHost is how NCCL names the host of a line, or its container.
const ncclHost = `(?P<v>[A-Za-z0-9][\w.-]*):\d+:\d+ \[-?\d+\] NCCL INFO `

// hostFacts are what single hosts say of NCCL's network; the value is the host.
var hostFacts = []cause{
	{id: "nccl.plugin", grade: fact, words: []string{"Plugin Path : ", "Loaded net plugin "},
		form: re(ncclHost + `(?:Plugin Path : /|NET/Plugin: Loaded net plugin)`)},
	{id: "nccl.no-plugin", grade: fact, words: []string{"Could not find: libnccl-net", "No plugin found (libnccl-net"},
		form: re(ncclHost + `NET/Plugin ?: (?:Could not find: libnccl-net\.so|No plugin found)`)},
	{id: "nccl.bridge", grade: fact, words: []string{"eth0:172.17.0."},
		form: re(ncclHost + `(?:Bootstrap|NET/Socket) ?: Using (?:\[0\])?eth0:172\.17\.0\.\d+<\d+>\s*$`)},
	{id: "nccl.between", grade: fact, words: []string{"via NET/Socket"}, form: re(ncclHost + `.*via NET/Socket`)},
}

// hosts compares what the hosts say where no line is a failure, and none shows a step of the job.
func (f *follower) hosts(r *Reading) {
	if f.moved {
		return
	}
	of := func(fact string) []string { return slices.Sorted(maps.Keys(f.facts[fact])) }
	has := of("nccl.plugin")
	none := slices.DeleteFunc(of("nccl.no-plugin"), func(h string) bool { return slices.Contains(has, h) })
	bridge, between := of("nccl.bridge"), of("nccl.between")
	switch {
	case len(has) > 0 && len(none) > 0:
		r.Open = append(r.Open, Lead{Family: "log.net-mismatch", Nodes: none,
			Says: "hosts load different network plugins of NCCL: found on " + strings.Join(has, ", ") +
				", not found on " + strings.Join(none, ", ") + "; these hosts do not use the same network",
			Need: []string{"LD_LIBRARY_PATH, NCCL_NET_PLUGIN and the folder of libnccl-net.so on these hosts",
				"a run with NCCL_NET_PLUGIN=none on all of them"}})
	case len(bridge) > 0 && slices.ContainsFunc(between, func(h string) bool { return !slices.Contains(bridge, h) }):
		r.Open = append(r.Open, Lead{Family: "log.wrong-interface", Nodes: bridge,
			Says: "NCCL uses 172.17.0.x, Docker's own bridge: containers on other machines cannot reach it",
			Need: []string{"are these containers on one machine; if not, start them with --network host",
				"NCCL_SOCKET_IFNAME and ip -br addr in each container"}})
	}
}
