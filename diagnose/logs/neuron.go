package logs

// neuron returns a row for lines of the runtime of AWS Neuron: "ERROR  NRT:nrt_init  TEXT".
func neuron(id string, grade grade, words []string, form, says, do string, need ...string) cause {
	return cause{id: id, grade: grade, words: words, form: re(form), says: says, do: do, need: need,
		from: "AWS Neuron, libnrt"}
}

const neuronWhy = `(?P<why>.+)`

// neuronCauses are errors of AWS Neuron, its devices and its collectives.
var neuronCauses = []cause{
	neuron("log.gpu-busy", family, []string{"NeuronCore(s) not available", "Logical Neuron Core(s) not available"},
		`Core\(s\) not available - Requested:(?P<want>\S+) Available:(?P<has>\d+)`,
		"the NeuronCores of {who} are in use, or fewer than asked for (asked for {want}, free {has})",
		"neuron-ls shows which processes use them: end these, or ask for fewer (NEURON_RT_NUM_CORES, "+
			"NEURON_RT_VISIBLE_CORES: no core twice)",
		"neuron-ls of that node"),
	neuron("log.oom", family, []string{"NRT_RESOURCE", "nrt_load status=4"},
		`NRT_RESOURCE|nrt_load status=4\b`,
		"{who} has run out of memory of its NeuronCore",
		"use a smaller batch or more cores for a copy of the model; neuron-top shows the memory in use",
		"neuron-top of that node"),
	neuron("log.neuron-group", family, []string{"less channels than this replica group"},
		`less channels than this replica group.*?(?:on this group (?P<group>\[[^\]]*\]))?\s*$`,
		"Neuron cannot set up collectives for a group of ranks[, {group}]: this instance does not permit that group, or "+
			"has too few EFA devices",
		"choose other parallel sizes, so that the group is one that Neuron supports (neighbours, and 2, 8 or 32 cores); "+
			"between nodes give the job all EFA devices of the instance",
		"the parallel sizes, and the type of the instance", "fi_info -p efa of that node"),
	neuron("log.neuron-group", decisive, []string{"Supported number of Neuron Cores is"},
		`Unsupported topology\. Supported number of Neuron Cores is (?P<may>[^.]+)`,
		"{who} asks for a number of NeuronCores that this instance does not support for collectives (it supports {may})",
		"choose a tensor parallel size and a number of ranks out of these"),
	neuron("log.neuron", open, []string{"NRT:nrt_init ", "Nrt::Init", "nrt_init failed", "No neuron device available",
		"Could not open the nd"},
		`ERROR +NRT:nrt_init +`+neuronWhy+`|ERROR +TDRV:\w+ +(?P<why>No neuron device.*|Could not open the nd.*)|`+
			`(?:Nrt::Init|nrt_init) failed[:,]? *`+neuronWhy,
		"the Neuron runtime of {who} cannot open its devices: {why}", "",
		"neuron-ls: which processes use the devices", "dmesg of that node, and ls -l /dev/neuron*",
		"the versions of driver and runtime (aws-neuronx-dkms, aws-neuronx-runtime-lib)"),
	neuron("log.neuron", family, []string{"nrt_load status=", "Nrt::Load"},
		`Nrt::Load failed on NeuronCores (?P<cores>[\d-]+).*nrt_load status=(?P<code>\d+)`+
			`(?:, error message="(?P<why>[^"]*)")?`,
		"the Neuron runtime of {who} cannot load the compiled program on core {cores} (status {code}[: {why}])",
		"look at the runtime's own lines before (NEURON_RT_LOG_LEVEL=INFO) and at dmesg of that node; compile again with "+
			"the same version of compiler and runtime (remove the compile cache)",
		"the lines NRT and TDRV of that process", "dmesg of that node, neuron-ls"),
	neuron("log.neuron", open, []string{"NRT_EXEC_HW_ERR", "nrt_execute status=", "Nrt::Execute"},
		`(?P<why>NRT_EXEC_HW_ERR\w*)|nrt_execute status=(?P<code>[1-9]\d*)`,
		"a program on the NeuronCores of {who} failed[: {why}][ (status {code})]", "",
		"dmesg of that node: errors of its devices", "neuron-top and the runtime's lines before"),
}
