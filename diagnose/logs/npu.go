package logs

// npuCauses are errors of Ascend's driver and runtime, by their codes, and of Gaudi's graph compiler.
var npuCauses = []cause{
	npu("log.npu-resources", `EL00(?:06|08|09|10|11|12|13)`,
		[]string{"EL0006", "EL0008", "EL0009", "EL0010", "EL0011", "EL0012", "EL0013"},
		"the NPU of {who} has no free resources of a kind (code {code}): {why}",
		"end other processes of that NPU (npu-smi info); where the program captures graphs, capture fewer sizes (vLLM: "+
			"cudagraph_capture_sizes), and make fewer groups of ranks and streams",
		"npu-smi info of that node: which processes use the NPU", "which sizes of graphs are captured, and how many "+
			"layers and groups of ranks there are"),
	npu("log.oom", `EL00(?:04|19)`, []string{"EL0004", "EL0019"},
		"the driver of {who} gets no memory of its NPU (code {code}): {why}",
		"end other processes of that NPU (npu-smi info), use a smaller batch, or lower HCCL_BUFFSIZE",
		"npu-smi info of that node"),
	npu("log.gpu-busy", `EL0005`, []string{"EL0005"},
		"the NPU of {who} is busy (code {code}): {why}",
		"end the old processes on that NPU (npu-smi info); where it was just reset, wait a minute and start again",
		"npu-smi info of that node, and its driver's log"),
	npu("log.npu-device", `EL00(?:01|02|07|15)`, []string{"EL0001", "EL0002", "EL0007", "EL0015"},
		"{who} cannot use its NPU (code {code}): {why}",
		"compare ASCEND_RT_VISIBLE_DEVICES and the local rank with npu-smi info -l on that node; in a container look at "+
			"ls -l /dev/davinci* and at the groups of the user",
		"npu-smi info and ls -l /dev/davinci* as the job sees them"),
	{
		id: "log.npu-device", grade: family, words: []string{"dcmi module initialize failed"},
		form: re(`initialize failed\. ret is (?P<code>-?\d+)`),
		says: "{who} does not reach the driver of its NPUs (npu-smi: {code}): the container does not have the devices, " +
			"another one holds them, or the driver does not run",
		do: "npu-smi info on the host: where it works, give the container /dev/davinciN, /dev/davinci_manager, " +
			"/dev/devmm_svm and /dev/hisi_hdc and the driver's folders (Ascend Docker Runtime), and end other containers " +
			"that have these NPUs",
		need: []string{"npu-smi info on the host", "ls -l /dev/davinci* in the container, and which other ones have them"},
		from: "Ascend driver dcmi_interface_api.h",
	}, {
		id: "log.npu-device", grade: family, words: []string{"50705"},
		form: re(`(?:code|result|ret\w*)\b\W{1,4}(?:is )?(?P<code>50705[3-6])\b`),
		says: "the runtime of CANN reports an error of the hardware of the NPU of {who} ({code}: 507053 and 507055 memory, " +
			"507054 HBM with several wrong bits, 507056 a link)",
		do: "leave that node out, and look at npu-smi info -t ecc and hccn_tool -i N -link -g there; reset the NPU, and " +
			"replace it if it happens again",
		need: []string{"npu-smi info -t ecc -i N of that node, and its driver's log"},
		from: "CANN rt_error_codes.h",
	}, {
		id: "log.npu-timeout", grade: open,
		words: []string{"EE1002", "507046", "507047", "507048", "507014", "507017", "507034",
			"tream synchronize timeout",
			"stream sync timeout", "event sync timeout", "the specified timeout waiting event"},
		form: re(`(?:error code is|result ?=|\bret(?:code)? ?=|\bcode:?) ?(?P<code>5070(?:14|17|34|46|47|48))\b|` +
			`\bEE1002\b|(?:tream|event) sync(?:hronize)? timeout|the specified timeout waiting event`),
		not: []string{"timeout = "},
		says: "work on the NPU of {who} did not end in time[ (error {code})]: a collective that waits for another rank, " +
			"or a kernel that hangs",
		need: []string{"the output and the plog (~/ascend/log) of all ranks: which one failed first, or is in no collective",
			"HCCL_EXEC_TIMEOUT of all ranks, and how long the slowest rank computes",
			"on each node: hccn_tool -i N -link -g and -net_health -g, and npu-smi info"},
		from: "CANN rt_error_codes.h, EE1002",
	}, {
		id: "log.npu-timeout", grade: open, but: "hccl.waits", words: []string{"107020", "[task timeout]"},
		form: re(`(?:error code is|runtime result =) (?P<code>107020)\b|reason=\[task timeout\]`),
		says: "work on the NPU of {who} did not end in time[ (error {code})]: a collective that waits for another rank, or " +
			"a kernel that hangs",
		need: []string{"the output and the plog (~/ascend/log) of all ranks: which one failed first, or is in no collective",
			"how long the slowest rank computes (HCCL_EXEC_TIMEOUT)", "npu-smi info of that node"},
		from: "CANN rt_error_codes.h",
	}, {
		id: "log.npu-inner", grade: open, words: []string{"9999: Inner Error", "9999: [PID: "},
		form: re(`\bE[A-Z1-9]9999: (?:Inner Error|\[PID: [^\]]*\] \S+ (?P<why>.+?)(?:\[FUNC:|$))`),
		says: "CANN of {who} reports an inner error[: {why}]",
		need: []string{"all lines of that error, with TraceBack and the code of the operator before it",
			"the shapes and the parallel sizes that this rank gives to the operator", "the plog of that rank " +
				"(~/ascend/log)"},
		from: "CANN, inner errors",
	}, {
		id: "log.hpu-graph", grade: open, words: []string{"synStatus"},
		form: re(`(?P<what>[A-Z][\w ]*? (?:failed|error))\.? *(?:with )?synStatus(?: ?= ?|: ?| )(?:synStatus )?` +
			`(?P<code>[1-9]\d*)(?: \[(?P<why>[^\]]*)\])?`),
		says: "Gaudi's software of {who} fails: {what} (synStatus {code}[, {why}]); the status does not say why",
		need: []string{"SynapseAI's own logs of that rank: HABANA_LOGS (/var/log/habana_logs), with LOG_LEVEL_ALL=3",
			"are the variables for Gaudi's network set on all nodes: env | grep -E 'HCCL|HABANA|PT_HPU' (DeepSpeed passes on " +
				"those of .deepspeed_env, mpirun those of -x)",
			"hl-smi of that node: the links of the ports, and other processes"},
		from: "SynapseAI, synStatus",
	},
}

// npu returns a row for codes of Ascend's driver, as in "EL0004: …" and "Title(EL0004): …".
func npu(id, codes string, words []string, says, do string, need ...string) cause {
	return cause{id: id, grade: family, words: words,
		form: re(`(?P<name>\w*)\(?\b(?P<code>` + codes + `)\b(?:\)?: *(?P<why>.+)|\))`),
		test: func(v map[string]string) bool {
			if v["why"] == "" {
				v["why"] = spaced(v["name"])
			}
			return v["why"] != ""
		},
		says: says, do: do, need: need, from: "CANN, errors of the driver"}
}
