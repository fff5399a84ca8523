package companion

import (
	"strings"
	"syscall"

	"launch/rendezvous"
)

// meaning returns what a process of this exit status most likely ran into; "": its status does not say.
func meaning(status int) string {
	switch syscall.Signal(status - 128) {
	case syscall.SIGBUS:
		return "a bus error: a file that it had mapped is shorter than before (a library, a data file: was it written anew " +
			"in its place?), or /dev/shm is full (df /dev/shm), or the disk or memory failed (dmesg -T)"
	case syscall.SIGABRT:
		return "it gave up (abort), and its last lines say why. Gloo's \"op.preamble.length <= op.nbytes. A vs B\" there " +
			"means that another rank has sent A bytes where this one expects B: compare the code, the configuration and " +
			"the data of all nodes, for this one may be right"
	case syscall.SIGILL:
		return "an illegal instruction: the program, or a library, was built for another processor (lscpu)"
	}
	return ""
}

// meaningOf returns the meaning of the status that a text of the rendezvous has, or what to do about a signal.
func meaningOf(text string) string {
	if strings.Contains(text, "was ended by ") {
		return "if that was meant, end the command on this node, too; else start again on all nodes"
	}
	for _, s := range []syscall.Signal{syscall.SIGBUS, syscall.SIGABRT, syscall.SIGILL} {
		if strings.Contains(text, "ended with "+rendezvous.StatusText(128+int(s))) {
			return meaning(128 + int(s))
		}
	}
	return ""
}
