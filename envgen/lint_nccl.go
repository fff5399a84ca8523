package envgen

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/setting"
)

// ncclLint returns the rules for NCCL's variables.
func ncclLint() []lintRule {
	return []lintRule{
		{id: "env.ib-disable", names: []string{"NCCL_IB_DISABLE", "NCCL_IBEXT_DISABLE"}, look: lintIBDisable,
			what: "it is on, and this node has ports of a training fabric"},
		{id: "env.number", names: integers(), look: lintNumber, what: "it is not a number: NCCL reads it as 0"},
		{id: "env.p2p-disable", names: []string{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}, look: lintP2P,
			what: "it is on, and this node has several GPUs"},
		{id: "env.algo", names: []string{"NCCL_ALGO", "NCCL_PROTO"}, here: noProfile,
			what:   "it replaces NCCL's own choice (a cloud's network module may need that)",
			is:     "replaces NCCL's own choice for every size and topology",
			breaks: "NCCL's tuning and the vendors' tuner plugins are off; LL128 on unsuitable hardware corrupts data"},
		{id: "env.nsocks", names: []string{"NCCL_NSOCKS_PERTHREAD"}, here: noThreads,
			what:   "it is set without NCCL_SOCKET_NTHREADS, on a card for which NCCL has no threads",
			is:     "has no effect here without NCCL_SOCKET_NTHREADS",
			breaks: "NCCL has no helper threads for this network card, so it opens no additional sockets"},
		{id: "env.ib-retry", names: []string{"NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"}, look: lintIBRetry,
			what: "it is out of range (31, 7), or the timeout is shorter than NCCL's default"},
		{id: "env.obsolete", names: obsoleteNames(), look: lintObsolete,
			what: "no library reads it any more"},
		{id: "env.level", names: []string{"NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"}, look: lintLevel,
			what: "it is a number, which has a surprising meaning, or an invalid level"},
		{id: "env.comm-id", names: []string{"NCCL_COMM_ID"},
			what:   "it is set for torch, which has its own store",
			here:   func(v *view, d setting.Decided) bool { return v.Torch && d.Value != "" },
			is:     "is for programs without a store; torch has its own",
			breaks: "every communicator uses that address instead of rank 0's, and hangs if it is on another host"},
		{id: "env.debug-file", names: []string{"NCCL_DEBUG_FILE"}, look: lintDebugFile,
			what: "all processes would write one file, or its directory does not exist"},
		{id: "env.channels", names: []string{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS",
			"NCCL_MAX_NRINGS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}, look: lintChannels,
			what: "it replaces NCCL's own number of channels"},
		{id: "env.cumem", names: []string{"NCCL_CUMEM_ENABLE"}, what: "it is 0, and NCCL is 2.19 or later",
			here: func(v *view, d setting.Decided) bool {
				return v.gpus() && leadingInt(d.Value, 0) == 0 && span{since: "2.19"}.holds(v.nccl)
			},
			is: "turns off cuMem, which NCCL uses from 2.19", breaks: "no NVLink between nodes, no registered buffers"},
		{id: "env.mnnvl", names: []string{"NCCL_MNNVL_ENABLE"}, look: lintMNNVL,
			what: "it is 1 without an NVLink domain of several nodes, or 0 in one"},
		{id: "env.topo-file", names: []string{"NCCL_TOPO_FILE"}, look: lintTopoFile,
			what: "it does not exist, is not a topology, or lists devices that this machine does not have"},
		{id: "env.graph-file", names: []string{"NCCL_GRAPH_FILE"}, look: lintGraphFile, what: "it does not exist"},
	}
}

func lintIBDisable(v *view, d setting.Decided) finding.Finding {
	ports := v.rails()
	if leadingInt(d.Value, 0) == 0 || len(ports) == 0 {
		return none()
	}
	return finding.Warnf("%s=%s, but this node has %s", d.Name, d.Value,
		finding.Plural(len(ports), "RDMA rail", "RDMA rails")).
		See("/sys/class/infiniband", "%s port %d is ACTIVE", ports[0].hca.Name, ports[0].Num).
		Breaking("NCCL uses TCP instead of the fabric")
}

// integers returns the settings that NCCL reads as numbers and that people write as text.
func integers() []string {
	return []string{"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT",
		"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}
}

// lintNumber finds text: NCCL uses strtoll (src/misc/param.cc), so it is 0.
func lintNumber(_ *view, d setting.Decided) finding.Finding {
	if v := strings.TrimLeft(d.Value, " \t+-"); v == "" || v[0] >= '0' && v[0] <= '9' {
		return none()
	}
	return finding.Warnf("%s=%s is not a number: NCCL reads it as 0", d.Name, d.Value).
		Breaking("it has another effect than intended").Do("%s, or set a number", drop(d))
}

// lintP2P finds switches that are on: only the value 1 has an effect
// (src/graph/paths.cc, src/transport/shm.cc).
func lintP2P(v *view, d setting.Decided) finding.Finding {
	if leadingInt(d.Value, 0) != 1 || v.gpuCount() < 2 {
		return none()
	}
	lost := "NVLink and PCIe between the GPUs of this node"
	if d.Name == "NCCL_SHM_DISABLE" {
		lost = "shared memory between the processes of this node"
	}
	return finding.Warnf("%s=%s is for diagnosis, but this node has %d GPUs", d.Name, d.Value, v.gpuCount()).
		Breaking("NCCL does not use %s", lost)
}

// noProfile reports whether no cloud's network module is in use: its profile has ALGO and PROTO.
func noProfile(v *view, d setting.Decided) bool {
	return d.Value != "" && !v.netIs([]string{"gib", "fastrak", "gpudirecttcpx"})
}

// noThreads finds a factor of 0: the number of sockets is this times the number of helper
// threads, which is 0 except on AWS and Google (src/transport/net_socket.cc).
func noThreads(v *view, d setting.Decided) bool {
	cloud := slices.ContainsFunc(v.Node.Interfaces, func(i fabric.Interface) bool { return ownThreads(i.Driver) })
	return leadingInt(d.Value, 0) > 0 && !cloud && !v.has("NCCL_SOCKET_NTHREADS")
}

// lintIBRetry finds values out of range: the timeout is a 5-bit and the retry count a 3-bit field
// of the queue pair (InfiniBand specification, Local Ack Timeout and Retry Count).
func lintIBRetry(v *view, d setting.Decided) finding.Finding {
	n, most := leadingInt(d.Value, 0), 31
	if d.Name == "NCCL_IB_RETRY_CNT" {
		most = 7
	}
	switch own, since := v.ownTimeout(); {
	case d.Value == "" || len(v.ncclPorts()) == 0:
		return none()
	case n < 0 || n > most:
		return finding.Warnf("%s=%s is out of range: the maximum is %d", d.Name, d.Value, most).
			Breaking("the hardware uses only the low bits, so the wait differs from the setting")
	case d.Name == "NCCL_IB_TIMEOUT" && n < own:
		return finding.Warnf("NCCL_IB_TIMEOUT=%s is less than NCCL's default %d %s", d.Value, own, since).
			Breaking("shorter interruptions of the fabric end the job")
	}
	return none()
}

// ownTimeout returns NCCL's default for NCCL_IB_TIMEOUT (a scan of its release tags).
func (v *view) ownTimeout() (value int, since string) {
	switch {
	case (span{since: "2.23"}).holds(v.nccl):
		return 20, "since 2.23"
	case (span{since: "2.14"}).holds(v.nccl):
		return 18, "from 2.14 to 2.22"
	}
	return 14, "before 2.14"
}

// lintLevel finds numbers and invalid levels: the levels of src/graph/topo.h, and the
// integers of the older notation (src/graph/paths.cc).
func lintLevel(_ *view, d setting.Decided) finding.Finding {
	levels := []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"}
	if d.Value == "" || slices.Contains(levels, d.Value) {
		return none()
	}
	if n, err := strconv.Atoi(d.Value); err == nil && n >= 0 {
		level := []string{"LOC", "PIX", "PXB", "PHB", "SYS"}[min(n, 4)]
		return finding.Warnf("%s=%s is the old notation and means %s", d.Name, d.Value, level).
			Breaking("GPU and network card may be farther apart than intended: up to %s", level).
			Do("%s", put(d, level)+", or "+drop(d))
	}
	return finding.Warnf("%s=%s is not a level of NCCL, which ignores it", d.Name, d.Value).
		Breaking("it has no effect; the levels are %s", strings.Join(levels, " "))
}

// lintDebugFile finds one file for all: from the level WARN every process opens the file again
// (src/debug.cc).
func lintDebugFile(v *view, d setting.Decided) finding.Finding {
	on := slices.Contains([]string{"WARN", "INFO", "ABORT", "TRACE"}, strings.ToUpper(v.value("NCCL_DEBUG")))
	if !v.gpus() || !on || d.Value == "" || strings.HasPrefix(d.Value, "/dev/") { // without GPUs NCCL opens no log
		return none()
	}
	dir := path.Dir(d.Value)
	if _, ok := v.Files[dir]; !ok && v.Files != nil && path.IsAbs(dir) && !strings.Contains(dir, "%") {
		return finding.Warnf("NCCL_DEBUG_FILE=%s: the directory %s does not exist", d.Value, dir).
			Breaking("NCCL writes its log to stdout").Do("mkdir -p %s", dir)
	}
	if strings.Contains(d.Value, "%p") || v.gpuCount() < 2 {
		return none()
	}
	return finding.Warnf("NCCL_DEBUG_FILE=%s is one file for all processes", d.Value).
		Breaking("they overwrite each other's log").Do("%s", put(d, d.Value+".%h.%p"))
}

func lintChannels(v *view, d setting.Decided) finding.Finding {
	if !v.gpus() || leadingInt(d.Value, 0) <= 0 {
		return none()
	}
	return finding.Warnf("%s=%s replaces NCCL's own number of channels", d.Name, d.Value).
		Breaking("channels take GPU cores from the program; too few or too many make the fabric slow").
		Do("%s, or measure with the program itself", drop(d))
}

// lintMNNVL finds the wrong switch: with 1 a node without a domain is an error (src/mnnvl.cc).
func lintMNNVL(v *view, d setting.Decided) finding.Finding {
	n := leadingInt(d.Value, 0)
	switch domain := v.nvlinkDomain(); {
	case d.Value == "" || !v.Node.GPUs.Present:
		return none()
	case n == 1 && domain == "":
		return finding.Warnf("NCCL_MNNVL_ENABLE=%s, but no GPU here is in an NVLink domain of several nodes", d.Value).
			Breaking("NCCL ends at its start instead of using the network")
	case n == 0 && domain != "":
		return finding.Warnf("NCCL_MNNVL_ENABLE=%s, but the GPUs here are in the NVLink domain %s", d.Value, domain).
			Breaking("the nodes of the domain use the network instead of NVLink").Do("%s, on all nodes", drop(d))
	}
	return none()
}

// nvlinkDomain returns the domain of several nodes that a GPU here is in, or "".
func (v *view) nvlinkDomain() string {
	for _, g := range v.Node.GPUs.Devices {
		if g.Fabric != nil && g.Fabric.Cluster != "" {
			return g.Fabric.Cluster
		}
	}
	return ""
}

// lintGraphFile: ncclTopoGetXmlGraphFromFile in NCCL's src/graph/xml.cc is fatal without the file.
func lintGraphFile(v *view, d setting.Decided) finding.Finding {
	if _, ok := v.Files[d.Value]; ok || v.Files == nil || !path.IsAbs(d.Value) || !v.gpus() {
		return none()
	}
	return finding.Failf("NCCL_GRAPH_FILE=%s does not exist here", d.Value).
		Breaking("NCCL stops with \"Could not open XML graph file\"")
}

func lintTopoFile(v *view, d setting.Decided) finding.Finding {
	if v.Files == nil || !path.IsAbs(d.Value) || !v.gpus() {
		return none()
	}
	text, ok := v.Files[d.Value]
	f := finding.Warnf("NCCL_TOPO_FILE=%s does not exist here", d.Value)
	if ok {
		n, missing := v.topology(text)
		switch {
		case missing == "" && n > 0:
			return none()
		case n == 0:
			f = finding.Warnf("NCCL_TOPO_FILE=%s has no devices", d.Value)
		default:
			f = finding.Warnf("NCCL_TOPO_FILE=%s is for another machine: there is no %s here", d.Value, missing)
		}
	}
	return f.Breaking("NCCL pairs GPUs and network cards wrongly")
}
