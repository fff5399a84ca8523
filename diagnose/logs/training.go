package logs

import "strconv"

// lowScale is a loss scale that was made smaller, down to one digit, after an overflow.
const lowScale = `(?:loss scale: [\d.]+, reducing to|reducing loss scale to) (?P<v>(?:[1-8]|0)(?:\.\d+)?(?:e-\d+)?)\s*$`

const (
	overflowDo = "use bf16 in place of fp16, or a lower learning rate, longer warm-up and clipped gradients; look at " +
		"the data of these steps, and start again from a checkpoint before the first overflow"
)

var overflowNeed = []string{"the log from the last good step on", "the norm of the gradients before the first overflow"}

// trainingCauses are ends of trainings by their numbers, their checkpoints and their data.
var trainingCauses = []cause{
	{
		id: "log.fp16-overflow", grade: decisive, words: []string{"loss scale already at minimum", "inimum loss scale " +
			"reached",
			"Loss scale is at its minimum"},
		says: "the gradients of {who} overflow in fp16 at the smallest loss scale: the training diverges, or the range of " +
			"fp16 is too small for it",
		do: overflowDo, from: "DeepSpeed loss_scaler.py, fairseq fp16_optimizer.py",
	}, {
		id: "log.fp16-overflow", grade: family, quiet: true, with: "fp16.scale-low",
		words: []string{"Attempted loss scale: ", "reducing loss scale to "},
		form:  re(lowScale),
		test: func(v map[string]string) bool {
			scale, err := strconv.ParseFloat(v["v"], 64)
			return err == nil && scale <= 4
		},
		says: "the gradients of {who} overflow in fp16 step after step, and the loss scale is down to {v}: the training " +
			"diverges, or the range of fp16 is too small for it; it ends at the smallest scale",
		do: overflowDo, need: overflowNeed, from: "DeepSpeed loss_scaler.py, apex scaler.py",
	}, {
		id: "log.checkpoint-sizes", grade: decisive, words: []string{"checkpoint being loaded used a "},
		form: re(`checkpoint being loaded used a (?P<what>\w+) world size of (?P<has>\d+) but the current world size is ` +
			`(?P<want>\d+)`),
		says: "the checkpoint was written by {has} ranks ({what}), and {want} are to load it: its optimizer states cannot " +
			"be divided anew",
		do: "start with {has} ranks as before, or load it without the optimizer's states " +
			"(load_optimizer_states=False), or convert it to a universal checkpoint (ds_to_universal.py)",
		from: "DeepSpeed runtime/zero",
	}, {
		id: "log.checkpoint-sizes", grade: decisive, words: []string{" value from checkpoint ("},
		form: re(`(?P<what>\w*(?:parallel|world)_size) value from checkpoint \((?P<has>\w+)\) is not equal to the input ` +
			`argument value \((?P<want>\w+)\)`),
		says: "the checkpoint was written with {what} {has}, and the job that loads it has {want}",
		do:   "start with {what} {has}, or convert the checkpoint (Megatron: tools/checkpoint/convert.py, or torch_dist)",
		from: "Megatron checkpointing.py",
	}, {
		id: "log.disk-full", grade: family, words: []string{"PytorchStreamWriter failed writing", "] . unexpected pos "},
		form: re(`PytorchStreamWriter failed writing (?P<file>file \S+?|\w[\w ]*?)(?:: (?P<why>.*))?$|` +
			`unexpected pos \d+ vs \d+`),
		says: "{who} cannot write a file (torch.save)[: {why}]: as a rule the disk or the quota of that folder is full",
		do: "df -h and df -i of the output folder, and quota -s; free space, save fewer checkpoints (save_total_limit), or " +
			"write to another folder",
		need: []string{"df -h, df -i and quota -s of the output folder on that node"},
		from: "torch caffe2/serialize/inline_container.cc",
	}, {
		id: "log.file-write", grade: family, words: []string{"write(): fd "},
		form: re(`RuntimeError: write\(\): fd \d+ failed with (?P<why>Input/output error)`),
		says: "{who} cannot write a file (torch.save): the file system or disk of that folder fails on {where} ({why})",
		do: "on that node look at dmesg and the mount of that folder (findmnt): a server of NFS or Lustre that does not " +
			"answer, or a broken disk; write to another folder",
		need: []string{"dmesg of that node, and findmnt and df -h of the output folder"},
		from: "torch csrc/serialization.cpp, write(2)",
	}, {
		id: "log.file-write", grade: family, words: []string{" cannot be opened.", "Parent directory "},
		form: re(`RuntimeError: (?:File (?P<file>\S+) cannot be opened\.|(?P<why>Parent directory \S+ does not exist))`),
		says: "{who} cannot write a file (torch.save)[, {file}][: {why}]: its folder is not there on {where}, the user has " +
			"no right to it, or its disk or quota is full",
		do: "on that node look at ls -ld of the folder, df -h, df -i, quota -s and dmesg; make the folder on all nodes " +
			"(os.makedirs with exist_ok=True), or let only rank 0 write, to a folder with room",
		need: []string{"ls -ld, df -h, df -i and quota -s of the output folder on that node"},
		from: "torch caffe2/serialize/inline_container.cc",
	}, {
		id: "log.launch-tool-missing", grade: family, words: []string{"Ninja is required to load C++ extensions"},
		says: "torch of {who} cannot run the program ninja (ninja --version), with which it builds an extension: it is not " +
			"in PATH there, or another program of that name is",
		do: "pip install ninja, and put the folder bin of that environment first in PATH of the shell that the launcher " +
			"opens: ssh HOST which ninja shows it (DeepSpeed: a line PATH=… in ~/.deepspeed_env)",
		need: []string{"ssh HOST ninja --version, for each host"},
		from: "torch utils/cpp_extension.py",
	}, {
		// DDP compares the ranks from 0 on, and names the first one that differs: of an exchange that did not end, all do.
		id: "log.collective-timeout", grade: waits, words: []string{" has inconsistent 0 params"},
		form: re(`[Rr]ank (?P<rank>\d+) has \d+ params, while rank \d+ has inconsistent 0 params`),
		says: "{who} did not get the answers of the other ranks when DDP compared the models: an answer that did not " +
			"arrive reads as 0 params, and the rank that the message names is only the first that was compared",
		need: []string{"the output of all ranks, and the stack of those without this line (py-spy dump): one may have " +
			"ended, or be late or elsewhere before DDP(model); the models need not differ",
			"where all ranks have this line: runs with NCCL_DEBUG=INFO and with NCCL_P2P_DISABLE=1, as copies between the " +
				"GPUs (an IOMMU) or the network may not work"},
		from: "torch DistributedDataParallel, reducer.cpp",
	}, {
		id: "log.ulimit-nofile", grade: family, words: []string{"items of ancdata"},
		form: re(`received \d+ items of ancdata`),
		says: "{who} got no file descriptor from another process: its limit of open files is reached, as a rule, since " +
			"torch passes each tensor of a DataLoader worker by one",
		do: "raise it in the job's script: ulimit -n $(ulimit -Hn); or torch.multiprocessing.set_sharing_strategy(" +
			"\"file_system\"), or fewer workers",
		need: []string{"ulimit -n as the job sees it", "did a DataLoader worker end before"},
		from: "CPython multiprocessing/reduction.py",
	},
}
