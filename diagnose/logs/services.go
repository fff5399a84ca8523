package logs

// serviceCauses are ends of services of a node: systemd's reports, and NVIDIA's fabric manager.
var serviceCauses = []cause{
	{
		id: "log.fabric-manager-unneeded", grade: family, quiet: true, soft: true, words: []string{"NV_WARN_NOTHING_TO_DO"},
		form: re(`NVSwitch.*NV_WARN_NOTHING_TO_DO|abric.?manager.*NV_WARN_NOTHING_TO_DO`),
		says: "the fabric manager of {where} ends, since the machine shows no NVSwitch: it has nothing to do there, and is " +
			"no reason for a job to fail",
		do: "systemctl disable --now nvidia-fabricmanager, where the machine has no NVSwitch (lspci | grep -i nvswitch: " +
			"PCIe " +
			"cards, an NVLink bridge, or a virtual machine whose host manages the switches). Where it has, the driver does " +
			"not see them: dmesg | grep -i nvswitch",
		need: []string{"lspci | grep -i nvidia and nvidia-smi topo -m of that machine"},
		from: "NVIDIA fabric manager",
	}, {
		id: "log.fabric-manager-down", grade: family, words: []string{"abricmanager", "abric manager", "abric Manager",
			"NVSwitch driver failed"},
		form: re(`(?:request to query NVSwitch|NVSwitch driver).*failed with error: ?(?P<why>.*)|` +
			`[Ff]abric.?[Mm]anager.*?(?P<why>(?:driver interface )?version \S+ (?:don't|doesn't|does not) match .*|` +
			`version mismatch.*)`),
		not: []string{"NV_WARN_NOTHING_TO_DO"},
		says: "the fabric manager of {where} does not start[: {why}], and without it GPUs that are connected by NVSwitches " +
			"cannot be used together (CUDA error 802)",
		do: "install the fabric manager of exactly the driver's version, reset the GPUs or reboot, and start it: systemctl " +
			"enable --now nvidia-fabricmanager; its log is /var/log/fabricmanager.log",
		need: []string{"cat /proc/driver/nvidia/version, and nv-fabricmanager --version, of that node",
			"/var/log/fabricmanager.log of that node"},
		from: "NVIDIA fabric manager",
	}, {
		id: "log.nvls", grade: family, words: []string{"in the multicast team request"},
		form: re(`failed to find the GPU handle`),
		says: "the fabric manager of {where} does not know a GPU that asks for NVLink SHARP (multicast): it was started " +
			"anew after the GPUs, as a rule",
		do: "reset the GPUs (nvidia-smi -r, with no process on them) or reboot that node; NCCL_NVLS_ENABLE=0 goes on " +
			"without",
		need: []string{"since when the fabric manager runs (systemctl status nvidia-fabricmanager), and since when the node"},
		from: "NVIDIA fabric manager",
	}, {
		id: "log.service", grade: open, soft: true, quiet: true,
		words: []string{"rocess exited, code=", "ailed with result '", "Start request repeated too quickly",
			"\" failed! Exit code: "},
		form: re(`(?P<unit>[\w@.:\\-]+\.(?:service|socket|mount|scope)): (?:(?:Main|Control) process exited, code=\w+, ` +
			`status=(?P<code>(?:[1-9]\d*|\w*/[A-Z])\S*)|Failed with result '(?P<why>[^']+)'|` +
			`Start request (?P<why>repeated too quickly))|` +
			`"(?P<unit>/\S+)[^"]*" failed! Exit code: (?P<code>\d+)`),
		not:  []string{"status=15/TERM", "status=143"},
		says: "the service {unit} of {where} has ended[ with {code}][: {why}]; its own error is not in these lines",
		need: []string{"journalctl -u {unit} of that node: the lines before", "systemctl status {unit} of that node: " +
			"does it run now"},
		from: "systemd.exec(5)",
	},
}
