package logs

const (
	unknownID   = "log.unknown"
	unknownSays = "the logs show no cause that launch knows, and this line looks like an error: {error}"
	needAll     = "the output of all ranks, from the start of the job"
	needDoctor  = "launch doctor on its nodes, while the job hangs"
)

// unknownCauses are lines that look like errors, of programs that the table does not know. They count where
// nothing else does: a log that ends so is not well.
var unknownCauses = []cause{{
	id: unknownID, grade: unknown, soft: true,
	words: []string{"ERROR", "FATAL", "CRITICAL", "error: ", "imed out", "may be stuck", "till waiting",
		"not responding", "onnection refused", "nreachable", "to connect", "annot connect", "not connect", "ost connection",
		"returning error", "Couldn't ", "non-zero status", " failure "},
	form: re(`(?:^|[\s\[(<|])(?:ERROR|FATAL|CRITICAL)(?:$|[\s\]):>|])|(?:^|\s)(?:fatal )?error: +[A-Za-z/*]|imed out|` +
		`may be stuck|[Ss]till waiting|not responding|onnection refused|nreachable|(?:[Uu]nable|[Ff]ailed) to connect|` +
		`(?:[Cc]annot|[Cc]ould not) connect|ost connection|` +
		`returning error|Couldn't (?:create|open|allocate|initialize|find|get)|non-zero status|^Test \w+ failure `),
	not:  []string{"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "gds_ds12_lock_pthread.c"},
	says: unknownSays, need: []string{needAll, needDoctor},
}, {
	id: unknownID, grade: unknown, soft: true,
	words: []string{"Error: ", "Exception: ", "atal error", "ATAL ERROR", "atal Error", "FAILED", "failed with ",
		"ommand not found", "<error>", "<critical>", "<fatal>", "BAD TERMINATION", "MISMATCH", "forrtl: severe",
		"ERROR STOP", "Error in routine", "Terminating: ", "panic: ", "Error from server", "not enough space",
		"unschedulable", "unavailable in "},
	form: re(`(?:^|[\s("'\[|:])(?:[A-Za-z_][\w.]*)?(?:Error|Exception): +["'(<\[]?[A-Za-z/]{3}|` +
		`(?:^|[\s:*])(?:[Ff]atal [Ee]rror|FATAL ERROR)|` +
		`\bFAILED_[A-Z_]+\b|(?i:status|state)\W{1,4}FAILED\b|^FAILED\b|\bFAILED:|` +
		`failed with (?:(?:an? )?(?:exit|error|return|status|code|exception|signal|unknown)|rc\b|-?\d)|` +
		`: command not found|ommand not found: |^<(?:error|critical|fatal)>|BAD TERMINATION|\bMISMATCH\b|` +
		`^forrtl: severe|^(?:\w+ )?ERROR STOP\b|Error in routine \w+ \(|^Terminating: |^panic: |^Error from server|` +
		`not enough space|\bunschedulable\b|unavailable in (?:Cluster|Local)Queue`),
	not: []string{"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "WARN", "arning", "gnor", " 0 FAILED", "DEBUG",
		"except ", "raise "},
	says: unknownSays, need: []string{needAll, needDoctor},
}, { // the same of shells, compilers, runtimes of other languages, and batch systems
	id: unknownID, grade: unknown, soft: true,
	words: []string{"Error in ", "Exception in thread", "panicked at ", "ssertion ", "] Error ",
		"Could not find conda environment", "ERROR:", "onnection closed by ", " closed by remote host", "core dumped",
		"Floating point exception", "syntax error near", "sh: ", ": line ", "Exec format error", "Error(", "Timeout: ",
		"Pool: ", "Failure: ", "NotFound: ", "n error occurred", " failed", "borting", "annot allocate memory",
		"ermission denied", " option", " argument", "No module named ", "segfault at ", "ut of memory",
		"has been revoked", "Force Terminated", "killed", "Killed", "bnormally", "crashed", "backtrace (",
		"exec format error", "Abort(", "MPI_Abort", "SystemExit: ", "Check failed: ", "annot stat ", "annot create ",
		"nhandled exception", "CMake Error", "annot find -l", "Read-only file system", "imeout "},
	form: re(`^Error in |^Exception in thread|panicked at |[Aa]ssertion .*failed|\*\*\* \[.*\] Error \d|` +
		`Could not find conda environment|\(\d+\):ERROR:|` +
		`onnection closed by \S+ port \d|onnection to \S+ closed by remote host|core dumped|^Floating point exception|` +
		`syntax error near|(?:^|[\s:/])(?:ba|z|da|k)?sh: .*: (?:No such file or directory|cannot execute)|` +
		`: line \d+: .*: No such file or directory|[Ee]xec format error|^[\w.]+(?:Error|Exception)\(\w+\): |` +
		`^[a-z_]\w*(?:\.\w+)*\.[A-Z]\w*(?:Timeout|Pool|Failure|NotFound): |[Aa]n error occurred|` +
		`(?i:\b(?:job|task|step|run|worker|process|launch|script|command|build|test|pod|container|node)s?\b` +
		`[^,.;]{0,40} (?:has |have )?failed\b)|` +
		`(?:^|[\s;,])[Aa]borting\b|annot allocate memory|[Pp]ermission denied|` +
		`(?i:\b(?:invalid|unrecognized|unknown|illegal) (?:option|argument)s?\b)|: No module named |\bsegfault at |` +
		`\b[Oo]ut of memory\b|has been revoked|Force Terminated|` +
		`(?:was|been|[Jj]ob|[Pp]rocess) killed\b|[Kk]illed by\b|\b[Aa]bnormally\b|\bcrashed\b|backtrace \(|` +
		`^Abort\(\d+\) on node|\bMPI_Abort\b|^SystemExit: [1-9]|Check failed: |^(?:cp|mv|ln|mkdir|tar): cannot |` +
		`[Uu]nhandled exception|^CMake Error|annot find -l|Read-only file system|` +
		`[Tt]imeout (?:waiting|while|exceeded|expired|reached)`),
	not: []string{"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "WARN", "arning", "gnor", "DEBUG", "except ", "raise ",
		"gds_ds12_lock_pthread.c", "libibverbs", "no CUDA out", "may crash", " if ",
		"0 failed", "failed: 0", "failed=0", "0 jobs", "0 tasks", "0 workers", "0 processes"},
	says: unknownSays, need: []string{needAll, needDoctor},
}}

// cutOff is a traceback that a log ends in.
var cutOff = cause{
	id: unknownID, grade: unknown, soft: true,
	says: "the logs end in the middle of a traceback of {who}[, at {frame}]: its error is missing",
	need: []string{needAll},
}

// unfinished notes the tracebacks in which the log that was read ends.
func (f *follower) unfinished() {
	const after = 3
	for st := range f.busy {
		t := st.trace
		if t == nil || t.inner == "" || t.of != nil || t.lines-t.framed > after {
			continue
		}
		f.current, f.chunk = nil, nil
		frame := t.inner
		if t.at != "" {
			frame = t.at
		}
		f.add(&cutOff, st, &prefix{rank: -1, local: -1, body: []byte(wordTrace)}, map[string]string{"frame": frame})
	}
}
