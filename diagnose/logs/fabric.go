package logs

const providerFix = "run fi_info in the job's environment, and choose a provider: FI_PROVIDER=tcp to see whether it " +
	"starts"

// fabricCauses are errors of MPI's and oneCCL's ways into the network: libfabric, PSM and Xe Link.
var fabricCauses = []cause{
	{
		id: "log.mpi-hang", grade: family, soft: true, words: []string{"suspects a hang"},
		form: re(`(?:^PE (?P<rank>\d+): )?.*?(?:MPICH WARNING: )?(?P<what>OFI is failing to make progress on [\w ]+?)\. ` +
			`.*suspects a hang due to (?P<why>[^.]+)\.(?: Setting environment variable (?P<var>\w+))?`),
		says: "MPI of {who} reports that it hangs, due to {why} ({what})",
		do: "start it with a larger {var}, as MPI itself asks (export {var}=…, twice as much each time); more time " +
			"does not help",
		need: []string{"{var} and env | grep -E 'FI_|MPICH_' of a rank", "the counters of the adapter of that node"},
		from: "Cray MPICH",
	},
	{
		id: "log.mpi-fabric", grade: family, words: []string{" no hfi units are ", " no nic units are "},
		form: re(`(?:(?P<node>[A-Za-z][\w.-]*?)(?:\.\d+|:pid\d+\S*: ?))?PSM(?P<n>\d?) no (?:hfi|nic) units are ` +
			`(?P<state>active|available)`),
		says: "PSM{n} of {who} has no adapter that is {state}: its link is down, its driver is not loaded, or the node " +
			"has none",
		do: "on that node: is the link active (opainfo or ibstat; cable, switch, subnet manager), is the device there " +
			"(ls -l /dev/hfi1*); leave the node out until it is. Where the nodes have no Omni-Path: FI_PROVIDER=tcp or verbs",
		need: []string{"opainfo or ibstat of that node", "dmesg | grep hfi1 of that node"},
		from: "libpsm2 psm_ep.c",
	}, {
		id: "log.rdma-registration", grade: family, words: []string{"nable to create ", "nable to alloc"},
		form: re(`(?:(?P<node>[A-Za-z][\w.-]*?):pid\d+\S* )?Unable to (?:create|alloc\w*) (?P<what>[\w ` +
			`]*(?:CQ|QP|SRQ|PD)\b.*?)` +
			` on (?P<dev>[\w.-]+): (?:Cannot allocate memory|ENOMEM)`),
		says: "PSM3 of {who} cannot lock memory for {dev} ({what}): the limit of locked memory, or too little free memory",
		do: "on that node, in the job's own shell: ulimit -l must say unlimited (LimitMEMLOCK=infinity for slurmd, " +
			"memlock in limits.conf for ssh, docker --ulimit memlock=-1)",
		need: []string{"ulimit -l as the job sees it (under srun or mpirun)", "free -g and dmesg of that node"},
		from: "libfabric prov/psm3 verbs_ep.c",
	}, {
		id: "log.shm-unshared", grade: family,
		words: []string{"ould not set up shared memory segment", "opening remote shared memory object"},
		form: re(`PSM\d? could not set up shared memory segment|` +
			`opening remote shared memory object in shm_open: (?P<why>[A-Z][\w ]+)`),
		says: "PSM of {who} cannot open the shared memory of another rank of its host, in /dev/shm[ ({why})]",
		do: "let the ranks of a host share /dev/shm (one container, or docker --ipc=host), with one user and one " +
			"version of " +
			"PSM; look at its size and rights (df -h /dev/shm) and remove files of ended jobs there (psm2_shm.*). " +
			"FI_PROVIDER=tcp or verbs goes without PSM",
		need: []string{"ls -l and df -h of /dev/shm on that node, as each rank sees it",
			"does something clean /dev/shm while jobs run (RemoveIPC of systemd-logind, an epilog)"},
		from: "libpsm2 am_reqrep_shmem.c",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{" can't open hfi unit: "},
		form: re(`(?:^|\s)(?:(?P<node>[A-Za-z][\w.-]*?)\.\d+)?PSM2? can't open hfi unit: -?\d+(?: \(err=(?P<err>\d+)\))?`),
		says: "PSM2 of {who} cannot open its Omni-Path adapter[ (error {err})]: its link is down, the device file is " +
			"missing or not permitted, or all its contexts are in use",
		do: "on that node: is the link active (opainfo), is /dev/hfi1_0 there and open to the user, which other processes " +
			"hold contexts (lsof /dev/hfi1*); leave the node out until it works. Where the nodes have no Omni-Path: " +
			"FI_PROVIDER=tcp or verbs",
		need: []string{"opainfo, and ls -l /dev/hfi1*, of that node", "dmesg | grep hfi1 of that node"},
		from: "libpsm2 psm_context.c",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{" can't open nic unit: "},
		form: re(`(?:^|\s)(?:(?P<node>[A-Za-z][\w.-]*?)\.\d+)?PSM3 can't open nic unit: -?\d+(?: \(err=(?P<err>\d+)\))?`),
		says: "PSM3, the provider of libfabric that MPI of {who} chose, cannot open a network adapter[ (error {err})]: it " +
			"does not fit that adapter, or the adapter's link is down",
		do: "choose another provider on all nodes: FI_PROVIDER=tcp, verbs or ^psm3; where PSM3 is wanted, name its adapter " +
			"(PSM3_NIC) and see ibv_devinfo",
		need: []string{"fi_info, ibv_devinfo and FI_PROVIDER of each node"},
		from: "libfabric prov/psm3 psm_context.c",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{"address vector", "OFI av insert", "OFI address vector"},
		form: re(`MPI\w*_OFI_\w+\(\d+\)[.: ]*OFI (?P<call>get address vector map|av insert|address vector \w+) failed` +
			`(?:.*:\w+:(?P<why>[^:)]+)\))?`),
		says: "MPI of {who} cannot enter the addresses of the other ranks into libfabric ({call} failed[: {why}])",
		do: "start with fewer nodes to see whether the size of the job is the limit; use one version of libfabric and of " +
			"its provider (on AWS the EFA installer) on all nodes; FI_PROVIDER=tcp shows whether the rest works",
		need: []string{"fi_info of each node, and the version of libfabric", "a run with FI_LOG_LEVEL=warn",
			"the output of the ranks that are first in the log: did a peer end before"},
		from: "pmodels/mpich ofi_init.c",
	}, {
		id: "log.ofi", grade: family, words: []string{"handle_cq_error"},
		form: re(`MPI\w*_OFI_handle_cq_error\w*\(\d+\)[.: ]*OFI (?P<call>[\w ]+?(?:\(\))?) failed` +
			`(?:.*:\w+:(?P<why>[^:)]+)\))?`),
		says: "libfabric reports to MPI of {who} that a transfer of the running program failed[ ({why})]: the other end " +
			"has ended, the adapter or the network between both ends",
		do: "look at the ranks that ended before, and at the adapters and links of both nodes (dmesg; for Slingshot " +
			"cxi_stat); where one node is in all such failures, leave it out",
		need: []string{"the output of the other ranks: did one end before",
			"dmesg of that node, and the state of its adapter"},
		from: "pmodels/mpich ofi_events.c",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{": OFI "},
		form: re(`MPI\w*_OFI_\w+\(\d+\)[.: ]*OFI (?P<call>[\w ]+?(?:\(\))?) failed(?:.*:\w+:(?P<why>[^:)]+)\))?`),
		says: "MPI of {who} cannot open its network by libfabric ({call} failed[: {why}])",
		do: "run fi_info in the job's environment: does it show the provider that MPI chose; on Slingshot (CXI) the " +
			"launcher " +
			"must give each job its VNI and service (SLINGSHOT_VNIS, SLINGSHOT_SVC_IDS). FI_PROVIDER=tcp shows whether the " +
			"rest works",
		need: []string{"fi_info and FI_PROVIDER of each node", "env | grep SLINGSHOT of a rank", "a run with " +
			"FI_LOG_LEVEL=warn"},
		from: "pmodels/mpich ofi_init.c",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{"OFI endpoint open failed", "OFI fi_fabric failed",
			"OFI fi_domain failed"},
		says: "MPI of {who} cannot open its network (libfabric): the provider is missing or does not fit the hosts' adapters",
		do:   providerFix, need: []string{"fi_info and FI_PROVIDER of each node"},
	}, {
		id: "log.mpi-fabric", grade: family, soft: true, words: []string{"failed an OFI Libfabric library call"},
		form: opt(`library call \((?P<call>\w+)\)`),
		says: "Open MPI of {who} cannot use libfabric[ ({call} failed)]: its provider does not fit the hosts' adapters; " +
			"some jobs go on without it",
		do: "where the job does not go on: leave libfabric out (--mca mtl ^ofi --mca btl ^ofi), or choose a provider " +
			"that fi_info shows (FI_PROVIDER)",
		need: []string{"fi_info and FI_PROVIDER of that node"},
		from: "open-mpi/ompi mtl_ofi_component.c",
	}, {
		id: "log.rdma-permission", grade: decisive, words: []string{"to modify UD QP to ", "to modify QP to INIT"},
		form: re(`modify (?:UD )?QP to \w+(?: on (?P<dev>[\w:/]+))?: (?P<why>Operation not permitted|Permission denied)`),
		says: "{who} may not set up a queue of the RDMA device[ {dev}] ({why})",
		do: "the process lacks a right: CAP_NET_RAW in its container, or, with a kernel of 6.3 or newer, queue keys that " +
			"only " +
			"root may use (rdma system show: privileged-qkey). Another provider goes without: FI_PROVIDER=tcp or verbs",
		from: "psm3 verbs_ep.c, Linux ib_core",
	}, {
		id: "log.oneccl", grade: family, wraps: true, words: []string{"|CCL_ERROR| atl_ofi"},
		form: re(`CCL_ERROR\| atl_ofi\w*\.cpp:\d+ \w+: (?:can not open network providers|can't (?:find suitable|init) ` +
			`provider(?: (?P<prov>[\w:;,]+))?|(?P<call>fi_\w+)\()`),
		later: []string{", strerror: ", "can't init provider "},
		more:  re(`, strerror: (?P<why>.+)|can't init provider (?P<prov>[\w:;,]+)`),
		says:  "oneCCL of {who} cannot open a network by libfabric[: {prov}][ ({why})]",
		do: "run fi_info in the job's environment; ulimit -l must say unlimited there; FI_PROVIDER=tcp shows whether the " +
			"rest works, CCL_ATL_TRANSPORT=mpi goes by MPI",
		need: []string{"fi_info of that node, as the job sees it", "ulimit -l as the job sees it",
			"a run with CCL_LOG_LEVEL=info and FI_LOG_LEVEL=warn"},
		from: "oneCCL atl_ofi.cpp",
	}, {
		id: "log.xe-link", grade: family, soft: true, quiet: true, words: []string{"port issue: {"},
		form: re(`host: (?P<node>[\w.-]+), rank: (?P<rank>\d+), .*port issue: \{ status: (?P<state>\w+)` +
			`(?:, details: (?P<why>[^}]*\S))? ?\}`),
		says: "oneCCL finds Xe Link ports of the GPUs of {who} that do not work ({state}[: {why}])",
		do: "on that node: xpu-smi discovery and xpu-smi health show the GPU and its ports; reset the GPUs or reboot, and " +
			"replace the bridge or the GPU if it happens again. CCL_TOPO_FABRIC_VERTEX_CONNECTION_CHECK=0 goes on without",
		need: []string{"xpu-smi topology -m and xpu-smi health of that node"},
		from: "oneCCL topo_manager.cpp",
	},
}
