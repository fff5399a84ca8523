package logs

import (
	"cmp"
	"strconv"
	"strings"
)

// How a process can end, by its exit code.
var (
	exitKilled = cause{
		id: "log.killed", grade: family,
		says: "{who} was killed by SIGKILL: as a rule for its memory (the limit of its container or job, or a full host), " +
			"else by the scheduler or a user",
		do: "look at dmesg on that node, and at the memory limit of its container or cgroup: raise it, or let the " +
			"program use less",
		need: []string{"dmesg of that node around this time", "kubectl describe pod, or sacct -j JOB --format=State,MaxRSS"},
	}
	exitBus = cause{
		id: "log.shm-too-small", grade: family,
		says: "{who} died of SIGBUS: /dev/shm is full, or a mapped file was cut",
		do:   "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)",
		need: []string{"df -h /dev/shm in the container while the job runs"},
	}
	exitCrash = cause{
		id: "log.crashed", grade: family, wraps: true,
		says: "{who} crashed (signal {code}): a bug in native code, or libraries that do not fit together",
		do:   "run that rank with PYTHONFAULTHANDLER=1, and look at its output before the crash",
		need: []string{"the stack of the crash (PYTHONFAULTHANDLER=1, or a core file)"},
	}
	exitIllegal = cause{
		id: "log.crashed", grade: family,
		says: "{who} died of an illegal instruction (SIGILL): a program or library was built for another type of CPU",
		do:   "compare lscpu of the nodes; build for the oldest of them (no -march=native), or install a package for it",
		need: []string{"lscpu of that node", "the stack of the crash (PYTHONFAULTHANDLER=1, or a core file)"},
	}
	exitAbort = cause{
		id: "log.crashed", grade: ended,
		says: "{who} ended by SIGABRT: native code found an error, and wrote it before, as a rule",
		need: []string{"the output of that rank", "the stack of the crash (PYTHONFAULTHANDLER=1, or a core file)"},
	}
	exitTerm = cause{
		id: "log.stopped", grade: cascade,
		says: "{who} received SIGTERM or SIGKILL from outside",
		need: []string{"what stopped the job: a user, the scheduler, or another node that failed before"},
	}
	exitHangup = cause{
		id: "log.hangup", grade: decisive,
		says: "{who} ended by SIGHUP: the terminal or the ssh session in which the job was started was closed",
		do: "start it in tmux, with setsid, or as a batch job (sbatch); nohup does not help torchrun, which handles " +
			"SIGHUP itself",
	}
	exitCPU = cause{
		id: "log.cpu-time", grade: decisive,
		says: "{who} ended by SIGXCPU: it has used the CPU time that its limit allows (RLIMIT_CPU)",
		do:   "ulimit -t unlimited before the start; on a login node, start it as a batch job: its shell has that limit",
	}
	exitFileSize = cause{
		id: "log.file-size", grade: decisive,
		says: "{who} ended by SIGXFSZ: a file would have become larger than its limit allows (RLIMIT_FSIZE)",
		do:   "ulimit -f unlimited before the start",
	}
	exitOther = cause{
		id: "log.exited", grade: ended,
		says: "{who} ended with exit code {code}; its own error is not in these logs",
		need: []string{"the output of that rank (torchrun --log-dir DIR --redirects 3)"},
	}
)

// ofExit returns what an exit code means; nil: nothing bad.
func ofExit(code string) *cause {
	switch code {
	case "0":
		return nil
	case "-9", "137", "9":
		return &exitKilled
	case "-7", "135", "7":
		return &exitBus
	case "-11", "139", "11", "-8", "136", "8":
		return &exitCrash
	case "-6", "134", "6":
		return &exitAbort
	case "-4", "132", "4":
		return &exitIllegal
	case "-1", "129":
		return &exitHangup
	case "-24", "152":
		return &exitCPU
	case "-25", "153":
		return &exitFileSize
	case "-15", "143", "15", "-2", "130":
		return &exitTerm
	}
	return &exitOther
}

// meant returns the cause of an end by the signal, or the exit code of a shell, in a line.
func (c *cause) meant(vals map[string]string) *cause {
	code := vals["code"]
	if sig := vals["sig"]; sig != "" {
		code = "-" + cmp.Or(signals()[sig], sig)
		vals["code"] = code
	}
	if c.id != exitOther.id || !strings.HasPrefix(code, "-") && number(code) <= 128 {
		return c
	}
	if c = ofExit(code); c == &exitCrash {
		vals["code"] = signalOf(code)
	}
	return c
}

// signals returns the numbers of the signals that end processes, by name.
func signals() map[string]string {
	return map[string]string{"SIGHUP": "1", "SIGINT": "2", "SIGILL": "4", "SIGABRT": "6", "SIGBUS": "7", "SIGFPE": "8",
		"SIGKILL": "9", "SIGSEGV": "11", "SIGTERM": "15", "SIGXCPU": "24", "SIGXFSZ": "25"}
}

// signalOf returns the number of the signal in an exit code.
func signalOf(code string) string {
	code = strings.TrimPrefix(code, "-")
	if n := number(code); n > 128 {
		code = strconv.Itoa(n - 128)
	}
	return code
}

// endCauses are reports of ends by launchers, and last words of programs.
var endCauses = []cause{
	{
		id: "log.killed", grade: family,
		words: []string{
			"exited on signal 9",
			"KILLED BY SIGNAL: 9",
			"EXIT CODE: 9",
			"Killed",
			"exitcode: -9)",
			"exitCode: 137",
			"Exit Code:    137",
			"died from signal 9",
			"exit status 137",
			" Killed ",
		},
		form: re(`(?:sr|yhr)un: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)[\d,-]*: Killed|` +
			`^Killed(?:\s|$)|(?:^|[\s|:>\]])\S+: line \d+: +\d+ Killed(?:\s|$)|\] Killed\s*$|` + // of a shell, and of make
			`rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) exited on signal 9|` +
			`KILLED BY SIGNAL: 9\b|EXIT CODE: 9\b|exitcode: -9\) local_rank: (?P<local>\d+)|exitCode: 137|Exit Code:|signal 9|` +
			`exit status 137`),
		says: exitKilled.says, do: exitKilled.do, need: exitKilled.need,
	}, {
		id: "log.shm-too-small", grade: family,
		words: []string{
			"exited on signal 7",
			"exitcode: -7)",
			": Bus error",
			"Fatal Python error: Bus error",
			"Bus error (core",
		},
		form: re(`(?:sr|yhr)un: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)[\d,-]*: Bus error|` +
			`rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) exited|` +
			`exitcode: -7\)(?: local_rank: (?P<local>\d+))?|Bus error`),
		says: exitBus.says, do: exitBus.do, need: exitBus.need,
	}, {
		id: "log.crashed", grade: family, wraps: true,
		words: []string{"exited on signal 11", "exitcode: -11)", "Segmentation fault", "Caught signal 11",
			"Fatal Python error: ", "double free or corruption", "malloc(): ", "free(): invalid"},
		form: opt(`(?:sr|yhr)un: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)[\d,-]*: Segmentation|` +
			`rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) exited|` +
			`exitcode: (?P<code>-?\d+)\)?(?: local_rank: (?P<local>\d+))?|` +
			`[Ss]ignal (?P<code>11)`),
		not:  []string{"Bus error", "Fatal Python error: Aborted"},
		says: "{who} crashed: a bug in native code, or libraries that do not fit together",
		do:   exitCrash.do,
		need: exitCrash.need,
	}, {
		id: exitIllegal.id, grade: exitIllegal.grade,
		words: []string{"Illegal instruction", "exited on signal 4", "Signal 4 (SIGILL)", "exitcode: -4)",
			"KILLED BY SIGNAL: 4"},
		form: opt(`(?:sr|yhr)un: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)[\d,-]*: Illegal|` +
			`rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) exited|local_rank: (?P<local>\d+)`),
		says: exitIllegal.says, do: exitIllegal.do, need: exitIllegal.need,
	}, {
		id: "log.crashed", grade: ended,
		words: []string{"terminate called", "Aborted (core", "Fatal Python error: Aborted",
			"*** Process received signal", "exitcode: -6)"},
		form: opt(`local_rank: (?P<local>\d+)`),
		says: "{who} ended by an error in native code",
		need: exitCrash.need,
	}, {
		id: exitOther.id, grade: exitOther.grade, words: []string{"died with <Signals."},
		form: re(`died with <Signals\.(?P<sig>SIG[A-Z]+)`),
		says: exitOther.says, need: exitOther.need, from: "CPython subprocess.py",
	}, {
		id: exitTerm.id, grade: exitTerm.grade, words: []string{"Terminated"},
		form: re(`(?:^|[\\|/\]%-])Terminated\s*$`), // by a shell, which writes no more where it waits for its own child
		says: exitTerm.says, need: exitTerm.need,
	}, {
		id: "log.exited", grade: ended,
		words: []string{"Exited with exit code ", "exited with code ", "EXIT CODE: ", "EXIT STRING: ", "KILLED BY SIGNAL: ",
			"EXIT STATUS: ", "exited with status ",
			"exit status ", "exited on signal", "failed (exitcode: ", "xit code", "xit_code", "xitCode", " exit=",
			"rror code 137", "exits with return code = ",
			"killed by signal ", ": return code ", "exit with status code ", ") FAILED (exitcode "},
		form: re(`(?:sr|yhr)un: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)[\d,-]*: ` +
			`Exited with exit code (?P<code>[1-9]\d*)|` +
			`failed \(exitcode: (?P<code>[1-9]\d*)\)(?: local_rank: (?P<local>\d+))?|` +
			`process \d+ \(local_rank (?P<local>\d+)\) FAILED \(exitcode (?P<code>-?[1-9]\d*)\)|` +
			`EXIT (?:CODE|STATUS): (?P<code>-?[1-9]\d*)|` +
			`EXIT STRING: .*\(signal (?P<sig>\d+)\)|KILLED BY SIGNAL: (?P<sig>\d+)|` +
			`rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) exited on signal (?P<sig>\d+)|` +
			`exit status of rank (?P<rank>\d+): (?:killed by signal (?P<sig>\d+)|return code (?P<code>[1-9]\d*))|` +
			`^Process (?P<rank>\d+) exit with status code (?P<code>[1-9]\d*)|` + // of Horovod
			`(?:[Rr]ank (?P<rank>\d+) (?:\w+ )?with )?exit(?:ed with)? (?:status|code):? (?P<code>-?[1-9]\d*)|` +
			`(?:^|[^a-z])(?:[Ee]xit(?:[ _]?[Cc]ode)? ?[:=] ?|error code )(?P<code>-?[1-9]\d{0,2})\b|` +
			`exits with return code = (?P<code>-?[1-9]\d*)|exited on signal (?P<sig>\d+)`),
		not:  []string{"CalledProcessError"},
		says: exitOther.says, need: exitOther.need,
	},
}
