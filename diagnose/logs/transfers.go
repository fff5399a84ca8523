package logs

const transferFix = "look at the output and the stack of that rank (py-spy dump); then test the path alone: " +
	"nvidia-smi nvlink -s, and DeepEP's own tests (tests/test_intranode.py, test_internode.py)"

var transferNeed = []string{"the output and the stack of all ranks of that group",
	"a run of DeepEP's own tests on these nodes", "the versions of DeepEP and NVSHMEM"}

// transferCauses are errors of libraries that move data between GPUs without NCCL: DeepEP, NVSHMEM, UCX and Mooncake.
var transferCauses = []cause{
	{
		id: "log.wrong-results", grade: decisive, stays: true, words: []string{"Out of bounds values : ",
			"DATA VALIDATION ERROR: "},
		form: re(`Out of bounds values : (?P<n>[1-9]\d*)|DATA VALIDATION ERROR: \S+ exited with status [1-9]`),
		says: "a collective gave wrong results[: {n} values are out of bounds], so data change on their way, or in a GPU",
		do: "narrow it down by runs of the same test: on one node, on each pair of nodes, with NCCL_P2P_DISABLE=1 (PCIe's " +
			"access control or the IOMMU), with NCCL_NET_GDR_LEVEL=LOC (GPUDirect RDMA), with another NCCL; then test the " +
			"part that is left: dcgmi diag -r 3, dmesg, counters of the links",
		from: "NVIDIA/nccl-tests common.cu, OSU micro-benchmarks",
	},
	{
		id: "log.deepep-timeout", grade: family, words: []string{"DeepEP timeout check failed"},
		form: re(`rank ?[=:] ?(?P<rank>\d+), thread ?[=:] ?(?P<peer>\d+), value ?[=:] ?[1-9]`),
		says: "{who} waited in DeepEP's barrier for rank {peer} of its group, which did not reach it",
		do:   transferFix, need: transferNeed, from: "deepseek-ai/DeepEP csrc/kernels/utils.cuh",
	}, {
		id: "log.deepep-timeout", grade: family, wraps: true, words: []string{"DeepEP timeout check failed"},
		form: opt(`rank ?[=:] ?(?P<rank>\d+)`),
		says: "{who} waited in DeepEP's barrier for another rank of its group",
		do:   transferFix, need: transferNeed, from: "deepseek-ai/DeepEP csrc/kernels/utils.cuh",
	}, {
		id: "log.deepep-timeout", grade: family, words: []string{"DeepEP "},
		form: re(`DeepEP (?:error: )?(?:(?P<op>[a-zA-Z][\w ()/-]*?) (?:timeout|timed out)|timeout \((?P<op>[\w ]+)\)|` +
			`timeout for (?P<op>[\w ]+)(?:, rank (?P<rank>\d+))?)` +
			`(?:.*?\b(?:src|dst) (?P<kind>NVL|RDMA)(?: lane)?: ?(?P<peer>\d+))?`),
		says: "DeepEP of {who} got no data in time ({op})[, with {kind} rank {peer} as the other side]: that rank hangs or " +
			"failed, or the path to it does not work (NVLink, or NVSHMEM's RDMA between nodes)",
		do: transferFix, need: transferNeed, from: "deepseek-ai/DeepEP csrc/kernels",
	}, {
		id: "log.library-mismatch", grade: family, with: "ucx.version",
		words: []string{"NIXL_ERR_", "ucp_init", "PML ucx cannot be selected", "Failed to initialize UCX"},
		form: re(`NIXL_ERR_(?:BACKEND|NOT_SUPPORTED|UNKNOWN)|ucp_init\w*(?:\(.*\))? ` +
			`.*(?:fail|error)|selected|initialize UCX`),
		says: "{who} loads an older UCX than the one that it was built for ({fact}), and UCX, or what uses it, fails",
		do: "look for the UCX that is loaded (ldd of the program or plugin, ucx_info -v): put the newer one first in " +
			"LD_LIBRARY_PATH, or install it on all nodes and in the image",
		need: []string{"ucx_info -v, and LD_LIBRARY_PATH as the job sees it"},
		from: "openucx/ucx ucp_context.c",
	}, {
		id: "log.library-mismatch", grade: maybe, soft: true, warns: true, words: []string{"UCP version is incompatible"},
		form: re(`required: (?P<want>[\d.]+), actual: (?P<has>[\d.]+)`),
		says: "{who} loads UCX {has}, and was built for {want}; many programs work all the same",
		need: []string{"does the job go on after it: the end of the output of all ranks",
			"ucx_info -v, and LD_LIBRARY_PATH as the job sees it: which UCX is first"},
		from: "openucx/ucx ucp_context.c",
	}, {
		id: "log.nvshmem-transport", grade: maybe, soft: true, words: []string{"is not enumerated as an mlx5 device"},
		form: re(`device (?P<dev>[\w.-]+) is not enumerated as an mlx5`),
		says: "NVSHMEM's IBGDA of {who} leaves {dev} out: it takes only adapters of NVIDIA (mlx5), and this one is " +
			"another, or its driver is",
		need: []string{"ibv_devinfo in the job's container: does the node have an mlx5 device",
			"a run with NVSHMEM_IB_ENABLE_IBGDA=0, or NVSHMEM_REMOTE_TRANSPORT=libfabric"},
		from: "NVSHMEM transport/ibgda/ibgda.cpp",
	}, {
		id: "log.nvshmem-transport", grade: family, words: []string{"nable to create ah", "ibv_create_ah"},
		form: re(`(?:(?P<mod>\w+)\.cpp:\d+: .*)?(?:[Uu]nable to create ah\b|ibv_create_ah\b.*(?:fail|error|unable))`),
		not:  []string{"NCCL WARN", "UCX  "},
		says: "NVSHMEM of {who} cannot make an address handle on its RDMA device[ ({mod})]: the device has no usable port " +
			"or GID for it, or its driver refuses it",
		do: "compare show_gids and ibv_devinfo in the job's container with NVSHMEM_IB_GID_INDEX and NVSHMEM_HCA_LIST, and " +
			"leave devices without an active port out; NVSHMEM_IB_ENABLE_IBGDA=0 shows whether the rest works. Where " +
			"they fit, build NVSHMEM anew for the rdma-core of that system",
		need: []string{"NVSHMEM_DEBUG=INFO of that rank", "ibv_devinfo -v and dmesg of that node"},
		from: "NVSHMEM transport/ibgda/ibgda.cpp",
	}, {
		id: "log.nvshmem-transport", grade: open, words: []string{"non-zero status: ", "NULL value "},
		form: re(`transport/\S*?(?P<mod>\w+)\.cpp:\d+: (?:NULL value|non-zero status: (?P<code>-?\d+):?) *(?P<what>.+)`),
		not:  []string{"ibv_", "detect topo failed"},
		says: "NVSHMEM's transport {mod} of {who} fails[ (status {code})]: {what}",
		need: []string{"NVSHMEM_DEBUG=INFO of that rank", "ibv_devinfo -v in the container of that node, and its dmesg",
			"a run with NVSHMEM_IB_ENABLE_IBGDA=0, or NVSHMEM_REMOTE_TRANSPORT=ibrc"},
		from: "NVSHMEM src/modules/transport",
	}, {
		id: "log.rdma-connect", grade: family, words: []string{"devx_obj_create(", "devx_umem_reg(", "gdaki"},
		form: re(`devx_(?:obj_create|umem_reg)\((?P<what>\w*)\) failed(?: on (?P<dev>\w+))?` +
			`(?:, syndrome (?P<syn>\w+))?: ?(?P<why>.+)|(?P<via>gdaki)\b.*(?:fail|error)`),
		not: []string{"memory pool"},
		says: "an RDMA device[, {dev},] of {where} refuses to make a queue or an object by DEVX[: {what}, {why}]" +
			"[ (syndrome {syn})][, which transfers started by the GPU ({via}) need]",
		do: "look at dmesg of that node (mlx5_core), its firmware and its limits (ibv_devinfo -v: max_qp, max_cq); reset " +
			"the device, or reboot the node or VM. UCX_IB_MLX5_DEVX=n goes without DEVX, UCX_TLS=^gdaki without the GPU",
		need: []string{"dmesg | grep mlx5 of that node", "ibv_devinfo -v, and the firmware's version"},
		from: "openucx/ucx ib_mlx5_dv.c",
	}, {
		id: "log.shm-too-small", grade: decisive, words: []string{"Not enough memory to write total of ",
			"shared memory open failed: No space left"},
		form: re(`ot enough memory to write total of (?P<size>\d+) bytes|open failed: No space left`),
		says: "/dev/shm of {where} is full or too small for UCX[, which writes {size} bytes there]",
		do: "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm), and " +
			"remove files of ended runs there (df -h /dev/shm, ls -l /dev/shm)",
		from: "openucx/ucx mm_posix.c",
	}, {
		id: "log.rdma-registration", grade: open, soft: true, words: []string{"Please set max locked memory (ulimit -l)"},
		form: re(`Please set max locked memory.*?(?:\(current: (?P<limit>\d+) kbytes\)|$)`),
		says: "UCX of {who} cannot lock memory for RDMA: the limit of locked memory is too small[ ({limit} kB)]; it " +
			"goes on without that device where it has another way",
		need: []string{"ulimit -l in the job's own shell (under srun or mpirun, in its container): it must say unlimited " +
			"(LimitMEMLOCK=infinity for slurmd, containerd or docker; memlock in limits.conf for ssh; docker --ulimit " +
			"memlock=-1)", "does the job use that device: UCX_TLS=tcp or UCX_NET_DEVICES leaves it out"},
		from: "openucx/ucx ib_log.c",
	}, {
		id: "log.rdma-registration", grade: decisive, with: "ucx.memlock", soft: true,
		words: []string{"able to be opened in the pml framework", "PML ucx cannot be selected"},
		form:  opt(`^\[(?P<node>[\w.-]+):\d+\] PML ucx`),
		says: "UCX of {who} cannot lock memory for RDMA: the limit of locked memory is too small[ ({latest} kB)], so Open " +
			"MPI has no way for its messages",
		do: "ulimit -l must say unlimited in the job's own shell, under srun or mpirun: LimitMEMLOCK=infinity for slurmd, " +
			"memlock in limits.conf for ssh, docker --ulimit memlock=-1",
		from: "openucx/ucx ib_log.c",
	}, {
		id: "log.ucx-unreachable", grade: family, words: []string{" transport to "},
		form: re(`UCX +ERROR +no .*transport to .*?\b(?P<tl>(?:rc|ud|dc)\w*|tcp|srd)/(?P<dev>[\w.:-]+) - Destination is ` +
			`unreachable`),
		says: "UCX of {who} has {tl} on {dev}, and cannot reach the other process by it: the addresses or GIDs of " +
			"both ends are of different networks",
		do: "compare show_gids and ip -br addr of both hosts: name devices of one network on all of them " +
			"(UCX_NET_DEVICES), and " +
			"for RoCE a GID whose address reaches the other one (UCX_IB_GID_INDEX); over routers or bonds " +
			"UCX_IB_ROCE_REACHABILITY_MODE=all. UCX_TLS=tcp shows whether the rest works",
		need: []string{"ucx_info -d and show_gids of both hosts, in the job's container",
			"UCX_NET_DEVICES and UCX_IB_GID_INDEX of both"},
		from: "openucx/ucx wireup/select.c",
	}, {
		id: "log.ucx-peer", grade: open, words: []string{"tcp_ep 0x"},
		form: re(`tcp_ep \w+ \(state=CONNECTED\): (?P<call>\w+)\(\d*\) failed: (?P<why>.+)`),
		says: "UCX of {who} lost a connection (TCP) to another process that was set up before: {call} failed, {why}",
		need: []string{"the output of the other process: did it end before", "is TCP open between the hosts on all " +
			"ports: launch check", "UCX_NET_DEVICES of both ends, and ip -br addr: do they name the network of both hosts"},
		from: "openucx/ucx tcp_ep.c",
	}, {
		id: "log.gdr-peer-memory", grade: family, words: []string{"for GPU RDMA without nvidia-peermem"},
		form: re(`without nvidia-peermem(?: on CUDA device (?P<gpu>\d+) mapped to RNIC (?P<dev>\w+))?`),
		says: "Mooncake of {who} cannot use GPU memory for RDMA[ (GPU {gpu}, {dev})]: it was built without " +
			"nvidia-peermem, and " +
			"the GPU or its driver has no DMA-BUF",
		do: "modprobe nvidia-peermem on that node (lsmod | grep peermem), with a build of Mooncake that uses it; or " +
			"the open " +
			"kernel modules of the NVIDIA driver, which have DMA-BUF. MC_FORCE_TCP=true shows whether the rest works",
		need: []string{"lsmod of that node (nvidia_peermem)", "modinfo nvidia | grep -E 'license|version' of that node"},
		from: "kvcache-ai/Mooncake rdma_context.cpp",
	}, {
		id: "log.rdma-registration", grade: family, words: []string{"Failed to register memory 0x"},
		form: re(`Failed to register memory 0x[\da-f]+: (?P<why>Cannot allocate memory)`),
		says: "{who} cannot lock memory for RDMA: the limit of locked memory, or too little free memory",
		do:   "on that node, in the job's own shell: ulimit -l must say unlimited (docker --ulimit memlock=-1)",
		need: []string{"ulimit -l as the job sees it", "free -g and dmesg of that node"},
		from: "kvcache-ai/Mooncake rdma_context.cpp",
	}, {
		id: "log.gdr-peer-memory", grade: family, words: []string{"Failed to register memory 0x"},
		form: re(`Failed to register memory 0x[\da-f]+: (?P<why>[A-Z][\w ]+)`),
		says: "an RDMA device of {who} cannot register a buffer ({why}): as a rule GPU memory, without nvidia-peermem or " +
			"DMA-BUF, or a virtual function that does not permit it",
		do: "modprobe nvidia-peermem on that node (lsmod | grep peermem), and look at its dmesg; name only devices " +
			"next to the GPU. With Mooncake MC_FORCE_TCP=true shows whether the rest works",
		need: []string{"lsmod (nvidia_peermem) and dmesg of that node", "ibv_devinfo in the job's container"},
		from: "kvcache-ai/Mooncake rdma_context.cpp",
	}, {
		id: "log.rdma-connect", grade: open, words: []string{"Transport: No available RNIC", "] Failed to open device "},
		form: re(`Failed to open device (?P<dev>\w+) on port ?(?P<port>\d*) with GID ?(?P<gid>\d*)|No available RNIC`),
		says: "Mooncake of {who} finds no RDMA device that it can use[: {dev}][, GID index {gid}]",
		need: []string{"the lines before: why it left each device out", "ibv_devinfo -v and show_gids in the job's " +
			"container, " +
			"and ls -l /dev/infiniband", "the devices that the program names, and MC_GID_INDEX: does that GID exist"},
		from: "kvcache-ai/Mooncake rdma_transport.cpp",
	}, {
		id: "log.imex", grade: family, words: []string{"cuMemCreate"},
		form: re(`(?i)cuMemCreate\w*(?:\(.*\))? failed.*(?P<why>operation not permitted|CUDA_ERROR_NOT_PERMITTED)|` +
			`(?P<why>CUDA_ERROR_NOT_PERMITTED|operation not permitted)\b.*\bcuMemCreate\(.*?\)` +
			`(?: on (?P<node>[a-z][\w.-]*), rank ?= ?(?P<rank>\d+))?`),
		says: "{who} may not make GPU memory that other nodes can map (cuMemCreate: {why}): no IMEX channel for its " +
			"user or container, as a rule",
		do: "ls -l /dev/nvidia-caps-imex-channels in the container: it needs channel0 (nvidia-modprobe -c 0, or the " +
			"NVIDIA " +
			"driver's option NVreg_CreateImexChannel0=1; in Kubernetes a ComputeDomain), and nvidia-imex on each node",
		need: []string{"ls -l /dev/nvidia-caps-imex-channels in the container", "nvidia-imex-ctl -N of each node"},
		from: "CUDA driver API, CUDA_ERROR_NOT_PERMITTED",
	}, {
		id: "log.iommu", grade: maybe, soft: true, warns: true,
		words: []string{"Missing \"iommu=pt\"", "Missing \"amd_iommu=on\""},
		form:  re(`WARN Missing "(?P<what>[\w=]+)" from kernel command line`),
		says: "RCCL of {who} warns that {what} is missing from the kernel's command line, with which copies between " +
			"GPUs may hang; good runs print it, too",
		need: []string{"does the job go on after it: the end of the output of all ranks",
			"cat /proc/cmdline, and a run with NCCL_P2P_DISABLE=1: does it hang without copies between GPUs"},
		from: "ROCm/rccl init.cc",
	}, {
		id: "log.ucx-transport", grade: family, words: []string{"uct_iface_open("},
		form: re(`uct_iface_open\((?P<tl>\w+)/(?P<dev>[\w.:-]+)\) failed(?:: (?P<why>.+))?`),
		says: "UCX of {who} cannot open its device {dev} for {tl}[: {why}]",
		do: "leave {dev} out on all hosts (UCX_NET_DEVICES=NAME,… lists the ones to use), or correct it: ip addr show " +
			"{dev}, or ibv_devinfo -d {dev}",
		need: []string{"ucx_info -d and ip -br addr of that host, in the job's container"},
		from: "openucx/ucx uct_iface.c",
	}, {
		id: "log.wrong-interface", grade: family, words: []string{"dest_addr="},
		form: re(`dest_addr=\[?(?P<addr>[\da-fA-F.:]+?)\]?:(?P<port>\d+)\) failed: Network is unreachable`),
		says: "{who} has no route to {addr}, the address that UCX of another host gives",
		do: "on that host: ip route get {addr}; name the network that all hosts share: UCX_NET_DEVICES=NAME,… on all " +
			"hosts",
		need: []string{"ip -br addr and ip route of both hosts, in the job's container"},
		from: "openucx/ucx sock.c",
	}, {
		id: "log.ucx", grade: open, words: []string{"dest_addr="},
		form: re(`dest_addr=\[?(?P<addr>[\da-fA-F.:]+?)\]?:(?P<port>\d+)\) failed: (?P<why>.+)`),
		says: "UCX of {who} cannot connect to {addr} port {port} ({why}): that process has ended, a firewall, or an " +
			"interface that the hosts do not share",
		need: []string{"the output of the process on {addr}: did it end before", "is TCP open between the hosts on all " +
			"ports: launch check", "ip route get {addr} on this host, and UCX_NET_DEVICES"},
		from: "openucx/ucx sock.c",
	},
}
