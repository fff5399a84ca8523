package logs

// What an unusable RDMA device leads to, and what to look at.
const (
	rdmaGone = "NCCL then goes on by sockets, which is slow; other programs end"
	rdmaDo   = "in the job's container compare ls /sys/class/infiniband with ibv_devinfo and ls -l /dev/infiniband. "
	// noRDMA are answers of programs that get no RDMA device.
	noRDMA = `(?i:no (?:IB|RDMA|InfiniBand|HCA|RoCE|CXI|RNIC)) ?devices? (?:were )?found|[Uu]nable to find (?:the ` +
		`Infiniband|any IB)|` +
		`No active HCAs found|IB device \S+ (?:was )?not found|rdma_\w+: (?:No such (?:device|file)|Function not)|` +
		`NET/IB : No device found|[Ff]ailed to get (?:IB|RDMA|InfiniBand) devices? list|` +
		`ibv_get_device_list\S* (?:failed|error|Function not|No such|returned (?:0|NULL))`
)

var (
	noRDMAWords = []string{"devices found", "device found", "devices Found", "device list", "devices " +
		"list", "Infiniband/RoCE device",
		"any IB device", "HCAs found", "IB device ", "rdma_getaddrinfo: ", "rdma_create_", "rdma_bind_addr: ",
		"rdma_resolve_addr: ", "ibv_get_device_list", "devices were found"}
	rdmaNeed = []string{"ibv_devinfo and ls -l /dev/infiniband, in the job's container and on its host",
		"the versions of rdma-core in the image and of the driver on the host (ofed_info -s, modinfo of its module)"}
)

// libibverbsABI is how libibverbs reports a kernel module of another release than the library of the device.
const libibverbsABI = `Driver (?P<lib>\w+) does not support the kernel ABI of (?P<has>\d+) \(supports ` +
	`(?P<low>\d+) to ` +
	`(?P<high>\d+)\)(?: for device \S*/(?P<dev>[\w.-]+))?`

// probes are in lines of libraries that look for all kinds of devices, and go on without most.
var probes = []string{"INFO", "<info>", "<debug>", "<trace>", "libfabric:", "UCX", "DEBUG", "CMA: ", "librdmacm: "}

// deviceCauses are devices that a process or a node is to have, and cannot use: RDMA devices in a container or image,
// and devices that Slurm and Kubernetes give out.
var deviceCauses = []cause{
	{
		id: "log.library-mismatch", grade: family, quiet: true, soft: true, warns: true, words: []string{"NET/Plugin"},
		form: re(`NCCL INFO NET/Plugin.*?(?P<lib>/\S+\.so[\d.]*): (?:(?P<why>undefined symbol: \w+)|.*` +
			`(?P<why>version .[\w.]+. not found))`),
		says: "NCCL of {who} does not load its network plugin ({lib}: {why}), which was built for other libraries, and " +
			"goes on with a network of its own; where other ranks load theirs, they cannot connect",
		do: "ldd -r {lib} in the job's container names the library that does not fit: install the plugin of one release " +
			"with it (aws-ofi-nccl with libfabric), or correct LD_LIBRARY_PATH",
		need: []string{"the lines NCCL INFO NET/Plugin and Using network of all ranks (NCCL_DEBUG=INFO)"},
		from: "NVIDIA/nccl net.cc, dlopen(3)",
	},
	{
		id: "log.rdma-device", grade: family, quiet: true, words: []string{"does not support the kernel ABI of"},
		form: re(libibverbsABI),
		says: "libibverbs of {who} refuses the RDMA devices[, as {dev}]: its library for {lib} is for the kernel ABI {low} " +
			"to {high}, and the host's module has {has}; " + rdmaGone,
		do: "put the library of the host's driver release into the image (for ionic, bnxt_re, mlx5: the package that the " +
			"vendor ships with the driver), or mount the host's one; ibv_devinfo must then list the devices",
		need: rdmaNeed, from: "linux-rdma/rdma-core libibverbs/init.c",
	}, {
		id: "log.rdma-device", grade: family, quiet: true, soft: true, warns: true,
		words: []string{"no userspace device-specific driver found for"},
		form:  re(`driver found for (?:\S*/)?(?P<dev>[\w.-]+)`),
		says: "libibverbs of {who} has no library for the RDMA device {dev}: the package of its provider is missing in the " +
			"image, or lies in a folder where libibverbs does not look",
		do: rdmaDo + "Install ibverbs-providers (Debian) or libibverbs with rdma-core (RPM), or the vendor's package, of " +
			"one release; the folders /etc/libibverbs.d and libibverbs/ must belong to the libibverbs in use (ldd)",
		need: rdmaNeed, from: "linux-rdma/rdma-core libibverbs/init.c",
	}, {
		id: "log.rdma-device", grade: family, quiet: true, soft: true,
		words: []string{"libibverbs: Fatal: ", "libibverbs: fatal: "},
		form:  re(`(?i)libibverbs: fatal: (?P<why>.+)`),
		says:  "libibverbs of {who} can use no RDMA device: {why}",
		do: rdmaDo + "Load the modules on the host (modprobe ib_uverbs and the adapter's), mount /sys and /dev/infiniband, " +
			"and use an rdma-core that fits the kernel",
		need: rdmaNeed, from: "linux-rdma/rdma-core libibverbs/init.c",
	}, {
		id: "log.rdma-device", grade: family, soft: true, with: "rdma.library", words: noRDMAWords, form: re(noRDMA),
		not:  probes,
		says: "{who} gets no RDMA device: libibverbs reports before that it has no library for it, or one that does not fit",
		do: rdmaDo + "Install ibverbs-providers (Debian) or rdma-core (RPM), or the library of the host's driver release, " +
			"in the image",
		need: rdmaNeed, from: "linux-rdma/rdma-core libibverbs/init.c",
	}, {
		id: "log.rdma-device", grade: family, soft: true, words: []string{"No active HCAs found"},
		says: "MPI (MVAPICH) of {who} finds no RDMA adapter with an active port",
		do: "on that host: ibstat must show State: Active; in a container ls -l /dev/infiniband. Without RDMA use an " +
			"MPI or a build for TCP",
		need: rdmaNeed, from: "MVAPICH rdma_iba_priv.c",
	}, {
		id: "log.rdma-device", grade: family, quiet: true, soft: true, words: []string{"/dev/infiniband/"},
		form: re(`(?:open|access)\S* .*(?P<dev>/dev/infiniband/\w+).*?(?P<why>[Pp]ermission denied|[Oo]peration not ` +
			`permitted|` +
			`[Nn]o such (?:file|device)[\w ]*)`),
		not:  probes,
		says: "{who} cannot open {dev} ({why}): the container does not have it, or the user has no right to it",
		do: "start the container with --device=/dev/infiniband (with uverbs* and rdma_cm), in Kubernetes with the " +
			"rdma resource; outside of one the files are to be open for all (udev, rdma-core): ls -l {dev}",
		need: rdmaNeed, from: "linux-rdma/rdma-core",
	}, {
		id: "log.rdma-device", grade: family, quiet: true, soft: true, words: noRDMAWords, form: re(noRDMA),
		not: probes,
		says: "{who} finds no RDMA device: its container has no such device, the image lacks the library of the adapter " +
			"(ibverbs-providers), or the host has no adapter or no module for it",
		do: rdmaDo + "Where only the host lists devices, give the container /dev/infiniband (docker " +
			"--device=/dev/infiniband --cap-add=IPC_LOCK; in Kubernetes the rdma resource); where sysfs has them and " +
			"ibv_devinfo has not, install the providers",
		need: rdmaNeed, from: "linux-rdma/rdma-core",
	}, {
		id: "log.rdma-device", grade: family, quiet: true, but: "nccl.rdma", here: true,
		words: []string{"ibv_open_device", "Unable to open device", "couldn't get context for", "Couldn't get context for"},
		form: re(`ibv_open_device\S* (?:failed|returned)|WARN.*Unable to open device (?P<dev>[\w.-]+)|` +
			`ouldn't get context for (?P<dev>[\w.-]+)`),
		not: []string{"Connection timed out", "NCCL INFO", "Cannot allocate memory"},
		says: "{who} sees the RDMA device[ {dev}] and may not open it: the container lacks its file in /dev/infiniband, or " +
			"a right; NCCL then goes on by sockets, which is slow",
		do: "start the container with the devices: docker --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit " +
			"memlock=-1; in Kubernetes ask for the rdma resource of the device plugin, or privileged: true. NCCL_IB_HCA " +
			"leaves a device out that is not for the job",
		need: rdmaNeed, from: "NVIDIA/nccl ibvwrap.cc, ibv_open_device(3)",
	}, {
		id: "log.rdma-device", grade: family, quiet: true, soft: true,
		words: []string{"EFA devices found", "EFA device found", "is not EFA enabled", "No EFA devices"},
		form:  re(`(?i)no (?:valid )?EFA devices?\b|(?P<type>[a-z]\w*\.\w+) is not EFA enabled`),
		not:   probes,
		says: "{where} has no EFA device[ (its type is {type})]: that type of instance has no EFA, no EFA is attached, " +
			"or the container sees neither /sys nor /dev/infiniband",
		do: "use an instance type with an EFA, attached to its network interface (fi_info -p efa on the host), and start " +
			"what needs it only there (nodeSelector, affinity of the device plugin); a pod asks for vpc.amazonaws.com/efa",
		need: []string{"fi_info -p efa and ls /sys/class/infiniband of that host", "the type of the instance"},
		from: "aws/eks-charts aws-efa-k8s-device-plugin",
	}, {
		id: "log.end-noise", grade: harmless, words: []string{"CMA: unable to ", "librdmacm: ", "CMA: "},
		form: re(`^(?:CMA|librdmacm): (?:Warning: |Fatal: )?(?:unable to get RDMA device list|couldn't read ABI version|` +
			`assuming: \d|no RDMA devices found|unable to (?:open|get))`),
		says: "what librdmacm writes on a host without RDMA",
		from: "linux-rdma/rdma-core librdmacm/cma.c",
	}, {
		id: "log.slurm-gres", grade: decisive, words: []string{"stat gres.conf file /"},
		form: re(`can't stat gres\.conf file (?P<file>/\S+?): (?P<why>.+)`),
		says: "slurmd of {where} does not start: gres.conf names {file}, which is not there ({why})",
		do: "on that node: nvidia-smi -L (rocm-smi, ls -l {file}) shows whether the driver is loaded and how many devices " +
			"there are; load it before slurmd starts, or let gres.conf fit the node (AutoDetect=nvml, or fewer files), or " +
			"take the Gres out of its line in slurm.conf",
		from: "slurm, gres.c",
	}, {
		id: "log.slurm-gres", grade: decisive, words: []string{"count reported lower than configured", "count too low ("},
		form: re(`(?:node[ =](?P<node>[\w.-]+) .*)?gres/(?P<res>[\w:]+) count (?:reported lower than configured|too low) ` +
			`\((?P<has>\d+) < (?P<want>\d+)\)`),
		says: "Slurm takes {where} out of use: it has {has} of the {want} devices ({res}) that slurm.conf gives it",
		do: "on that node: nvidia-smi -L and slurmd -G show what there is: a GPU that failed, a driver that is not loaded, " +
			"or a gres.conf without File= or AutoDetect. Then: scontrol update nodename=NODE state=resume",
		from: "slurm, gres.c",
	}, {
		id: "log.k8s-device", grade: decisive, words: []string{"VF pci addr is required"},
		form: opt(`adding container to network "(?P<net>[^"]+)"`),
		says: "the pod's second network[, {net},] gets no device: the pod does not ask for the resource of its SR-IOV " +
			"devices, or the network does not name that resource",
		do: "add the resource to the container's requests and limits (kubectl describe node lists it), and let the " +
			"annotation k8s.v1.cni.cncf.io/resourceName of the network-attachment-definition name the same one",
		from: "k8snetworkplumbingwg/sriov-cni config.go",
	}, {
		id: "log.k8s-device", grade: decisive, words: []string{"failed to move RDMA device "},
		form: re(`failed to move RDMA device (?P<dev>[\w.-]+) to (?:\w+ )?(?:namespace|netns)\S* (?P<why>.*)`),
		says: "the RDMA device {dev} of {where} cannot be given to a pod ({why})",
		do: "rdma system on that node must show netns exclusive (rdma system set netns exclusive, before any pod uses " +
			"RDMA, and ib_core netns_mode=0 at boot); with netns shared leave the rdma plugin out of the network",
		from: "k8snetworkplumbingwg/rdma-cni",
	}, {
		id: "log.k8s-device", grade: decisive, words: []string{"cannot find a network-attachment-definition ("},
		form: re(`network-attachment-definition \((?P<net>[^)]*)\) in namespace \((?P<ns>[^)]*)\)`),
		says: "the pod names the network {net}, and the namespace {ns} has no network of that name",
		do: "kubectl get net-attach-def -A: write NAMESPACE/NAME in the annotation k8s.v1.cni.cncf.io/networks, or create " +
			"it in the pod's namespace",
		from: "k8snetworkplumbingwg/multus-cni k8sclient.go",
	}, {
		id: "log.slurm-config", grade: decisive, words: []string{" has low "},
		form: re(`Node (?P<node>[\w.-]+) has low (?P<what>\w+) size \((?P<has>\d+) < (?P<want>\d+)\)`),
		says: "Slurm takes {where} out of use: its {what} is {has}, and slurm.conf gives it {want}",
		do: "slurmd -C on that node shows what it has: write that into its line of slurm.conf (a bit less memory), or look " +
			"what the node has lost; then scontrol update nodename=NODE state=resume",
		from: "slurm, slurmctld",
	}, {
		id: "log.no-gpu-slots", grade: decisive, words: []string{"Allocate failed due to "},
		form: re(`Allocate failed due to (?:requested number of devices unavailable for (?P<what>[\w./-]+)\. ` +
			`Requested: (?P<want>\d+), Available: (?P<has>\d+)|(?P<why>[^,;]+))`),
		says: "a node refuses a pod[: it asks for {want} {what}, and {has} are free][: {why}]",
		do: "nvidia-smi on that node, and the output of its device plugin: a device that is unhealthy, or a plugin that " +
			"was restarted; delete the pod, so that it is placed again",
		from: "kubernetes kubelet cm/devicemanager",
	}, {
		id: "log.k8s-device-plugin", grade: family, quiet: true, soft: true,
		words: []string{"Incompatible strategy detected ", "No devices found. Waiting indefinitely"},
		says: "the device plugin of {where} finds no GPU: its container does not run with NVIDIA's runtime, or the node " +
			"has no driver or no GPU",
		do: "make nvidia the default runtime of that node (nvidia-ctk runtime configure --set-as-default, or " +
			"runtimeClassName: nvidia for the plugin), and see nvidia-smi on the host; on nodes without GPUs start no plugin",
		need: []string{"nvidia-smi on that node, and the settings of its container engine"},
		from: "NVIDIA/k8s-device-plugin",
	}, {
		id: "log.k8s-device-plugin", grade: decisive, soft: true, words: []string{"restarting failed container"},
		form: re(`restarting failed container[= ](?P<container>[\w.-]*` + pluginName + `[\w.-]*)` +
			`(?: (?:in pod |pod=)(?P<pod>[a-z0-9][\w.-]*?)[_(])?`),
		says: "the container {container} of the pod[ {pod}], which offers the devices of a node to Kubernetes, ends again " +
			"and again: pods that ask for these devices find no node",
		do: "look at its output (kubectl logs {pod} -n NAMESPACE --previous) and at the driver on that node (nvidia-smi); " +
			"the pods that wait are placed once it runs",
		from: "kubernetes kubelet, device plugins",
	},
}

// pluginName is in the names of containers that offer devices to Kubernetes.
const pluginName = `(?:device-plugin|gpu-feature-discovery|nvidia-driver|nvidia-container-toolkit|driver-validation)`

// deviceFacts are lines that these causes need.
var deviceFacts = []cause{
	{id: "rdma.library", grade: fact, words: []string{"libibverbs: Warning: ", "libibverbs: warning: "},
		form: re(`(?P<v>no userspace device-specific driver|does not support the kernel ABI|open config directory)`)},
	{id: "nccl.rdma", grade: fact, here: true, words: []string{": Using ["},
		form: re(`NCCL INFO NET/IB\w* ?: Using \[\d+\][\w.-]+:\d+/`)},
	{id: "k8s.plugin-fails", grade: fact, words: []string{"restarting failed container"},
		form: re(`restarting failed container[= ](?P<v>[\w.-]*` + pluginName + `)`)},
}
