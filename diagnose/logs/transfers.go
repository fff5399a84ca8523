package logs

const transferFix = "look at the output and the stack of that rank (py-spy dump); then test the path alone: " +
	"nvidia-smi nvlink -s, and DeepEP's own tests (tests/test_intranode.py, test_internode.py)"

var transferNeed = []string{"the output and the stack of all ranks of that group",
	"a run of DeepEP's own tests on these nodes", "the versions of DeepEP and NVSHMEM"}

// transferCauses are errors of libraries that move data between GPUs without NCCL: DeepEP, NVSHMEM and UCX.
var transferCauses = []cause{
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
		id: "log.nvshmem-transport", grade: family, words: []string{"nable to create ah", "ibv_create_ah"},
		form: re(`(?:(?P<mod>\w+)\.cpp:\d+: .*)?(?:[Uu]nable to create ah\b|ibv_create_ah\b.*(?:fail|error|unable))`),
		says: "NVSHMEM of {who} cannot make an address handle on its RDMA device[ ({mod})]: the device has no usable port " +
			"or GID for it, or its driver refuses it",
		do: "compare show_gids and ibv_devinfo in the job's container with NVSHMEM_IB_GID_INDEX and NVSHMEM_HCA_LIST, and " +
			"leave devices without an active port out; NVSHMEM_IB_ENABLE_IBGDA=0 shows whether the rest works",
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
