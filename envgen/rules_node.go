package envgen

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/setting"
)

// nodeRules returns the rules about the process's surroundings: files, rights, cores.
func nodeRules() []rule {
	node := func(v *view) bool { return v.gpus() && !v.Mpirun }
	return []rule{{
		name: "NCCL_TOPO_FILE", scope: setting.Node,
		source: "Azure azhpc-images components/customizations, NCCL src/graph/topo.cc",
		alone:  "reads the topology from sysfs, which Azure's hypervisor flattens, or " + virtualTopology,
		when:   "Azure's file for this size is visible (also in a container) and lists the devices of this machine",
		value:  "the path of that file", used: node, want: (*view).wantTopo,
	}, {
		name: "NCCL_CUMEM_HOST_ENABLE", scope: setting.Node, single: true,
		span:   span{since: "2.24", before: "2.26.5"},
		source: "NCCL docs/userguide/source/troubleshooting/runtime_and_mpi_issues.rst",
		alone:  "uses host memory that needs the right to choose a NUMA node (2.24.0 to 2.26.4), or crashes",
		when:   "a container's system call filter denies that right: no CAP_SYS_NICE", value: "0", used: node,
		want: (*view).wantCuMemHost, agrees: func(_ *view, value string) bool { return leadingInt(value, 0) == 0 },
	}, {
		name: "NCCL_SOCKET_NTHREADS", scope: setting.Node, span: span{since: "2.4.8"},
		source: "NCCL src/transport/net_socket.cc, docs/userguide/source/env.rst",
		alone:  "has helper threads for TCP only on the cards of AWS and Google, so one core carries all traffic",
		when:   "data goes over TCP at 100 Gb/s or more on another card, and there are 8 cores per GPU",
		value:  "4, NVIDIA's value for 100G", used: node, want: byPeers((*view).wantThreads), agrees: atLeast(1),
	}, {
		name: "NCCL_NSOCKS_PERTHREAD", scope: setting.Node, span: span{since: "2.4.8"},
		source: "NCCL src/transport/net_socket.cc, docs/userguide/source/env.rst",
		alone:  "opens one connection per helper thread", when: "as NCCL_SOCKET_NTHREADS", value: "4", used: node,
		want: byPeers((*view).wantThreads), agrees: atLeast(1),
	}}
}

// Files that rules need.
const (
	virtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml"
	selfStatus      = "/proc/self/status"
)

func azureTopologies() []string {
	return []string{"/opt/microsoft/ndv5/topo.xml", "/opt/microsoft/ndv4/topo.xml", "/opt/microsoft/ndv2/topo.xml",
		"/opt/microsoft/ncv4/topo.xml"}
}

// Paths returns the files and directories that the rules and the lint need for an
// input: Input.Files has the texts of those that exist.
func Paths(in Input) []string {
	v := look(in)
	if !v.gpus() {
		return nil
	}
	paths := []string{selfStatus}
	switch in.Node.Cloud.Provider {
	case "azure":
		paths = append(append(paths, virtualTopology), azureTopologies()...)
	case "gcp":
		paths = append(append(paths, gibScript), fastrakScripts()...)
	}
	for _, name := range []string{"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"} {
		if f := v.value(name); path.IsAbs(f) {
			paths = append(paths, f)
		}
	}
	if f := v.value("NCCL_DEBUG_FILE"); path.IsAbs(f) && !strings.Contains(path.Dir(f), "%") {
		paths = append(paths, path.Dir(f))
	}
	return paths
}

func (v *view) wantTopo() want {
	if _, ok := v.Files[virtualTopology]; ok {
		return right("NCCL reads " + virtualTopology + " on its own")
	}
	for _, p := range azureTopologies() {
		text, ok := v.Files[p]
		if !ok {
			continue
		}
		if n, missing := v.topology(text); n > 0 && missing == "" {
			return want{value: p, wrong: "NCCL would use the hypervisor's PCI tree, which is flat",
				because: fmt.Sprintf("this machine has the %d devices of the file", n),
				seen:    saw(p, fmt.Sprintf("%d devices", n))}
		}
	}
	return right("no file for this size of machine is visible; with a PCI tree that is not flat none is needed")
}

// topology parses a topology for NCCL and returns its number of GPUs and network
// cards, and the first of them that this machine does not have.
func (v *view) topology(text string) (n int, missing string) {
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return n, missing
		} else if err != nil {
			return 0, "it is not XML: " + err.Error()
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "pci" {
			continue
		}
		at := map[string]string{}
		for _, a := range e.Attr {
			at[a.Name.Local] = strings.ToLower(a.Value)
		}
		if c := at["class"]; !strings.HasPrefix(c, "0x03") && !strings.HasPrefix(c, "0x02") {
			continue
		}
		n++
		_, here := v.Node.Function(at["busid"])
		if missing == "" && !here && len(v.Node.PCI) > 0 { // the functions are known
			missing = at["busid"]
		}
	}
}

// status returns a field of /proc/self/status (proc(5)).
func (v *view) status(name string) string {
	for line := range strings.Lines(v.Files[selfStatus]) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// capSysNice is the bit of CAP_SYS_NICE (linux/capability.h).
const capSysNice = 23

func (v *view) wantCuMemHost() want {
	filter, hex := v.status("Seccomp"), v.status("CapEff")
	caps, err := strconv.ParseUint(hex, 16, 64)
	if !v.nccl.known() || filter != "2" || err != nil || caps>>capSysNice&1 == 1 {
		return right("nothing here denies the right to choose a NUMA node")
	}
	return want{value: "0", wrong: "NCCL before 2.26.5 can crash on its host memory here",
		because: "a system call filter is on, and CAP_SYS_NICE is missing",
		seen:    []finding.Seen{{Where: selfStatus, What: "Seccomp " + filter + ", CapEff " + hex}, v.ncclSeen()}}
}

const (
	fastTCP     = 100_000 // Mb/s
	coresPerGPU = 8
)

func (v *view) wantThreads(via fabric.Interface, _ netip.Prefix) want {
	switch {
	case !v.ncclSockets():
		return right("NCCL's data does not go over TCP")
	case ownThreads(via.Driver):
		return right("NCCL has threads of its own for the card (" + via.Driver + ")")
	case via.Speed < fastTCP:
		return right(fmt.Sprintf("the speed of %s is below 100 Gb/s, or unknown", via.Name))
	}
	list := v.status("Cpus_allowed_list")
	cores := countCPUs(list)
	if n := v.gpuCount(); n < 1 || cores < coresPerGPU*n {
		return right(fmt.Sprintf("%d cores are too few for more threads", cores))
	}
	return want{value: "4",
		wrong: fmt.Sprintf("NCCL would send all data over TCP with one thread, at %d Gb/s", via.Speed/1000),
		seen: []finding.Seen{
			finding.Seen{Where: "/sys/class/net/" + via.Name + "/speed", What: strconv.Itoa(via.Speed)},
			{Where: selfStatus, What: "Cpus_allowed_list " + list},
		}}
}

// ownThreads reports whether NCCL has helper threads for the cards of a driver: AWS's
// and Google's (src/transport/net_socket.cc, by PCI vendor).
func ownThreads(driver string) bool { return slices.Contains([]string{"ena", "gve"}, driver) }

// countCPUs returns the number of CPUs in a list of the kernel, "0-3,8,10-11".
func countCPUs(list string) int {
	n := 0
	for word := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(word, "-")
		if !isRange {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA == nil && errB == nil && b >= a && b-a < 1<<16 {
			n += b - a + 1
		}
	}
	return n
}
