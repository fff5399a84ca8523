package logs

// efaForm begins the lines of libfabric's EFA provider, and of the OFI plugin of NCCL, about a transfer that failed.
const efaForm = `(?:efa_rdm_\w+error|rxr_cq_write_\w+error|efa_cq_\w+|completed with error\b|Writing error to EQ)`

// efaNeed is what decides why a transfer over the EFA got no answer.
var efaNeed = []string{"does the security group let all traffic through from and to itself, in and out, and are all " +
	"instances members of that group and in one subnet", "the output of the other end: did it end before",
	"the versions of libfabric and the EFA driver of both hosts"}

// ofEFA is in lines of libfabric, and of what uses it, before texts that other programs have, too.
const ofEFA = `(?:\befa\b|rxr_|OFI\b|ofi\b|libfabric).*?`

// efaHost is how newer versions of libfabric name the other end.
const efaHost = `(?:.*?Peer host id: (?P<host>i-[\da-f]+))?`

// endedPeers are texts of the EFA provider where the process at the other end is no longer there.
var endedPeers = []string{"Bad queue pair (QP) number", "Invalid receiver queue pair",
	"Connection was reset by remote peer", "Receiver connection aborted"}

// efaCauses are transfers over the EFA that fail, by the numbers and texts of libfabric (prov/efa/src/efa_errno.h).
var efaCauses = []cause{
	{
		id: "log.efa", grade: family, words: []string{"Unreachable remote", "incorrect inbound/outbound"},
		form: re(ofEFA + `(?:Unreachable remote|incorrect inbound/outbound)` + efaHost), not: []string{"NCCL INFO", "<info>"},
		says: "the EFA of {who} never got an answer from the other end[, {host}]: the security group does not let all " +
			"traffic through between the instances, or they are in different subnets",
		do: "let the security group of the instances permit all traffic (all protocols) from and to itself, inbound and " +
			"outbound, for all of them; put them into one subnet. Where other jobs run so, look whether the other end ended",
		need: efaNeed, from: "libfabric prov/efa efa_strerror.c",
	}, {
		// Work completions as IBV_WC_RESP_TIMEOUT_ERR, which has the number of ENOTDIR.
		id: "log.efa", grade: open, words: []string{"Not a directory (20)", "RC: 20. "},
		form: re(efaForm + `.*(?:prov_err\w*: Not a directory \(20\)|RC: 20\. Error: (?:unknown error|Not a directory))` +
			efaHost),
		not: []string{"NCCL INFO"},
		says: "the EFA of {who} got no answer from the other end[, {host},] (response timeout, error 20). Before the first " +
			"step the security group does not let all traffic through from and to itself, as a rule; later the other end has " +
			"ended",
		need: efaNeed, from: "libibverbs IBV_WC_RESP_TIMEOUT_ERR, libfabric prov/efa, aws/aws-ofi-nccl#156",
	}, {
		id: "log.efa", grade: open, words: []string{"Unresponsive re"},
		form: re(ofEFA + `Unresponsive re(?:ceiver|mote)(?: \((?P<why>[a-z][\w ]+)\))?` + efaHost), not: []string{"NCCL INFO",
			"<info>", "NET/OFI Request", "NET/OFI Operation"},
		says: "the EFA of {who} gets no answer from the other end[, {host}][ ({why})]: that process or its host has " +
			"failed; where no transfer worked before, the security group does not let all traffic through",
		need: append([]string{"the output of the other end, and the kernel's log of its host"}, efaNeed[0], efaNeed[2]),
		from: "libfabric prov/efa efa_strerror.c",
	}, {
		id: "log.peer-lost", grade: ended, words: endedPeers,
		form: re(ofEFA + `(?:Bad queue pair|Invalid receiver queue pair|reset by remote peer|connection aborted)` + efaHost),
		not:  []string{"NCCL INFO", "<info>"},
		says: "the EFA of {who} finds the process at the other end[, {host},] no longer there: it ended before",
		need: []string{"the output of the other end: its own error, or that it left before the others were done"},
		from: "libfabric prov/efa efa_strerror.c",
	}, {
		id: "log.libfabric-version-mismatch", grade: family, words: []string{"packet type encountered",
			"Remote feature mismatch", "nvalid packet type received"},
		form: re(efaForm + `.*?(?P<why>(?:Deprecated|Unknown|Invalid) packet type|Remote feature mismatch)` + efaHost),
		says: "libfabric of {who} does not understand what the other end[, {host},] sends ({why}): the hosts have " +
			"different versions of libfabric or of its settings for the EFA",
		do: "install the same EFA software in all images and hosts (fi_info --version on each); unset FI_EFA_* that only " +
			"some hosts have; FI_EFA_USE_ZCPY_RX=0 on all helps where they must differ",
		need: []string{"fi_info --version, and env | grep FI_, of each host in the job's container"},
		from: "libfabric prov/efa efa_errno.h",
	}, {
		id: "log.libfabric-version-mismatch", grade: decisive, words: []string{"provider requires at least libfabric"},
		form: re(`requires at least libfabric version (?P<want>\d[\d.]*\d)`),
		says: "the OFI plugin of {who} needs libfabric {want} or newer for the EFA, and loads an older one",
		do:   "install the EFA software that the plugin was made for, or an older plugin; check LD_LIBRARY_PATH (ldd PLUGIN)",
		from: "aws/aws-ofi-nccl",
	}, {
		id: "log.net-mismatch", grade: decisive, words: []string{"Unexpected number of remote "},
		form: re(`number of remote (?:control )?rails for dev \d+\. Expected (?P<own>\d+) but got (?P<other>\d+)`),
		says: "the OFI plugin of {who} uses {own} adapters for a GPU, and another node {other}: the nodes have different " +
			"numbers of EFA devices, or one does not see all",
		do:   "give all nodes the same type of instance and number of EFA devices (fi_info -p efa in each container)",
		from: "aws/aws-ofi-nccl nccl_ofi_rdma.cpp",
	}, {
		id: "log.ofi", grade: decisive, words: []string{"does not support 4 bytes of immediate data"},
		says: "the network of {who} cannot do what the protocol RDMA of the OFI plugin needs (4 bytes of immediate data)",
		do:   "unset OFI_NCCL_PROTOCOL, or set it to SENDRECV on all nodes",
		from: "aws/aws-ofi-nccl nccl_ofi_rdma.cpp",
	}, {
		id: "log.ofi", grade: decisive, words: []string{"NCCL_OFI_NIC_DUP_CONNS set on platform"},
		says: "OFI_NCCL_NIC_DUP_CONNS is set for {who}, whose network supports GPUDirect RDMA: the OFI plugin refuses both",
		do:   "unset OFI_NCCL_NIC_DUP_CONNS on all nodes",
		from: "aws/aws-ofi-nccl",
	}, {
		id: "log.efa-fork", grade: decisive, words: []string{"Libfabric EFA provider is operating in"},
		says: "the program of {who} makes a process by fork() while it uses the EFA, and libfabric ends it, since memory " +
			"could be damaged",
		do: "set FI_EFA_FORK_SAFE=1 (RDMAV_FORK_SAFE=1 with an old libfabric) on all nodes, or start processes by spawn " +
			"(multiprocessing_context of a DataLoader)",
		from: "libfabric prov/efa efa_fork_support.c",
	}, {
		id: "log.env-invalid", grade: decisive, words: []string{"EFA device has no rdma-read capability"},
		form: re(`DEVICE_RDMA=1 was set.*but (?P<why>[^.]+)`),
		says: "FI_EFA_USE_DEVICE_RDMA=1 is set for {who}, but {why}",
		do:   "unset FI_EFA_USE_DEVICE_RDMA (newer libfabric decides it itself), or use instances whose EFA has RDMA",
		from: "libfabric prov/efa efa_rdm_util.c",
	}, {
		id: "log.rdma-registration", grade: family, words: []string{"RC: -12, ERROR: Cannot allocate memory"},
		form: re(`NET/OFI (?:Couldn't|Could not|Unable to) (?P<what>[\w ]+)`), not: []string{"NCCL INFO"},
		says: "the OFI plugin of {who} gets no memory for the adapter ({what}): too little memory may be locked, too few " +
			"huge pages are free, or other processes use up the adapter's queues",
		do: "ulimit -l must say unlimited in the job's own shell (docker --ulimit memlock=-1); end other jobs of that " +
			"node, and update an old EFA driver; free huge pages are in /proc/meminfo, and FI_EFA_USE_HUGE_PAGE=0 goes without",
		need: []string{"ulimit -l as the job sees it", "free -g, grep Huge /proc/meminfo and dmesg of that node"},
		from: "aws/aws-ofi-nccl, libfabric prov/efa",
	}, {
		id: "log.efa-gpu-memory", grade: family, words: []string{"GDR support reported to NCCL but then"},
		says: "the OFI plugin of {who} cannot use GPUDirect, which the adapter offers: libfabric, its settings or the " +
			"driver do not permit it",
		do: "unset FI_HMEM and FI_EFA_USE_DEVICE_RDMA, and install one release of the EFA software on host and in the " +
			"image (fi_info -p efa -c FI_HMEM must list the device)",
		need: []string{"fi_info --version, and env | grep FI_, in the job's container"},
		from: "aws/aws-ofi-nccl nccl_ofi_ofiutils.cpp",
	},
}
