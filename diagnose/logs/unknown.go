package logs

const (
	unknownID   = "log.unknown"
	unknownSays = "the logs show no cause that launch knows, and this line looks like an error: {error}"
)

// looks returns a row for lines that look like errors.
func looks(form form, words ...string) cause {
	return cause{id: unknownID, grade: unknown, soft: true, words: words, form: form, not: notErrors, unless: zeroErrors,
		says: unknownSays,
		need: []string{"the output of all ranks, from the start of the job",
			"launch doctor on its nodes, while the job hangs"}}
}

// notErrors are words of lines that are no errors, though they look like ones.
var notErrors = []string{
	"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "gds_ds12_lock_pthread.c", " WARN", "[WARN", "WARN:",
	"WARNING", "arning:", "gnor", " DEBUG ", "[DEBUG", "except ", "raise ", "libibverbs", "no CUDA out", "may crash",
	"to /tmp instead", "alling back to ", "Plugin file not found", "is usually due to", "is usually caused by",
	"severity=Corrected", "orrected error received",
}

// zeroErrors are counts of failures that are zero.
var zeroErrors = re(`(?i)\b0 (?:\w+ )?failed|\bfailed(?: \w+)?[:=] ?0\b|\b0 (?:jobs|tasks|workers|processes|tests)\b`)

// unknownCauses are lines that look like errors, of programs that the table does not know. They count where
// nothing else does: a log that ends so is not well. A row has few words, as its form is slow.
var unknownCauses = []cause{
	{
		id: unknownID, grade: unknown, soft: true,
		words: []string{"ERROR", "FATAL", "CRITICAL", "error: ", "imed out", "may be stuck", "till waiting",
			"not responding", "onnection refused", "nreachable", "to connect", "annot connect", "not connect",
			"ost connection", "returning error", "Couldn't ", "non-zero status", " failure "},
		form: re(`(?:^|[\s\[(<|])(?:ERROR|FATAL|CRITICAL)(?:$|[\s\]):>|])|(?:^|\s)(?:fatal )?error: +[A-Za-z/*]|imed out|` +
			`may be stuck|[Ss]till waiting|not responding|onnection refused|nreachable|(?:[Uu]nable|[Ff]ailed) to connect|` +
			`(?:[Cc]annot|[Cc]ould not) connect|ost connection|` +
			`returning error|Couldn't (?:create|open|allocate|initialize|find|get)|non-zero status|^Test \w+ failure `),
		not: []string{"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "gds_ds12_lock_pthread.c", "to /tmp instead",
			"Plugin file not found", "is usually due to", "is usually caused by"},
		says: unknownSays, need: []string{"the output of all ranks, from the start of the job",
			"launch doctor on its nodes, while the job hangs"},
	},
	looks(nil, "Exception in thread", "panicked at ", "Could not find conda environment", "core dumped",
		"syntax error near", "xec format error", "n error occurred", "has been revoked", "Force Terminated",
		"annot allocate memory", "nhandled exception", "Read-only file system", "MPI_Abort", "Check failed: ",
		"BAD TERMINATION", "ATAL ERROR", "ommand not found", "): ERROR", "):ERROR", "segfault at ", "backtrace ("),
	looks(re(`(?:^|[\s("'\[|:])[\w.]*(?:Error|Exception)(?:\(\w+\))?: +["'(<\[]?[A-Za-z/]{3}`),
		"Error: ", "Exception: ", "Error): "),
	looks(re(`^(?:Error|CMake Error|Error from server|panic: |forrtl: severe|Terminating: |Floating point exception|`+
		`SystemExit: [1-9]|<(?:error|critical|fatal)>|Abort\(\d+\) on node|(?:\w+ )?ERROR STOP\b)`),
		"Error in ", "CMake Error", "Error from server", "panic: ", "forrtl: severe", "Terminating: ",
		"Floating point exception", "SystemExit: ", "<error>", "<critical>", "<fatal>", "Abort(", "ERROR STOP"),
	looks(re(`(?:^|[\s:*])[Ff]atal [Ee]rror|Error in routine \w+ \(|\*\*\* \[.*\] Error \d`),
		"atal error", "atal Error", "Error in routine", "] Error "),
	looks(re(`\bFAILED_[A-Z_]+\b|(?i:status|state)\W{1,4}FAILED\b|^FAILED\b|\bFAILED:|\bMISMATCH\b`),
		"FAILED", "MISMATCH"),
	looks(re(`failed with (?:(?:an? )?(?:exit|error|return|status|code|exception|signal|unknown)|rc\b|-?\d)`),
		"failed with "),
	looks(re(`(?i)\b(?:job|task|step|run|worker|process|launch|script|command|build|test|pod|container|node)(?:e?s)?\b`+
		`[^,.;]* failed\b`), " failed"),
	looks(re(`\b(?:not enough space|unschedulable)\b|unavailable in (?:Cluster|Local)Queue`),
		"not enough space", "unschedulable", "unavailable in "),
	looks(re(`onnection closed by \S+ port \d|onnection to \S+ closed by remote host`),
		"onnection closed by ", " closed by remote host"),
	looks(re(`(?:^|[\s:/])(?:ba|z|da|k)?sh: .*: (?:No such file or directory|cannot execute)|`+
		`: line \d+: .*: No such file or directory`), "sh: ", ": line "),
	looks(re(`^[a-z_]\w*(?:\.\w+)*\.[A-Z]\w*(?:Timeout|Pool|Failure|NotFound): `),
		"Timeout: ", "Pool: ", "Failure: ", "NotFound: "),
	looks(re(`\b(?:[Ii]nvalid|[Uu]nrecognized|[Uu]nknown|[Ii]llegal) (?:option|argument)s?\b`),
		"nvalid option", "nvalid argument", "nrecognized option", "nrecognized argument", "nknown option",
		"nknown argument", "llegal option"),
	looks(re(`: No module named |\b[Oo]ut of memory\b|[Pp]ermission denied|annot find -l|[Aa]ssertion .*failed`),
		"No module named ", "ut of memory", "ermission denied", "annot find -l", "ssertion "),
	looks(re(`(?:was|been|[Jj]ob|[Pp]rocess) killed\b|[Kk]illed by\b|\b[Aa]bnormally\b|\bcrashed\b|`+
		`(?:^|[\s;,])[Aa]borting\b`),
		"killed", "illed by", "bnormally", "crashed", "borting"),
	looks(re(`^\s*Warning\s+\w*(?:Failed|BackOff|Unhealthy|Evict|Kill|NotReady|Exceeded|Rejected)\w*\s`), "Warning "),
	looks(re(`^(?:cp|mv|ln|mkdir|tar): cannot |[Tt]imeout (?:waiting|while|exceeded|expired|reached)`),
		"annot stat ", "annot create ", "imeout "),
}
