package logs

const (
	unknownSays = "the logs end with a line that looks like an error, which launch does not know: {error}"
	needAll     = "the output of all ranks, from the start of the job"
	needDoctor  = "launch doctor on its nodes, while the job hangs"
)

// unknownCauses are lines that look like errors, of programs that the table does not know. They count where
// nothing else does: a log that ends so is not well.
var unknownCauses = []cause{{
	id: "log.unknown", grade: unknown, soft: true,
	words: []string{"ERROR", "FATAL", "CRITICAL", " error: ", "imed out", "may be stuck", "till waiting",
		"not responding", "onnection refused", "nreachable", "to connect", "annot connect", "not connect", "ost connection",
		"returning error", "Couldn't ", "non-zero status", " failure "},
	form: re(`(?:^|[\s\[(<|])(?:ERROR|FATAL|CRITICAL)(?:$|[\s\]):>|])|(?:^|\s)(?:fatal )?error: +[A-Za-z/*]|imed out|` +
		`may be stuck|[Ss]till waiting|not responding|onnection refused|nreachable|(?:[Uu]nable|[Ff]ailed) to connect|` +
		`(?:[Cc]annot|[Cc]ould not) connect|ost connection|` +
		`returning error|Couldn't (?:create|open|allocate|initialize|find|get)|non-zero status|^Test \w+ failure `),
	not:  []string{"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "gds_ds12_lock_pthread.c"},
	says: unknownSays, need: []string{needAll, needDoctor},
}, {
	id: "log.unknown", grade: unknown, soft: true,
	words: []string{"Error: ", "Exception: ", "atal error", "ATAL ERROR", "atal Error", "FAILED", "failed with ",
		"ommand not found", "<error>", "<critical>", "<fatal>", "BAD TERMINATION", "MISMATCH", "forrtl: severe",
		"ERROR STOP", "Error in routine", "Terminating: ", "panic: ", "Error from server", "not enough space",
		"unschedulable", "unavailable in "},
	form: re(`(?:^|[\s("'\[|:])(?:[A-Za-z_][\w.]*)?(?:Error|Exception): +["'(<\[]?[A-Za-z/]{3}|` +
		`(?:^|[\s:*])(?:[Ff]atal [Ee]rror|FATAL ERROR)|` +
		`\bFAILED_[A-Z]+\b|(?i:status|state)\W{1,4}FAILED\b|^FAILED\b|\bFAILED:|` +
		`failed with (?:(?:an? )?(?:exit|error|return|status|code|exception|signal|unknown)|rc\b|-?\d)|` +
		`: command not found|ommand not found: |^<(?:error|critical|fatal)>|BAD TERMINATION|\bMISMATCH\b|` +
		`^forrtl: severe|^(?:\w+ )?ERROR STOP\b|Error in routine \w+ \(|^Terminating: |^panic: |^Error from server|` +
		`not enough space|\bunschedulable\b|unavailable in (?:Cluster|Local)Queue`),
	not: []string{"etry", "rying", " INFO ", "[INFO]", "NCCL INFO", "WARN", "arning", "gnor", " 0 FAILED", "DEBUG",
		"except ", "raise "},
	says: unknownSays, need: []string{needAll, needDoctor},
}}
