package logs

var ucxNeed = []string{"a run with UCX_LOG_LEVEL=info", "ucx_info -d of each node"}

// rdmaCauses are errors of InfiniBand, RoCE, EFA and UCX.
var rdmaCauses = []cause{
	{
		id: "log.ib-device", grade: decisive, words: []string{"local catastrophic error", "IBV_EVENT_DEVICE_FATAL",
			"async fatal event", "device fatal"},
		form: re(`(?:async (?:fatal )?e(?:vent|rror)|NET/IB|IBV_EVENT).*(?:local catastrophic error|fatal)|DEVICE_FATAL`),
		says: "an RDMA adapter of {where} reported a fatal error: it no longer works",
		do: "look at dmesg of that node (mlx5_core: health, internal error); reset the adapter or reboot the node, update " +
			"its firmware, and replace it if it happens again",
		from: "Linux IB_EVENT_DEVICE_FATAL, NVIDIA/nccl net_ib.cc",
	}, {
		id: "log.ib-port-down", grade: decisive,
		words: []string{"Got async event : ", "async fatal event", "Got async error"},
		form:  re(`(?:port error|port_err|PORT_ERR|device fatal|fatal event on)`),
		says:  "a port of an InfiniBand or RoCE device on {where} went down while the job ran",
		do:    "check the cable and the switch port: ibstat, ethtool, and the link counters on that node",
		from:  "NVIDIA/nccl net_ib.cc",
	}, {
		id: "log.ib-device-not-usable-in-container", grade: decisive, words: []string{"ibv_modify_qp failed"},
		form: re(`NCCL.*(?:No such device|with 19 )`),
		says: "{who} sees an RDMA device that has no usable GID in its network namespace",
		do:   "use hostNetwork, or name in NCCL_IB_HCA only the devices that show_gids lists in the container",
	}, {
		id: "log.rdma-connect", grade: family, words: []string{"ibv_modify_qp failed"},
		form: re(`No such device|errno 19\b|with 19 `),
		says: "{who} cannot connect a queue of an RDMA device (No such device): the device has no GID of the index " +
			"that the program uses, or not in this network namespace",
		do: "compare show_gids, in the job's container, with the GID index and the device that the program was given; " +
			"use the host's network in a container",
		need: []string{"show_gids and ibv_devinfo of both nodes, in the job's container", "the program's settings of " +
			"device and GID index"},
		from: "Linux ib_uverbs, ibv_modify_qp(3)",
	}, {
		id: "log.rdma-no-route", grade: family, words: []string{"ibv_modify_qp failed"},
		form: re(`ibv_modify_qp failed with (?:error )?(?:(?:101|113) )?(?P<why>Network is unreachable|No route to host)` +
			`(?:.* on dev (?P<dev>[\w.-]+)(?::\d+)?)?(?:.*local GID index (?P<index>\d+))?` +
			`(?:.*remote GID (?P<gid>[\da-fA-F:.]+))?`),
		says: "the RDMA device[ {dev}] of {who} has no route to the GID[ {gid}] of the other end ({why})[; it uses its GID " +
			"{index}]",
		do: "compare show_gids of both ends: NCCL_IB_GID_INDEX must name a GID of RoCE v2 whose address reaches the other's" +
			" (ping -I between the rails); give the rails routes to each other, or let only those of one network be used " +
			"(NCCL_IB_HCA, NCCL_CROSS_NIC=0)",
		need: []string{"show_gids and ip route of both nodes, in the job's container",
			"which devices each rank uses (NCCL_DEBUG=INFO: NET/IB : Using)"},
		from: "NVIDIA/nccl ibvwrap.cc, ibv_modify_qp(3)",
	}, {
		id: "log.nccl-gid-namespace", grade: family, soft: true, words: []string{"ncclIbRoceGetVersionNum"},
		form: re(`WARN.*ncclIbRoceGetVersionNum: (?P<why>.+)`),
		says: "NCCL of {who} cannot read the type of a GID ({why}): in a container it asks also for GIDs of other network " +
			"namespaces, and NCCL before 2.26 fails then",
		do: "use NCCL 2.26 or newer; or name the GID that show_gids lists in the container (NCCL_IB_GID_INDEX), or start " +
			"the container with the host's network",
		need: []string{"the line NCCL version", "show_gids in the job's container"},
		from: "NVIDIA/nccl#1573",
	}, {
		id: "log.nvshmem-transport", grade: family, soft: true, words: []string{"nvidia_peermem detected"},
		form: re(`neither nv_peer_mem,? n?or nvidia_peermem detected`),
		says: "NVSHMEM of {who} leaves its transport over InfiniBand out: neither nvidia_peermem nor nv_peer_mem is loaded " +
			"on {where}",
		do: "modprobe nvidia-peermem on that node (lsmod | grep peermem), and mount /sys into the container; without it " +
			"only GPUs that NVLink or PCIe connects reach each other",
		need: []string{"lsmod of that node (nvidia_peermem)", "nvidia-smi topo -p2p r of that node"},
		from: "NVSHMEM transport/ibrc/ibrc.cpp",
	}, {
		id: "log.nvshmem-transport", grade: open, soft: true, words: []string{"is not accessible, exiting"},
		form: re(`\[GPU (?P<a>\d+)\] Peer GPU (?P<b>\d+) is not accessible`),
		says: "NVSHMEM of {who} finds no way from GPU {a} to GPU {b}: neither NVLink or PCIe, nor a transport over a network",
		need: []string{"a run with NVSHMEM_DEBUG=INFO: which transports it leaves out, and why",
			"nvidia-smi topo -p2p r, and lsmod (nvidia_peermem) of that node", "ibv_devinfo in the job's container"},
		from: "NVSHMEM host/topo/topo.cpp",
	}, {
		id: "log.rdma-connect", grade: family, words: []string{"ibv_"},
		form: re(`(?P<call>ibv_(?:create|alloc|open|query|reg)\w*)(?:\([^)]*\))? .*Connection timed out`),
		says: "the RDMA device of {where} does not answer its driver ({call}: Connection timed out)",
		do:   "look at dmesg of that node (mlx5), reset or replace the device; UCX_TLS=tcp shows whether the rest works",
		need: []string{"dmesg and ibv_devinfo of that node"},
		from: "openucx/ucx ib_iface.c",
	}, {
		id: "log.rdma-resources", grade: family, words: []string{"ibv_create_cq", "ibv_create_qp", "ibv_create_srq"},
		form: re(`Call to (?P<call>ibv_create_\w+) failed.*(?:Cannot allocate memory|with 12\b|ENOMEM)`),
		says: "{who} cannot make a queue of its RDMA device ({call}) for lack of memory: too little memory may be locked, " +
			"or the device has no more queues",
		do: "in the job's own shell ulimit -l must say unlimited; where it does, end other jobs of that node, or use fewer " +
			"queues (NCCL_IB_QPS_PER_CONNECTION, fewer ranks on a node)",
		need: []string{"ulimit -l as the job sees it (under srun or mpirun)", "rdma resource show of that node, and " +
			"ibv_devinfo -v (max_cq, max_qp)", "free -g and dmesg of that node"},
		from: "ibv_create_cq(3), NVIDIA/nccl ibvwrap.cc",
	}, {
		id: "log.rdma-registration", grade: family,
		words: []string{"ibv_reg_mr", "ibv_create_cq", "ibv_create_qp", "reg_mr", "Libfabric error: (-12)",
			"post internal receive buffers", "cannot create cq", "create extended CQ"},
		form: re(`Cannot allocate memory|with 12 |ENOMEM|post internal receive buffers|rdma_iba_hca_init.*create cq`),
		not:  []string{"Please set max locked memory"}, // of UCX, which goes on without that device
		says: "{who} cannot lock memory for RDMA: the limit of locked memory, or too little free memory",
		do:   "on that node, in the job's own shell: ulimit -l must say unlimited",
		need: []string{"ulimit -l as the job sees it (under srun or mpirun)", "free -g and dmesg of that node",
			"where the limit is right, with UCX: a run with UCX_IB_REG_METHODS=direct, which holds fewer registrations"},
		from: "NVIDIA/nccl-tests#206",
	}, {
		id: "log.gdr-peer-memory", grade: family, words: []string{"ibv_reg_mr", "ibv_reg_dmabuf_mr"},
		form: re(`Bad address|Invalid argument|Operation not supported|Protocol not supported`),
		not:  []string{"  DIAG ", "NCCL INFO"}, // of UCX, which has another way
		says: "{who} cannot register GPU memory for RDMA: nvidia-peermem is not loaded, or DMA-BUF does not work",
		do:   "modprobe nvidia-peermem on that node; NCCL_NET_GDR_LEVEL=LOC shows whether GPUDirect is the cause",
		need: []string{"lsmod of that node (nvidia_peermem)", "a run with NCCL_NET_GDR_LEVEL=LOC"},
	}, {
		id: "log.efa-gpu-memory", grade: family, words: []string{"Unable to register memory (type = 2)"},
		form: re(`RC: -(?P<code>\d+)`),
		says: "the OFI plugin of {who} cannot register GPU memory with the EFA (error {code}): driver, libfabric and " +
			"NCCL do not fit together",
		do: "install a newer EFA installer (driver and libfabric) in host and image; FI_EFA_SET_CUDA_SYNC_MEMOPS=0 " +
			"helps with libfabric before 1.20 and NCCL 2.19 or newer",
		need: []string{"fi_info --version and the version of the EFA driver on that node"},
		from: "aws/aws-ofi-nccl#584",
	}, {
		id: "log.gid-change", grade: family, with: "rdma.gid-change",
		words: []string{"Got completion with error 12", "Got completion from peer", "transport retry count exceeded",
			"IBV_WC_RETRY_EXC_ERR"},
		form: re(`error 12|status=(?:IBV_WC_RETRY_EXC_ERR\()?12|[Rr]etry|RETRY`),
		says: "the GIDs of an RDMA device of {where} changed while the job ran: an address was added or removed, and " +
			"transfers get no answer",
		do: "leave the addresses of the RDMA interfaces as they are during a job (NetworkManager, DHCP, a bond's " +
			"failover); start again, and compare show_gids before and after",
		need: []string{"show_gids of both nodes, and the kernel's log of that time"},
		from: "NVIDIA/nccl#394",
	}, {
		id: "log.gdr-peer-memory", grade: family, words: []string{"Got completion "},
		form: re(`(?:error|status=) ?(?:IBV_WC_LOC_PROT_ERR\(|IBV_WC_REM_ACCESS_ERR\()?(?P<code>4|10)\b`),
		says: "the device of {who} may not reach the memory of a transfer (status {code}): GPUDirect, or ACS of PCIe",
		do: "NCCL_NET_GDR_LEVEL=LOC shows whether GPUDirect is the cause; then load nvidia-peermem, or switch off ACS " +
			"on the bridges between GPU and HCA, and the IOMMU",
		need: []string{"lsmod (nvidia_peermem), dmesg and lspci -vvv (ACSCtl) of that node"},
		from: "NVIDIA/nccl#928",
	}, {
		id: "log.gdr-peer-memory", grade: family, words: []string{"ocal protection", "emote access"},
		form: re(`UCX +(?:ERROR|DIAG|WARN) +(?P<what>[Ll]ocal protection|[Rr]emote access)(?: error)? on (?P<dev>[\w:.-]+)`),
		says: "{dev} of {who} may not reach the memory of a transfer of UCX ({what} error): GPU memory without " +
			"GPUDirect, a buffer that was freed or is registered for another device, or ACS of PCIe",
		do: "look at the registration of GPU memory: lsmod | grep peermem (or DMA-BUF), and UCX built with CUDA or ROCm " +
			"(ucx_info -d | grep -E 'cuda|rocm'); UCX_IB_GPU_DIRECT_RDMA=n or UCX_TLS=tcp,cuda_copy shows whether that is it. " +
			"A peer that ended gives it, too",
		need: []string{"lsmod (nvidia_peermem), dmesg and lspci -vvv (ACSCtl) of that node",
			"the output of the other end: did it end, or free the buffer, before"},
		from: "openucx/ucx ib_mlx5_log.c",
	}, {
		id: "log.rdma-peer-gone", grade: ended, words: []string{"Got completion from peer "},
		form: re(`from peer (?P<peer>[\w.:-]+?)<\d+>.*?(?:error|status=)\s?(?:IBV_WC_WR_FLUSH_ERR\()?5\b`),
		says: "{who} lost its RDMA connection to the peer {peer} (error 5, transfers flushed): that process ended, or the " +
			"connection broke before",
		need: []string{"the output of the ranks on {peer}: did one end before", "the first completion error of all ranks",
			"link state and error counters of both ports (ibstat, ethtool -S)"},
		from: "NVIDIA/nccl net_ib.cc",
	}, {
		id: "log.rdma-peer-gone", grade: cascade, words: []string{"Got completion "},
		form: re(`(?:error|status=)\s?(?:IBV_WC_WR_FLUSH_ERR\()?5\b`),
		says: "{who} had RDMA transfers flushed after another error",
		need: []string{"the first completion error of all ranks"},
	}, {
		id: "log.rdma-completion", grade: open, words: []string{"retry count exceeded on "},
		form:  re(`[Rr]etry count exceeded on (?P<dev>[\w:]+)/(?P<layer>RoCE|IB)`),
		later: []string{" dgid "},
		more:  re(`\bsgix (?P<gid>\d+) dgid (?:(?P<local>fe80:[\da-fA-F:]+)|(?P<dgid>[\da-fA-F:.]+))`),
		says: "UCX of {who} got no answer to an RDMA transfer on {dev} ({layer})[ to {dgid}]: GID, link, switch, or the " +
			"peer ended[; it uses GID {gid}, and the link-local address {local}]",
		need: []string{"for RoCE: show_gids of both nodes, and a run with UCX_IB_GID_INDEX set to the GID of RoCE v2 with " +
			"an " +
			"IPv4 address", "link state and error counters of both ports (ibstat, ethtool -S): RoCE drops without PFC or ECN",
			"the output of the peer: did it end before", "a run with UCX_TLS=tcp: does the rest work"},
		from: "openucx/ucx ib_mlx5_log.c",
	}, {
		id: "log.rdma-completion", grade: open,
		words: []string{"Got completion with error", "Got completion from peer", "transport retry count exceeded",
			"IBV_WC_RETRY_EXC_ERR", "RNR retry counter exceeded", "Transport retry count exceeded"},
		form:   opt(`(?:error|status=) ?(?P<code>\w+)`),
		not:    []string{"error 4,", "error 10,", "WR_FLUSH", "error 5,", "status=5 "},
		unless: re(refusedForm + `|` + notReadyForm),
		says:   "an RDMA transfer of {who} got no answer from its peer: GID, rail, link, switch, or the peer ended",
		need: []string{
			"show_gids on both nodes, and NCCL_IB_GID_INDEX", "the rails: does NCCL_CROSS_NIC=0 change it",
			"link state and error counters of both ports (ibstat, ethtool -S)",
			"the output of the peer: did it end before",
		},
		from: "NVIDIA/nccl#426",
	}, {
		id: "log.rdma-connect", grade: open, words: []string{"Call to ibv_create_qp failed", "Call to ibv_create_cq failed"},
		form: re(`Call to (?P<call>ibv_create_\w+) failed\s*$`), // newer ones add the reason
		says: "{who} cannot make a queue for RDMA ({call}): as a rule the limit of locked memory is too small",
		need: []string{"ulimit -l as the job sees it (under srun or mpirun): it must say unlimited",
			"ibv_devinfo of that node, in the job's container", "how many processes of that node use the device"},
		from: "NVIDIA/nccl ibvwrap.cc",
	}, {
		id: "log.rdma-connect", grade: open,
		words: []string{"ibv_modify_qp failed", "ibv_query_gid", "Unable to open device", "ibv_open_device failed",
			"ibv_create_qp failed", "ibv_create_cq failed", "ibv_reg_mr", "ibv_get_device_list failed",
			"couldn't load driver", "modify QP to RT", "create QP", "create IB resources", "create CQ", "allocate MR"},
		form: re(`WARN|[Ff]ailed|error|Unable|Couldn't`),
		not:  []string{"couldn't load driver", "NCCL INFO"},
		says: "{who} cannot set up an RDMA connection: {error}",
		need: []string{
			"show_gids and ibv_devinfo of both nodes, in the job's container",
			"which devices each rank uses (NCCL_DEBUG=INFO: NET/IB : Using)",
			"can the two addresses reach each other (ping -I between the rails)",
		},
		from: "NVIDIA/nccl#2013",
	}, {
		id: "log.rdma-connect", grade: open, words: []string{"RDMA_CM_EVENT_"},
		form: re(`(?P<event>RDMA_CM_EVENT_(?:ADDR_ERROR|ROUTE_ERROR|CONNECT_ERROR|UNREACHABLE|REJECTED))` +
			`(?:.*?(?:error|status):? ?(?P<code>-?\d+))?`),
		says: "the RDMA connection of {who} fails ({event}[, error {code}]): no RDMA device has the address (ADDR), no way " +
			"leads to the other end (ROUTE, UNREACHABLE), or no process listens there (REJECTED)",
		need: []string{"rdma link and ip -br addr of both hosts: which RDMA device has which address",
			"does the other process run and listen, and what is its output", "ping -I between the two addresses"},
		from: "rdma_get_cm_event(3)",
	}, {
		id: "log.efa", grade: open, words: []string{"efa_rdm_txe_handle_error", "efa_rdm_rxe_handle_error"},
		not:  endedPeers,
		form: opt(`message: (?P<why>.+?) My EFA.*Peer host id: (?P<host>[\w-]+)`),
		says: "a transfer of {who} over the EFA failed[: {why}][, to the host {host}]",
		need: []string{"does the security group let all traffic through between its members, in and out",
			"the output of the peer: did it end before", "the versions of libfabric and the EFA driver of both hosts"},
		from: "libfabric prov/efa",
	}, {
		id: "log.nvshmem-transport", grade: family, words: []string{"cannot allocate mlx5dv_devx_uar"},
		says: "NVSHMEM's IBGDA of {who} may not make objects of the RDMA device (DEVX): the container lacks the rights",
		do: "start the container with --privileged, or with CAP_NET_RAW, CAP_SYS_RAWIO and IPC_LOCK and all of " +
			"/dev/infiniband; NVSHMEM_IB_ENABLE_IBGDA=0 shows whether the rest works",
		need: []string{"capsh --print and ls -l /dev/infiniband in the container"},
		from: "NVSHMEM transport/ibgda/ibgda.cpp",
	}, {
		id: "log.nvshmem-transport", grade: family, soft: true, words: []string{"GPU cannot map UAR of device"},
		form: re(`cannot map UAR of device (?P<dev>\w+)`),
		says: "NVSHMEM's IBGDA of {who} cannot map registers of {dev} for the GPU: the driver does not allow it",
		do: "load the driver with NVreg_EnableStreamMemOPs=1 and NVreg_RegistryDwords=\"PeerMappingOverride=1;\", and " +
			"nvidia-peermem; then reboot that node",
		need: []string{"cat /proc/driver/nvidia/params of that node"},
		from: "NVSHMEM transport/ibgda/ibgda.cpp",
	}, {
		id: "log.nvshmem-transport", grade: family, with: "nvshmem.no-mlx5", words: []string{"init failed for transport: "},
		form: re(`init failed for transport: (?P<what>\w+)`),
		says: "NVSHMEM of {who} cannot start its transport {what}, which needs an mlx5 device: the devices here are others",
		do: "use nodes with ConnectX adapters, or another transport: NVSHMEM_IB_ENABLE_IBGDA=0 and " +
			"NVSHMEM_REMOTE_TRANSPORT=ibrc, libfabric or none (one node)",
		need: []string{"ibv_devinfo in the container of that node"},
		from: "NVSHMEM transport/ibgda/ibgda.cpp",
	}, {
		id: "log.nvshmem-transport", grade: family,
		words: []string{"Unable to initialize any transports", "nvshmem detect topo failed",
			"init failed for transport: "},
		says: "NVSHMEM of {who} can open no transport: no RDMA device that it can use, or a driver that it lacks",
		do: "compare ibv_devinfo in the job's container with NVSHMEM_REMOTE_TRANSPORT and NVSHMEM_HCA_LIST; IBGDA needs " +
			"the driver's option PeerMappingOverride=1 and nvidia-peermem",
		need: []string{"NVSHMEM_DEBUG=INFO of that rank", "ibv_devinfo in the container of that node"},
		from: "NVSHMEM src/host/transport/transport.cpp",
	}, {
		id: "log.net-mismatch", grade: decisive,
		words: []string{"Number of network devices", "NET device count mismatch", "mismatch in number of NET"},
		form:  re(`(?i)mismatch|differ`),
		says:  "the nodes have different numbers of network devices for NCCL",
		do:    "list the same number of devices in NCCL_IB_HCA on every node",
	}, {
		id: "log.ucx-transport", grade: family,
		words: []string{
			"no usable transports/devices",
			"no supported transports",
			"is not available, please use one or more of",
			"no active messages transport to",
			"no remote registered memory access transport",
		},
		form: re(`UCX|ucp|uct|ucs`),
		says: "UCX of {who} has no transport or device that fits UCX_TLS and UCX_NET_DEVICES",
		do:   "compare UCX_TLS and UCX_NET_DEVICES with ucx_info -d on that node",
		need: []string{"ucx_info -d of each node"},
	}, {
		id: "log.ucx-transport", grade: family, words: []string{"Destination is unreachable"},
		form: re(`UCX|ucp|uct|ucs`),
		says: "UCX of {who} finds no way to another process: no transport or device of UCX_TLS and UCX_NET_DEVICES " +
			"serves both",
		do: "compare ucx_info -d of both nodes with UCX_TLS and UCX_NET_DEVICES: both need a network in common; " +
			"UCX_TLS=tcp shows whether the rest works",
		need: []string{"ucx_info -d of each node", "a run with UCX_LOG_LEVEL=info"},
		from: "openucx/ucx wireup/select.c",
	}, {
		id: "log.ucx", grade: open, words: []string{"UCX  ERROR", "UCX ERROR", "UCX  FATAL"},
		not:    []string{"failed to get boot id", "vfs_fuse.c"}, // it goes on without (src/ucs)
		unless: re(noRDMACM),
		says:   "UCX of {who} reports: {error}", need: ucxNeed,
	}, {
		id: "log.ucx", grade: open, but: "ucx.no-rdmacm", words: []string{"ailed to create UCP "},
		says: "UCX of {who} reports: {error}", need: ucxNeed,
	},
}
