package logs

import (
	"strconv"
	"strings"
)

// topologyCauses are what NCCL finds of the GPUs and networks of the ranks, or reads of them in files, where that does
// not fit.
var topologyCauses = []cause{
	{
		id: "log.graph-file", grade: decisive, recalls: "nccl.graph-file", words: []string{"XML Import Channel : dev "},
		form: re(`XML Import Channel : dev (?P<dev>[\da-fx]+) not found`),
		says: "the graph file that NCCL of {who} reads[ ({latest})] describes GPUs that the job does not use (device " +
			"{dev}), so it is of another machine, or for more GPUs",
		do: graphDo, from: "NVIDIA/nccl graph/search.cc",
	}, {
		id: "log.graph-file", grade: decisive, words: []string{"XML Graph has wrong version", "Could not open XML graph file",
			"XML Topology has wrong version"},
		form: re(`XML (?P<kind>Graph|Topology) has wrong version (?P<has>-?\d+), (?P<want>\d+) needed|` +
			`open XML (?P<kind>graph) file (?P<file>\S+) : (?P<why>.+)`),
		says: "NCCL of {who} cannot use the {kind} file that its environment names[: {file}, {why}][: it has version {has}," +
			" and this NCCL reads {want}]",
		do: graphDo, from: "NVIDIA/nccl graph/xml.cc",
	}, {
		id: "log.pci-path", grade: family, words: []string{"Could not find real path of /sys/class/pci_bus/"},
		form: re(`WARN .*real path of /sys/class/pci_bus/\S*/(?P<pci>[\da-f]{4,}:[\da-f]{2}:[\da-f]{2}\.\d)`),
		says: "NCCL of {who} finds the GPU {pci} not in /sys: the virtual machine, WSL or container does not show the PCI " +
			"bus of the GPU there, and this NCCL stops without it",
		do: "use NCCL 2.28 or newer, which goes on without (or the newest that the program runs with), or mount the host's " +
			"/sys into the container; in a virtual machine a file in NCCL_TOPO_FILE can describe the GPUs",
		need: []string{"ls /sys/class/pci_bus in the container and on the host, and nvidia-smi --query-gpu=pci.bus_id " +
			"--format=csv", "the line NCCL version"},
		from: "NVIDIA/nccl graph/xml.cc",
	}, {
		id: "log.nccl-topology", grade: open, words: []string{"any local path from gpu ", "Could not find NET with id ",
			"No path computed to go from "},
		form: re(`WARN (?P<why>Could not find (?:any local path from gpu \d+ to net|NET with id \S+)|No path computed to ` +
			`go ` +
			`from \S+ to \S+)`),
		says: "NCCL of {who} knows no way between a GPU and an adapter or another GPU ({why}): what it reads of the " +
			"machine does not fit",
		need: []string{"env | grep NCCL_, /etc/nccl.conf: NCCL_TOPO_FILE and NCCL_GRAPH_FILE of another machine, " +
			"NCCL_IB_HCA, NCCL_NET_GDR_LEVEL",
			"the line NCCL version, and runs with another release (some of 2.25 and 2.26 fail so where 2.27 works) and " +
				"with NCCL_NET_GDR_LEVEL=LOC", "a run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH, and nvidia-smi topo -m, " +
				"in the job's container"},
		from: "NVIDIA/nccl graph/search.cc, graph/topo.cc",
	}, {
		id: "log.net-mismatch", grade: decisive, words: []string{"Detected mixed local "},
		form: re(`mixed local (?P<what>Net|CollNet) device counts across ranks \(min (?P<min>\d+), max (?P<max>\d+)\). Set`),
		says: "the ranks have different numbers of network devices for NCCL: {min} to {max} ({what})",
		do: "compare the lines NCCL INFO NET/IB : Using of all nodes: a port that is down, a device that a container does " +
			"not have, or another NCCL_IB_HCA; name in NCCL_IB_HCA only devices that all nodes have",
		from: "NVIDIA/nccl init.cc",
	}, {
		id: "log.net-mismatch", grade: decisive, words: []string{"incompatible devices: ", "device is incompatible with " +
			"the local "},
		form: re(`incompatible devices: \[\d+\](?P<a>[\w.-]+):\d+/(?P<la>\w+) and \[\d+\](?P<b>[\w.-]+):\d+/(?P<lb>\w+)|` +
			`Remote (?P<lb>\w+) device is incompatible with the local \[\d+\](?P<a>[\w.-]+):\d+/(?P<la>\w+)`),
		says: "NCCL of {who} is to use an adapter of {la} ({a}) together with one of {lb}[ ({b})]: some are InfiniBand, " +
			"others RoCE",
		do:   "name adapters of one kind only in NCCL_IB_HCA, the same kind on all nodes (ibstat shows Link layer)",
		from: "NVIDIA/nccl net_ib/connect.cc",
	}, {
		id: "log.nccl-version-mismatch", grade: decisive, words: []string{"Mismatched NCCL version detected"},
		form: re(`rank (?P<a>\d+) version (?P<va>\d+) rank (?P<b>\d+) version (?P<vb>\d+)`), job: true, test: versionsOf,
		says: "rank {a} loads NCCL {va}, and rank {b} NCCL {vb}: the ranks must have one version",
		do:   "install the same NCCL on all nodes; check LD_LIBRARY_PATH and LD_PRELOAD for a second one",
		from: "NVIDIA/nccl init.cc",
	}, {
		id: "log.library-mismatch", grade: decisive, words: []string{"NCCL library is too old.", "NCCL library is not " +
			"backwards compatible."},
		form: re(`compiled with NCCL version (?P<want>[\d.]*\d),? but is running with NCCL library version ` +
			`(?P<has>[\d.]*\d)`),
		says: "{who} was compiled for NCCL {want}, and loads NCCL {has}, which does not fit",
		do: "pip list | grep -i nccl, and ldd of the program: install the NCCL that it was compiled for, and look for " +
			"another libnccl.so in LD_LIBRARY_PATH and LD_PRELOAD",
		from: "NVIDIA/nccl dev_runtime.cc",
	}, {
		id: "log.imex", grade: decisive, words: []string{"is available but not working on this system. Check the IMEX"},
		form: re(`Check the (?P<what>IMEX (?:channel )?configuration)`),
		says: "the GPUs of {who} are connected to those of other trays (MNNVL), and NCCL cannot use it: the {what} does " +
			"not work",
		do: "nvidia-imex-ctl -N on each node: all must be READY in one domain; the container needs " +
			"/dev/nvidia-caps-imex-channels/channel0 (in Kubernetes a ComputeDomain). NCCL_MNNVL_ENABLE=0 goes on without",
		from: "NVIDIA/nccl mnnvl.cc",
	}, {
		id: "log.gpu-ecc", grade: decisive, words: []string{"P2P is disabled between NVLINK connected GPUs"},
		form: re(`connected GPUs (?P<a>\d+) and (?P<b>\d+)`),
		says: "GPUs {a} and {b} of {where} are connected by NVLink, and the driver has switched it off between them: as a " +
			"rule an error of the hardware",
		do: "drain that node; nvidia-smi topo -p2p r and nvidia-smi nvlink -s show the link, dmesg | grep Xid what was " +
			"before; reset the GPUs or reboot, and replace the part if it happens again. NCCL_IGNORE_DISABLED_P2P=1 goes on",
		from: "NVIDIA/nccl graph/paths.cc",
	}, {
		id: "log.duplicate-gpu", grade: decisive, words: []string{"Multiple Ranks are using the same GPU"},
		says: "several ranks of {where} use the same GPU or a part",
		do: "choose the GPU by the local rank: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])), and start no more " +
			"processes than GPUs; where it is meant, NCCL_MULTI_RANK_GPU_ENABLE=1",
		from: "NVIDIA/nccl init.cc",
	}, {
		id: "log.env-invalid", grade: decisive, words: []string{"Invalid NCCL_COMM_ID, please use format"},
		says: "NCCL_COMM_ID of {who} is no address with a port",
		do:   "unset NCCL_COMM_ID (env | grep NCCL_, /etc/nccl.conf), or write HOST:PORT of rank 0",
		from: "NVIDIA/nccl bootstrap.cc",
	}, {
		id: "log.interface-not-found", grade: decisive, words: []string{"verify NCCL_OOB_NET_IFNAME"},
		form: re(`no device found (?:matching|after excluding) (?P<if>\S+?),? verify`),
		says: "no interface of {who} fits NCCL_OOB_NET_IFNAME[ ({if})]",
		do:   "compare ip -br addr with NCCL_OOB_NET_IFNAME on that node, or unset it",
		from: "NVIDIA/nccl bootstrap.cc",
	}, {
		id: "log.nccl-too-old", grade: family, with: "nccl.older-than-gpu",
		words: []string{"free(): ", "malloc(): ", "corrupted size vs", "munmap_chunk(): ", "corrupted double-linked",
			"double free or corruption"},
		form: re(`^(?:free|malloc|munmap_chunk)\(\): \w|^corrupted (?:size|double)|double free or corruption`),
		says: "the memory of {who} is damaged, and its NCCL is older than its GPUs ({fact}): that NCCL does not know them",
		do: "install an NCCL that knows the GPU (2.25 or newer) on all nodes: pip install -U " +
			"nvidia-nccl-cu12, or an image with a newer torch",
		need: []string{"a run with the newer NCCL", "the stack of the crash (a core file, PYTHONFAULTHANDLER=1)"},
		from: "NVIDIA/nccl release notes",
	},
}

const graphDo = "unset NCCL_GRAPH_FILE and NCCL_TOPO_FILE for the job, also in /etc/nccl.conf and ~/.nccl.conf and " +
	"in " +
	"the image, where they are for another type or size of machine: NCCL then finds the GPUs itself. A file must be " +
	"made (NCCL_GRAPH_DUMP_FILE, NCCL_TOPO_DUMP_FILE) by the same NCCL on the same machine"

// topologyFacts are lines that these causes need.
var topologyFacts = []cause{
	{id: "fabric-manager.version", grade: fact, words: []string{"abricmanager", "abric manager", "abric Manager"},
		form: re(`[Ff]abric.?[Mm]anager.*?(?P<v>version) (?:\S+ (?:don't|doesn't|does not) match|mismatch)`)},
	{id: "nccl.graph-file", grade: fact, words: []string{"NCCL_GRAPH_FILE set "},
		form: re(`NCCL_GRAPH_FILE set (?:by environment )?to (?P<v>\S+)`)},
	{id: "gpu.blackwell", grade: fact, words: blackwells, form: re(blackwell)},
	{id: "nccl.before-blackwell", grade: fact, words: []string{"NCCL version "}, form: re(ncclForm),
		test: beforeBlackwell},
	{id: "nccl.older-than-gpu", grade: fact, with: "gpu.blackwell", words: []string{"NCCL version "}, form: re(ncclForm),
		test: func(v map[string]string) bool { return beforeBlackwell(v) && both(v, v["v"], v[latestFact]) }},
	{id: "nccl.older-than-gpu", grade: fact, with: "nccl.before-blackwell", words: blackwells, form: re(blackwell),
		test: func(v map[string]string) bool { return both(v, v[latestFact], v["v"]) }},
}

const (
	ncclForm  = `NCCL version (?P<v>2\.\d+\.\d+)`
	blackwell = `\b(?P<v>G?B[23]00)\b`
)

var blackwells = []string{"B200", "B300"}

// both makes a version and a GPU one value.
func both(v map[string]string, version, gpu string) bool {
	v["v"] = "NCCL " + version + ", " + gpu
	return true
}

// beforeBlackwell says whether a version 2.X.Y of NCCL is older than the first one that was made for these GPUs.
func beforeBlackwell(v map[string]string) bool {
	x := strings.Split(v["v"], ".")
	return len(x) > 1 && number(x[1]) < 25
}

// versionsOf writes NCCL's numbers of versions as people do: 22105 as 2.21.5.
func versionsOf(v map[string]string) bool {
	for _, name := range []string{"va", "vb"} {
		if n := number(v[name]); n >= 10000 {
			v[name] = strconv.Itoa(n/10000) + "." + strconv.Itoa(n/100%100) + "." + strconv.Itoa(n%100)
		}
	}
	return true
}
