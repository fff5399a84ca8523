package logs

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
	not:  []string{"etry", "rying", " INFO ", "NCCL INFO", "gds_ds12_lock_pthread.c"},
	says: "the logs end with a line that looks like an error, which launch does not know: {error}",
	need: []string{"the output of all ranks, from the start of the job",
		"launch doctor on its nodes, while the job hangs"},
}}
