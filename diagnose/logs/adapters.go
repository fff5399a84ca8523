package logs

// limitForm is how mlx5's driver reports in the kernel's log that a device has no more objects of a kind. A command
// that it refuses for another reason may be a question whether the firmware knows it.
const limitForm = `mlx5_core (?P<dev>[\da-f:]+\.\d).*?\b(?P<what>[A-Z][A-Z_]{4,})\(0x[\da-f]+\) .*failed, status ` +
	`(?P<why>limits exceeded|no resources)`

// noRDMACM is what UCX writes on a host without RDMA, before it goes on without that way to connect.
const noRDMACM = `UCX +\w+ +(?:rdma_create_event_channel failed: (?:No such (?:device|file)|Permission denied)|` +
	`failed to open CM on component rdmacm)`

const (
	objectsSays = "an RDMA adapter[, {dev},] of {where} has no more objects for a further process[ ({what}: {why})]: " +
		"too many processes or connections use it; its rights and the limit of locked memory do not matter here"
	objectsDo = "use fewer ranks or connections for each adapter (one for each GPU, several adapters, UCX_TLS with dc_x " +
		"in place of rc_x), and end other jobs of that node. Pages for doorbells (ALLOC_UAR) are as many as the BAR of the " +
		"adapter has room for: mlxconfig -d DEVICE set PF_LOG_BAR_SIZE=N raises it, after a reboot"
)

var objectsNeed = []string{"dmesg | grep mlx5_core of that node: which command reports limits exceeded",
	"rdma resource show, and how many processes of that node use the adapter"}

// refusedForm is a transfer that the other end, or the own adapter, does not take, and notReadyForm one for which the
// other end has no buffer.
const (
	refusedForm = `(?:error |status=)(?:IBV_WC_\w+\()?(?P<code>1|2|9|11)\b|Remote OP error on (?P<dev>[\w:.-]+)/`

	notReadyForm = `(?:error |status=)(?:IBV_WC_\w+\()?13\b|RNR retry counter exceeded(?: on (?P<dev>[\w:.-]+)/)?`
)

// adapterCauses are adapters that have no room for a process, or no way to the other end.
var adapterCauses = []cause{
	{
		id: "log.rdma-resources", grade: family, quiet: true, soft: true,
		words: []string{"failed, status limits exceeded", "failed, status no resources"},
		form:  re(limitForm),
		says:  objectsSays, do: objectsDo, need: objectsNeed, from: "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c",
	}, {
		id: "log.rdma-resources", grade: family, words: []string{"ibv_open_device"},
		form: re(`ibv_open_device\S*?(?:\((?P<dev>[\w.-]+)\))? (?:failed|returned).*?(?P<why>Cannot allocate memory|ENOMEM)`),
		says: objectsSays, do: objectsDo, need: objectsNeed, from: "openucx/ucx ib_md.c, ibv_open_device(3)",
	}, {
		id: "log.rdma-no-route", grade: family, words: []string{"ibv_modify_qp failed"},
		form: re(`ibv_modify_qp failed with (?:error )?(?:110 )?(?P<why>Connection timed out)` +
			`(?:.* on dev (?P<dev>[\w.-]+)(?::\d+)?)?(?:.*local GID index (?P<index>\d+))?` +
			`(?:.*local GID (?P<own>[\da-fA-F:.]+:[\da-fA-F:.]*))?(?:.*remote GID (?P<gid>[\da-fA-F:.]+))?`),
		not: []string{"NCCL INFO"},
		says: "no host answers where the RDMA device[ {dev}] of {who} looks for the GID[ {gid}] of the other end ({why})" +
			"[; it uses its GID {index}][, {own}]: both ends use GIDs of different networks, as link-local ones (fe80::), or " +
			"one is down",
		do: "on both hosts show_gids lists the GIDs: set NCCL_IB_GID_INDEX (UCX_IB_GID_INDEX) to the one of RoCE v2 with " +
			"an IPv4 address that reaches the other host (3, as a rule). ping -I between the rails must work; where those of " +
			"different numbers do not reach each other, NCCL_CROSS_NIC=0",
		need: []string{"show_gids and ip -br addr of both nodes, in the job's container",
			"which devices each rank uses (NCCL_DEBUG=INFO: NET/IB : Using)"},
		from: "Linux drivers/infiniband/core/addr.c, NVIDIA/nccl ibvwrap.cc",
	}, {
		id: "log.rdma-completion", grade: open, with: "nccl.roce",
		words: []string{"Got completion from peer ", "Got completion with error 12"},
		form: re(`Got completion (?:from peer (?P<peer>[\w.:-]+?)<\d+> )?with (?:error |status=)(?:IBV_WC_RETRY_EXC_ERR\()?` +
			`12\b(?:.*?localGid ?(?P<own>[\da-fA-F:.]+) remoteGids? ?(?P<gid>[\da-fA-F:.]+))?(?:.*?hca (?P<dev>[\w.-]+))?`),
		says: "an RDMA transfer of {who}[ by {dev}][ to {peer}] got no answer (error 12)[, from the GID {own} to {gid}]. " +
			"Before the first step the adapters do not reach each other by RoCE, as a rule: a wrong GID, or rails that are " +
			"not connected; later it is a link, a switch that drops, or a peer that ended",
		need: []string{"show_gids of both nodes: a run with NCCL_IB_GID_INDEX set to the GID of RoCE v2 with an IPv4 " +
			"address (3, as a rule)", "ping -I between the rails of both nodes; NCCL_CROSS_NIC=0, or NCCL_IB_HCA with the " +
			"adapters of one network", "the output of the peer: did it end before",
			"link state and error counters of both ports (ibstat, ethtool -S): RoCE drops without PFC or ECN"},
		from: "NVIDIA/nccl net_ib.cc, NVIDIA/nccl#426",
	}, {
		id: "log.rdma-completion", grade: open, words: []string{"Got completion from peer "},
		form: re(`Got completion from peer (?P<peer>[\w.:-]+?)<\d+> with (?:error |status=)(?:IBV_WC_RETRY_EXC_ERR\()?12\b` +
			`(?:.*?localGid ?(?P<own>[\da-fA-F:.]+) remoteGids? ?(?P<gid>[\da-fA-F:.]+))?(?:.*?hca (?P<dev>[\w.-]+))?`),
		says: "an RDMA transfer of {who}[ by {dev}] to {peer} got no answer (error 12)[, from the GID {own} to {gid}]: " +
			"GID, rail, link, switch, or the peer ended",
		need: []string{"the output of the ranks on {peer}: did one end before",
			"show_gids on both nodes, and NCCL_IB_GID_INDEX", "the rails: does NCCL_CROSS_NIC=0 change it",
			"link state and error counters of both ports (ibstat, ethtool -S)"},
		from: "NVIDIA/nccl net_ib.cc, NVIDIA/nccl#426",
	}, {
		id: "log.rdma-completion", grade: open, words: []string{"Got completion ", "RNR retry counter exceeded"},
		form: re(`(?:Got completion (?:from peer (?P<peer>[\w.:-]+?)<\d+> )?with .*?)?` + notReadyForm),
		says: "an RDMA transfer of {who}[ by {dev}][ to {peer}] ended, since the other end had no buffer ready for a long " +
			"time (RNR): that process hangs or is too slow, or it counts its transfers otherwise",
		need: []string{"the output and the stack of the other end (py-spy dump)", "the NCCL or UCX version and the NCCL_* " +
			"and UCX_* variables of both ends", "the counters rnr_nak_retry_err and out_of_buffer of both adapters"},
		from: "libibverbs IBV_WC_RNR_RETRY_EXC_ERR, openucx/ucx ib_mlx5_log.c",
	}, {
		id: "log.rdma-completion", grade: open, words: []string{"Got completion ", "Remote OP error on "},
		form: re(`Got completion (?:from peer (?P<peer>[\w.:-]+?)<\d+> )?with ` + refusedForm +
			`|Remote OP error on (?P<dev>[\w:.-]+)/`),
		says: "an RDMA transfer of {who}[ by {dev}][ to {peer}] was refused[ (status {code})]: its size or kind does not " +
			"fit what the other end expects, or an adapter cannot do it; the way between them works",
		need: []string{"the NCCL or UCX version and the NCCL_* and UCX_* variables of both ends",
			"the output of the other end, and of all ranks: do they call the same collectives with the same sizes",
			"the firmware of both adapters (ibv_devinfo), and dmesg | grep mlx5 of both nodes"},
		from: "libibverbs ibv_poll_cq(3), openucx/ucx ib_mlx5_log.c",
	}, {
		id: "log.ucx-shm", grade: family, words: []string{"process_vm_readv(", "process_vm_writev(", "shmat(shmid=",
			"to attach xpmem"},
		form: re(`UCX +ERROR +(?:(?P<call>process_vm_(?:read|write)v)\(.* returned -1: (?P<why>Operation not permitted)|` +
			`(?P<call>shmat)\(.*failed: (?P<why>[A-Z].*)|failed to attach (?P<call>xpmem).*: (?P<why>[A-Z].*))`),
		says: "UCX of {who} may not reach the memory of another rank of its host ({call}: {why}): they are in different " +
			"containers or users, or the container forbids it",
		do: "run the ranks of a host in one container, or with --ipc=host and --cap-add=SYS_PTRACE, as one user; " +
			"UCX_TLS=^cma,xpmem,sysv goes without",
		need: []string{"are the ranks of one host in one container", "cat /proc/sys/kernel/yama/ptrace_scope of that host"},
		from: "openucx/ucx cma_ep.c, mm_sysv.c, mm_xpmem.c",
	}, {
		id: "log.rdma-connect", grade: family, words: []string{"ibv_create_ah("},
		form: re(`UCX +ERROR +ibv_create_ah\(.*?(?:dgid=(?P<gid>[\da-fA-F:.]+) )?(?:sgid_index=(?P<index>\d+) )?` +
			`(?:traffic_class=\d+)?\) on (?P<dev>[\w.-]+) failed: (?P<why>.+)`),
		says: "UCX of {who} cannot address another host by its RDMA device {dev} ({why}): no route leads from[ its GID " +
			"{index}][ to {gid}], as that GID is of another type or network, the port has none, or no host answers there",
		do: "show_gids of that host: set UCX_IB_GID_INDEX to the GID of RoCE v2 whose network reaches the other host, or " +
			"UCX_NET_DEVICES to the device that does; ping -I of that interface must work",
		need: []string{"show_gids and ip route of both hosts, in the job's container"}, from: "openucx/ucx ib_device.c",
	}, {
		id: "log.rdma-connect", grade: family, words: []string{"nvalid gid["},
		form: re(`UCX +ERROR +[Ii]nvalid gid\[(?P<index>\d+)\] on (?P<devs>[\w.-]+:\d+)`),
		says: "UCX of {who} finds no usable GID {index} at {devs}: the port is down or has no address, its interface is " +
			"not in this container, or UCX_IB_GID_INDEX names another one",
		do: "name devices in UCX_NET_DEVICES, on each node its own, for which show_gids lists a GID in the job's " +
			"container; unset UCX_IB_GID_INDEX, or set it to one of these; for InfiniBand the port must be active (ibstat)",
		need: []string{"show_gids and ibstat of that node, in the job's container"}, from: "openucx/ucx ib_device.c",
	}, {
		id: "log.env-invalid", grade: decisive, words: []string{"UCX  ERROR Invalid value for ", "UCX  ERROR   Invalid " +
			"value for "},
		form: re(`Invalid value for (?P<name>\w+): '(?P<value>[^']*)'`),
		says: "UCX of {who} does not know the value '{value}' of its setting {name}",
		do:   "correct or unset UCX_{name} on all nodes (env | grep UCX_); ucx_info -cf lists the settings and their values",
		from: "openucx/ucx ucs/config/parser.c",
	}, {
		id: "log.wrong-interface", grade: family, words: []string{"status -6: Destination is unreachable"},
		form: re(`[Ee]ndpoint .*status -6: Destination is unreachable`),
		says: "UCX of {who} has no way to the address of another process that was given to it: no adapter or interface " +
			"that it may use reaches the network of that address",
		do: "let all processes name the address of the network that UCX is to use: for Dask the same --interface NAME for " +
			"scheduler, workers and client (ip -br addr shows the names), and UCX_NET_DEVICES that fits it; UCX_TLS=tcp shows " +
			"whether the rest works",
		need: []string{"ip -br addr and ucx_info -d of both nodes", "UCX_TLS, UCX_NET_DEVICES and --interface of both ends"},
		from: "openucx/ucx wireup/wireup_cm.c",
	}, {
		id: "log.end-noise", grade: harmless, words: []string{"rdma_create_event_channel failed: ",
			"failed to open CM on component rdmacm"},
		form: re(noRDMACM),
		says: "what UCX writes on a host without RDMA: it goes on without that way to connect",
		from: "openucx/ucx rdmacm_cm.c",
	}, {
		id: "log.end-noise", grade: harmless, words: []string{"ACCESS_REG(0x805)"},
		form: re(`mlx5_core .*ACCESS_REG\(0x805\).*failed, status bad`),
		says: "a question of the driver that the firmware of an adapter does not answer",
		from: "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c",
	}, {
		id: "log.end-noise", grade: harmless, with: "ucx.no-rdmacm", words: []string{"Failed to create UCP worker"},
		form: re(`pml_ucx\.c:\d+`),
		says: "Open MPI takes another way for its messages than UCX, which finds no RDMA",
		from: "open-mpi/ompi pml_ucx.c",
	},
}

// adapterFacts are lines that these causes need.
var adapterFacts = []cause{
	{id: "nccl.roce", grade: fact, words: []string{"NET/IB : Using "}, form: re(`Using .*:\d+/(?P<v>RoCE)`)},
	{id: "ucx.no-rdmacm", grade: fact, words: []string{"rdma_create_event_channel failed: "},
		form: re(`failed: (?P<v>No such device|No such file|Permission denied)`)},
}
