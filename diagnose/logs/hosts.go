package logs

import (
	"maps"
	"slices"
	"strings"

	"launch/diagnose/verdict"
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
	{id: "nccl.on-socket", grade: fact, words: []string{"Using network Socket"},
		form: re(ncclHost + `Using network Socket`)},
	{id: "nccl.on-rdma", grade: fact, words: []string{"Using network IB", "Using network AWS", "Using network Libfabric"},
		form: re(ncclHost + `Using network (?:IB|AWS|Libfabric)`)},
	{id: "nccl.group", grade: fact, words: []string{" commId 0x"},
		form: re(`(?P<v>[A-Za-z0-9][\w.-]*:\d+:\d+ \[-?\d+\] NCCL INFO .* commId 0x[0-9a-f]+)`)},
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
	v, mixed := f.networks()
	switch {
	case mixed:
		r.Open = append(r.Open, Lead{Family: v.Cause, Says: v.Says, Nodes: v.Nodes, Need: []string{v.Do}})
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

// networks says whether some hosts use NCCL's sockets while others use RDMA. A host that uses both has several jobs or
// groups, and says nothing.
func (f *follower) networks() (verdict.Verdict, bool) {
	socket, rdma := f.facts["nccl.on-socket"], f.facts["nccl.on-rdma"]
	if len(socket) == 0 || len(rdma) == 0 {
		return verdict.Verdict{}, false
	}
	for h := range socket {
		if rdma[h] {
			return verdict.Verdict{}, false
		}
	}
	if f.apart(socket, rdma) {
		return verdict.Verdict{}, false
	}
	slow, fast := slices.Sorted(maps.Keys(socket)), slices.Sorted(maps.Keys(rdma))
	return verdict.Verdict{
		Cause: "log.net-mismatch", Sure: verdict.Likely, Nodes: slow,
		Says: "NCCL uses sockets on " + strings.Join(slow, ", ") + " and RDMA on " + strings.Join(fast, ", ") +
			": these hosts cannot exchange data, and their first collective hangs",
		Do: "look why NCCL finds no RDMA device on " + strings.Join(slow, ", ") + " (ibv_devinfo in the job's container, " +
			"the lines NET/IB and NET/Plugin); NCCL_NET=Socket, or NCCL_IB_DISABLE=1, on all nodes avoids it, slowly",
	}, true
}

// apart says whether two sets of hosts have groups of NCCL and none in common: they may be of different jobs.
func (f *follower) apart(some, others map[string]bool) bool {
	groups := func(hosts map[string]bool) map[string]bool {
		out := map[string]bool{}
		for line := range f.facts["nccl.group"] {
			if host, _, _ := strings.Cut(line, ":"); hosts[host] {
				out[line[strings.LastIndexByte(line, ' '):]] = true
			}
		}
		return out
	}
	a, b := groups(some), groups(others)
	for id := range a {
		if b[id] {
			return false
		}
	}
	return len(a) > 0 && len(b) > 0
}

// firstWork is in the lines of torch's watchdog about one of the first collectives of a group.
var firstWork = re(`SeqNum=[0-2]\b`)

// atStart says whether a collective timed out that is one of the first.
func (e *event) atStart() bool {
	return e.cause.id == "log.collective-timeout" && firstWork().MatchString(e.text)
}
