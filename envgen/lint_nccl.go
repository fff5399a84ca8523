package envgen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
)

func lintIBDisable(in Input, d Decided) (finding.Finding, bool) {
	ports := activePorts(in.Node.HCAs)
	if leadingInt(d.Value, 0) == 0 || len(ports) == 0 {
		return none()
	}
	f := finding.Warnf("NCCL_IB_DISABLE=%s, but %d RDMA ports are ACTIVE here", d.Value, len(ports))
	if len(ports) == 1 {
		f = finding.Warnf("NCCL_IB_DISABLE=%s, but an RDMA port is ACTIVE here", d.Value)
	}
	return f.See("/sys/class/infiniband", "%s port %d is ACTIVE", ports[0].hca, ports[0].port).
		Breaking("NCCL uses TCP instead of the fabric").Do("%s", drop(d)), true
}

// integers are the settings that NCCL reads as numbers and that people write
// as words.
func integers() []string {
	return []string{"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT",
		"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}
}

// lintNumber: NCCL reads with strtoll (src/misc/param.cc), so a word is 0.
func lintNumber(_ Input, d Decided) (finding.Finding, bool) {
	v := strings.TrimLeft(d.Value, " \t+-")
	if v == "" || digit(v[0]) < 10 {
		return none()
	}
	return finding.Warnf("%s=%s is no number, NCCL reads it as 0", d.Name, d.Value).
		Breaking("it does not do what it says").Do("%s, or give it a number", drop(d)), true
}

// lintP2P: only the value 1 acts (src/graph/paths.cc, src/transport/shm.cc).
func lintP2P(in Input, d Decided) (finding.Finding, bool) {
	if leadingInt(d.Value, 0) != 1 || len(in.Node.GPUs.Devices) < 2 {
		return none()
	}
	lost := "NVLink and PCIe between the GPUs of this node"
	if d.Name == "NCCL_SHM_DISABLE" {
		lost = "shared memory between the processes of this node"
	}
	return finding.Warnf("%s=%s is for diagnosis, and this node has %d GPUs", d.Name, d.Value, len(in.Node.GPUs.Devices)).
		Breaking("NCCL does not use %s", lost).Do("%s", drop(d)), true
}

// lintAlgo leaves the profiles alone that a cloud ships with its own network
// module: there ALGO and PROTO belong to the module.
func lintAlgo(in Input, d Decided) (finding.Finding, bool) {
	net, _ := in.decided("NCCL_NET")
	vendor := slices.ContainsFunc([]string{"gIB", "FasTrak", "GPUDirectTCPX"}, func(s string) bool {
		return strings.HasPrefix(strings.ToLower(net.Value), strings.ToLower(s))
	})
	if vendor || d.Value == "" {
		return none()
	}
	return finding.Warnf("%s=%s takes the choice from NCCL for every size and topology", d.Name, d.Value).
		Breaking("NCCL's own tuning and the vendors' tuner plugins are off; LL128 forced on unsuitable hardware corrupts data").
		Do("%s", drop(d)), true
}

// lintNsocks: the number of helper threads is 0 but on AWS and Google
// (src/transport/net_socket.cc), and sockets are threads times this.
func lintNsocks(in Input, d Decided) (finding.Finding, bool) {
	cloud := slices.ContainsFunc(in.Node.Interfaces, func(i fabric.Interface) bool { return i.Driver == "ena" || i.Driver == "gve" })
	if leadingInt(d.Value, 0) <= 0 || cloud || in.has("NCCL_SOCKET_NTHREADS") {
		return none()
	}
	return finding.Warnf("NCCL_NSOCKS_PERTHREAD=%s does nothing without NCCL_SOCKET_NTHREADS here", d.Value).
		Breaking("NCCL has no helper threads on this network card, so it opens no more sockets").
		Do("%s", drop(d)), true
}

// lintIBRetry: the timeout is a 5-bit and the retry count a 3-bit field of the
// queue pair (InfiniBand specification, Local Ack Timeout and Retry Count);
// NCCL's default timeout is 20 since 2.23.
func lintIBRetry(in Input, d Decided) (finding.Finding, bool) {
	v := leadingInt(d.Value, 0)
	most := 31
	if d.Name == "NCCL_IB_RETRY_CNT" {
		most = 7
	}
	if d.Value == "" || len(activePorts(in.Node.HCAs)) == 0 {
		return none()
	}
	f := finding.Warnf("%s=%s is out of range, the largest value is %d", d.Name, d.Value, most).
		Breaking("the hardware keeps only the low bits, so the wait is another than the one written").Do("%s", drop(d))
	if v < 0 || v > most {
		return f, true
	}
	if d.Name == "NCCL_IB_TIMEOUT" && v < 20 {
		return finding.Warnf("NCCL_IB_TIMEOUT=%s is less than the 20 that NCCL uses by itself since 2.23", d.Value).
			Breaking("the job dies of shorter interruptions of the fabric than without it").Do("%s", drop(d)), true
	}
	return none()
}

// obsolete are settings that no NCCL reads any more, and the last one that did
// (a scan of its release tags).
func obsolete() [][2]string {
	return [][2]string{{"NCCL_IB_CUDA_SUPPORT", "2.3.7"}, {"NCCL_IB_GDR_LEVEL", "2.3.7"}, {"NCCL_LL_THRESHOLD", "2.4.8"},
		{"NCCL_TREE_THRESHOLD", "2.4.8"}, {"NCCL_RINGS", "2.4.8"}, {"NCCL_WORK_FIFO_DEPTH", "2.21.5"}, {"NCCL_CHECKS_DISABLE", ""}}
}

func obsoleteNames() []string {
	var names []string
	for _, o := range obsolete() {
		names = append(names, o[0])
	}
	return names
}

func lintObsolete(_ Input, d Decided) (finding.Finding, bool) {
	for _, o := range obsolete() {
		if o[0] != d.Name {
			continue
		}
		since := "no released NCCL reads it"
		if o[1] != "" {
			since = fmt.Sprintf("no NCCL after %s reads it", o[1])
		}
		return finding.Warnf("%s=%s has no effect: %s", d.Name, d.Value, since).Do("%s", drop(d)), true
	}
	return none()
}

// lintLevel: the levels of src/graph/topo.h, and what an integer means for
// the older notation (src/graph/paths.cc).
func lintLevel(_ Input, d Decided) (finding.Finding, bool) {
	levels := []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"}
	if d.Value == "" || slices.Contains(levels, d.Value) {
		return none()
	}
	if n, err := strconv.Atoi(d.Value); err == nil && n >= 0 {
		level := []string{"LOC", "PIX", "PXB", "PHB", "SYS"}[min(n, 4)]
		return finding.Warnf("%s=%s is the old notation and means %s", d.Name, d.Value, level).
			Breaking("a number hides how far apart GPU and network card may be; %s is far more than most expect of it", level).
			Do("%s", put(d, level)+", or "+drop(d)), true
	}
	return finding.Warnf("%s=%s is no level that NCCL knows, it is ignored", d.Name, d.Value).
		Breaking("it does not do what it says; the levels are %s", strings.Join(levels, " ")).Do("%s", drop(d)), true
}

// lintHCAPrefix: names are prefixes unless a = stands before them.
func lintHCAPrefix(in Input, d Decided) (finding.Finding, bool) {
	f := parseFilter(d.Value, maxIBs)
	if f.exact {
		return none()
	}
	for _, it := range f.items {
		var exact bool
		var also []string
		for _, h := range in.Node.HCAs {
			exact = exact || h.Name == it.name
			if h.Name != it.name && strings.HasPrefix(h.Name, it.name) {
				also = append(also, h.Name)
			}
		}
		if exact && len(also) > 0 {
			marked := strings.TrimPrefix(d.Value, "^")
			fix := put(d, d.Value[:len(d.Value)-len(marked)]+"="+marked)
			return finding.Warnf("NCCL_IB_HCA=%s: %s is a prefix and also means %s", d.Value, it.name, strings.Join(also, ", ")).
				Breaking("NCCL uses or leaves out other HCAs than those named").Do("%s", fix), true
		}
	}
	return none()
}

// lintHCA fails only where the RDMA module is pinned: else NCCL goes on over
// TCP and says nothing.
func lintHCA(in Input, d Decided) (finding.Finding, bool) {
	if !in.gpus() || d.Value == "" {
		return none()
	}
	f := parseFilter(d.Value, maxIBs)
	ports := activePorts(in.Node.HCAs)
	if slices.ContainsFunc(ports, func(p activePort) bool { return f.match(p.hca, p.port) }) {
		return none()
	}
	net, _ := in.decided("NCCL_NET")
	pinned := strings.EqualFold(net.Value, "IB")
	var names []string
	for _, p := range ports {
		names = append(names, fmt.Sprintf("%s:%d", p.hca, p.port))
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	out := worst(pinned && in.ncclSure(), "NCCL_IB_HCA=%s selects no ACTIVE RDMA port of this node", d.Value).
		See("ACTIVE ports in /sys/class/infiniband", "%s", strings.Join(names, ", ")).Do("%s", drop(d))
	if pinned {
		return out.Breaking("NCCL_NET=IB finds no device and NCCL stops"), true
	}
	return out.Breaking("NCCL uses TCP instead of the fabric and says so only at NCCL_DEBUG=INFO"), true
}

func lintCommID(in Input, d Decided) (finding.Finding, bool) {
	if !in.Torch || d.Value == "" {
		return none()
	}
	return finding.Warnf("NCCL_COMM_ID=%s is for programs without a store; torch has its own", d.Value).
		Breaking("every communicator meets at that one address instead of rank 0's, and hangs where it is another host's").
		Do("%s", drop(d)), true
}

// lintDebugFile: the file is opened from the level WARN on (src/debug.cc), and
// every process opens it anew.
func lintDebugFile(in Input, d Decided) (finding.Finding, bool) {
	level, _ := in.decided("NCCL_DEBUG")
	on := slices.Contains([]string{"WARN", "INFO", "ABORT", "TRACE"}, strings.ToUpper(level.Value))
	if !on || d.Value == "" || strings.Contains(d.Value, "%p") || strings.HasPrefix(d.Value, "/dev/") || len(in.Node.GPUs.Devices) < 2 {
		return none()
	}
	return finding.Warnf("NCCL_DEBUG_FILE=%s is one file for all processes", d.Value).
		Breaking("they overwrite each other's log").Do("%s", put(d, d.Value+".%h.%p")), true
}
