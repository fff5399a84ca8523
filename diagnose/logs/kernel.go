package logs

// pciForm is how the NVIDIA driver names the GPU of an error in the kernel's log.
const pciForm = `Xid(?: \((?:PCI:)?(?P<pci>[\w:.]+)\)| errors?)?: ?`

// gpuForm is the same where several lines may name several GPUs.
const gpuForm = `Xid(?: \((?:PCI:)?(?P<devs>[\w:.]+)\)| errors?)?: ?`

// kernelCauses are what the kernel of a node reports of its hardware.
var kernelCauses = []cause{
	{
		id: "log.gpu-lost", grade: decisive, words: []string{"NVRM: fallen off the bus"},
		says: "a GPU[ at {devs}] of {where} does not answer on PCIe, as the driver sees when it is loaded (it has fallen " +
			"off the bus)",
		do: "turn that node off and on, and leave it out until then; look at the power and seat of the GPU (dmesg | grep " +
			"-E 'AER|NVRM'); replace the GPU or the riser if it happens again",
		from: "NVIDIA open-gpu-kernel-modules",
	},
	{
		id: "log.gpu-lost", grade: decisive,
		words: []string{"Xid (PCI", "NVRM: Xid", "fallen off the bus", "Unable to determine the device handle",
			"GPU is lost"},
		form: re(pciForm + `(?P<xid>79)\b|` +
			`(?:(?P<pci>[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F.]+).*)?(?:fallen off the bus|: GPU is lost|GPU is lost\.)|` +
			`device handle for (?:GPU ?\d*:? ?)?(?P<pci>[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F.]+)?`),
		says: "a GPU[ at {pci}] of {where} no longer answers on PCIe (it has fallen off the bus[, Xid {xid}])",
		do: "drain that node, and switch it off and on: a reset of the GPU is not enough. Look at its power, heat, riser " +
			"and seat (dmesg | grep -E 'AER|NVRM', nvidia-smi -q); replace the GPU or the riser if it happens again",
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.gpu-ecc", grade: decisive,
		words: []string{"uncorrectable ECC error", "uncorrectable NVLink error", "Xid (PCI", "NVRM: Xid"},
		form:  re(`ECC|NVLink error|` + gpuForm + `(?P<xid>48|64|95|140|143)\b`),
		says:  "a GPU[ at {devs}] of {where} has a hardware error[ (Xid {xid})]",
		do:    "drain that node; look at dmesg | grep Xid and nvidia-smi -q, and reset or replace the GPU",
	}, {
		id: "log.gpu-ecc", grade: family, words: []string{"Xid (PCI", "NVRM: Xid"}, form: re(gpuForm + `(?P<xid>94)\b`),
		says: "the memory of a GPU[ at {devs}] of {where} has an error, which ended only the process that used that part " +
			"(Xid {xid}, contained)",
		do: "start the job again; reset that GPU before (nvidia-smi --gpu-reset, with no process on it), so that the " +
			"memory " +
			"is mapped to spare rows: nvidia-smi -q -d ROW_REMAPPER. Replace it where remapping failed or is pending again",
		need: []string{"nvidia-smi -q -d ECC,ROW_REMAPPER of that node"}, from: "NVIDIA Xid catalog",
	}, {
		id: "log.gpu-ecc", grade: family, soft: true, quiet: true, words: []string{"Xid (PCI", "NVRM: Xid"},
		form: re(gpuForm + `(?P<xid>63|92|121)\b`),
		says: "the memory or the link to the CPU of a GPU[ at {devs}] of {where} had errors, which were corrected (Xid " +
			"{xid})",
		do: "no job fails by it alone. Reset that GPU when it is free (nvidia-smi -q -d ROW_REMAPPER shows what is " +
			"pending), and replace it if it happens again",
		need: []string{"nvidia-smi -q -d ECC,ROW_REMAPPER of that node", "the output of the ranks on that node"},
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.gpu-ecc", grade: family,
		words: []string{"Xid (PCI", "NVRM: Xid", "GSP Timeout", "Heartbeat timed out"},
		form: re(gpuForm + `(?P<xid>61|62|119|120)\b|` +
			`NVRM: (?P<gpu>GPU\d+) .*(?:GSP Timeout|Heartbeat)`),
		says: "the firmware (GSP, PMU) of a GPU[ at {devs}][, {gpu},] of {where} no longer answers[ (Xid {xid})]: the " +
			"driver, or the hardware",
		do: "drain and reboot that node; update driver and firmware, or switch the firmware off " +
			"(NVreg_EnableGpuFirmware=0) where the driver allows it; if it happens again, replace the GPU",
		need: []string{"dmesg | grep -i nvrm of that node, and its driver's version"},
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.gpu-ecc", grade: family, words: []string{"Xid (PCI", "NVRM: Xid"},
		form: re(gpuForm + `(?:\d+,.*previous Xid )?(?P<xid>74|137|14[4-9]|150)\b`),
		says: "NVLink of {where} has an error (Xid {xid}[; GPU {devs}]): a link, a GPU, an NVSwitch or the fabric manager",
		do: "end the job, and reset all GPUs of that node together (nvidia-smi --gpu-reset without -i), or reboot it; " +
			"nvidia-smi nvlink -e and the fabric manager's log name the link: leave the node out and replace the part if it " +
			"happens again",
		need: []string{"dmesg | grep Xid of that node: the first of these lines", "the fabric manager's log"},
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.gpu-ecc", grade: family, quiet: true, words: []string{"ecovery action changed from"},
		form: re(gpuForm + `154\b.*changed from \S+ \([^)]*\) to \S+ \((?P<action>[A-Z][^)]*)\)`),
		test: func(v map[string]string) bool { return v["action"] != "None" },
		says: "a GPU[ at {devs}] of {where} works no longer, or not fully, until it is recovered: the driver asks for " +
			"\"{action}\" (Xid 154)",
		do: "drain that node and do what it asks: nvidia-smi --gpu-reset with no process on the GPUs, or a reboot; the Xid " +
			"before this line (dmesg | grep Xid) is the reason",
		need: []string{"dmesg | grep Xid of that node"}, from: "NVIDIA Xid catalog",
	}, {
		id: "log.xid", grade: maybe, soft: true, words: []string{"Xid (PCI", "NVRM: Xid"}, form: re(gpuForm + `45\b`),
		unless: re(`previous Xid`),
		says: "work on a GPU[ at {devs}] of {where} was stopped (Xid 45): its process was ended, as a rule, by a person, a " +
			"scheduler, or an error of its own",
		need: []string{"the output of the program that used it", "dmesg | grep Xid of that node: another Xid before"},
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.xid", grade: open, words: []string{"SXid (PCI"},
		form: re(`SXid \(PCI:(?P<pci>[\w:.]+)\): ?(?P<xid>\d+)\b`),
		says: "the driver reports an error of an NVSwitch at {pci} of {where}: SXid {xid}",
		do: "restart that node, or its fabric manager with no job on it; look SXid {xid} up in NVIDIA's guide to the " +
			"fabric manager, and have the switch or its links replaced if it happens again",
		need: []string{"what NVIDIA's guide to the fabric manager says of it", "the fabric manager's log of that node"},
		from: "NVIDIA fabric manager",
	}, {
		id: "log.xid", grade: open, words: []string{"previous Xid "},
		form: re(pciForm + `\d+,.*previous Xid (?P<xid>\d+)`),
		says: "work on a GPU at {pci} of {where} was stopped after an error before: Xid {xid}",
		need: []string{"the line of Xid {xid} before, in dmesg of that node", "nvidia-smi -q of that node"},
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.cuda-memory-access", grade: family, words: []string{"Xid (PCI", "NVRM: Xid"},
		form: re(pciForm + `(?P<xid>13|31|43|69)\b`),
		says: "a kernel of a program on a GPU[ at {pci}] of {where} failed (Xid {xid}): a bug in a kernel, or a broken GPU",
		do:   "run the program with CUDA_LAUNCH_BLOCKING=1; where it fails on that GPU alone, replace the GPU",
		need: []string{"the program that used it, and its own output"},
		from: "NVIDIA Xid catalog",
	}, {
		id: "log.xid", grade: open, words: []string{"Xid (PCI", "NVRM: Xid"},
		form: re(pciForm + `(?P<xid>\d+)\b`), unless: re(pciForm + `(?:45|154)\b`), // which follow from others
		says: "the driver reports an error of a GPU[ at {pci}] of {where}: Xid {xid}",
		need: []string{"what NVIDIA's catalog of Xid errors says of it", "nvidia-smi -q of that node"},
	}, {
		id: "log.efa", grade: family, words: []string{"Failed to process command "},
		form: re(`infiniband (?P<dev>\w+): Failed to process command (?P<cmd>\w+) .*err (?P<err>-?\d+)`),
		says: "the EFA device {dev} of {where} refuses its driver's command {cmd} (error {err})",
		do: "end other processes that use it and start again; reboot the instance and update the EFA driver where it " +
			"happens again (-12: the device has no room for more objects)",
		need: []string{"dmesg | grep efa and ibv_devinfo -v of that node",
			"the processes that use it (lsof /dev/infiniband)"},
		from: "Linux drivers/infiniband/hw/efa",
	}, {
		id: "log.ib-device", grade: family, words: []string{"health compromised", "evice's health compromised"},
		form: re(`mlx5_core (?P<pci>[\da-f:]+\.\d).*health compromised`),
		says: "the RDMA adapter at {pci} of {where} no longer answers its driver: its firmware has stopped, or the " +
			"device is broken",
		do: "drain that node; dmesg | grep mlx5_core shows what was before; reset the adapter (mlxfwreset) or " +
			"power-cycle the " +
			"node, update its firmware, and replace it if it happens again",
		need: []string{"dmesg | grep mlx5_core of that node, and the firmware's version (ibv_devinfo)"},
		from: "Linux drivers/net/ethernet/mellanox/mlx5/core/health.c",
	}, {
		id: "log.ib-port-down", grade: family, quiet: true, soft: true, words: []string{"Port module event"},
		form: re(`mlx5_core (?P<pci>[\da-f:]+\.\d).*Port module event.*module (?P<n>\d+), (?P<why>Cable error.*|High ` +
			`Temp.*)`),
		says: "the adapter at {pci} of {where} reports its cable: {why} (module {n})",
		do: "reseat or replace that cable or transceiver (mlxlink -d DEVICE -m shows it); a port that the job does not use " +
			"does no harm",
		need: []string{"mlxlink and ethtool of that port: is it one that the job uses"},
		from: "Linux drivers/net/ethernet/mellanox/mlx5/core/events.c",
	}, {
		id: "log.gpu-ecc", grade: family, words: []string{"amdgpu"},
		not: []string{"soft recovered"}, // the kernel on that ring was ended, and the GPU goes on
		form: re(`amdgpu(?: (?P<pci>[\da-f]{4}:[\da-f:]+\.\d))?.*?(?P<why>GPU reset begin|ring [\w.]+ timeout|` +
			`[Uu]ncorrectable (?:hardware )?errors?|Fatal error during GPU init|` +
			`device lost from bus)`),
		says: "an AMD GPU[ at {pci}] of {where} has stopped or has an error ({why}): a kernel that hangs, the driver, " +
			"or the hardware",
		do: "drain that node; dmesg | grep amdgpu has the first error; reset the GPU (rocm-smi --gpureset) or reboot, and " +
			"replace it if it happens again",
		need: []string{"dmesg | grep amdgpu of that node", "rocm-smi and rocm-smi --showras all of that node"},
		from: "Linux drivers/gpu/drm/amd/amdgpu",
	}, {
		id: "log.pcie", grade: family, words: []string{"AER: "},
		form: re(`(?P<pci>[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d).*AER: .*[Uu]ncorrect\w+ \((?P<kind>Fatal|Non-Fatal)\)`),
		says: "PCIe of {where} reports an error that was not corrected ({kind}), at {pci}: a device, its slot or riser, or " +
			"the port above it",
		do: "drain that node; lspci -s {pci} and lspci -t show the device (a GPU, an adapter); reseat or replace it if it " +
			"happens again",
		need: []string{"dmesg | grep -E 'AER|pcieport' of that node: which device reports first"},
		from: "Linux drivers/pci/pcie/aer.c",
	}, {
		id: "log.kernel", grade: decisive, words: []string{"Kernel panic - not syncing"},
		form: re(`Kernel panic - not syncing: (?P<why>.*)`),
		says: "the kernel of {where} has stopped (panic: {why}), and with it all processes there",
		do:   "leave that node out, and look at the lines before and at its crash dump: hardware, a driver, or memory",
		from: "Linux kernel/panic.c",
	}, {
		id: "log.nic-timeout", grade: open, soft: true, words: []string{"TX timeout", "NETDEV WATCHDOG: "},
		not: []string{"recovered"},
		form: re(`(?:(?P<pci>[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d) )?(?P<if>[\w.-]+): ` +
			`(?:TX timeout|NETDEV WATCHDOG: .*timed out)|` +
			`NETDEV WATCHDOG: (?P<if>[\w.-]+) .*timed out`),
		says: "the network adapter {if}[ ({pci})] of {where} sends nothing more, as its driver reports (TX timeout)",
		need: []string{"dmesg of that node: does the driver report that it recovered; its driver (ethtool -i {if})",
			"do the ranks that fail or wait run on that node, over that adapter"},
		from: "Linux net/sched/sch_generic.c, mlx5e_tx_timeout",
	}, {
		id: "log.mount-gone", grade: family, soft: true, words: []string{"This client was evicted by "},
		form: re(`(?P<target>[\w-]+?)(?:-(?:mdc|osc)-\w+)?: This client was evicted by (?P<host>[\w.-]+?);`),
		says: "Lustre's server {host} has evicted {where}, which it did not reach: what processes there have open fails",
		do: "look at the network between that node and the server (lctl ping, LNet, its adapter), and at the server's " +
			"load; the job starts again once lfs check servers shows active",
		need: []string{"dmesg | grep Lustre of that node: the first line that a connection was lost",
			"lfs check servers there"},
		from: "Lustre ptlrpc/import.c",
	}, {
		id: "log.kernel", grade: open, soft: true, words: []string{" lockup - CPU#", "blocked for more than "},
		form: re(`(?P<what>(?:soft|hard) lockup) - CPU#|` +
			`task (?P<proc>[^:]+):(?P<pid>\d+) blocked for more than (?P<secs>\d+) seconds`),
		says: "the kernel of {where} reports [that {proc} (pid {pid}) waits for more than {secs} s, as a rule for " +
			"storage or a device][a processor that does not go on ({what})]",
		need: []string{"dmesg of that node: the stack below this line shows what it waits for",
			"do the file systems there answer (NFS, Lustre): df, ls"},
		from: "Linux kernel/hung_task.c, watchdog.c",
	}, {
		id: "log.mount-gone", grade: family, soft: true, but: "nfs.answers", words: []string{"nfs: server "},
		form: re(`nfs: server (?P<host>\S+) not responding`),
		says: "the file server {host} does not answer {where} (NFS): processes that use it there wait",
		do:   "ping {host} from that node, and look at the server's load and network; df of the mount hangs until it answers",
		need: []string{"dmesg of that node: does a line \"nfs: server {host} OK\" follow", "the load of the server"},
		from: "Linux net/sunrpc/clnt.c",
	}, {
		id: "log.host-memory", grade: decisive,
		words: []string{" UE ", "Uncorrected hardware memory error", "Uncorrected error", "Memory failure: "},
		form: re(`EDAC .*\d UE (?P<what>[^(]*)|Uncorrected (?:hardware memory )?error|Memory failure: .*(?:Killing|` +
			`[Rr]ecovery action.*(?:Failed|Ignored))`),
		says: "the memory of {where} has an error that cannot be corrected[: {what}]",
		do:   "drain that node, and replace the memory module that the line names",
		from: "Linux drivers/edac/edac_mc.c",
	},
}
