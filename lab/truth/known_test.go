package truth

import (
	"slices"
	"syscall"

	"launch/lab/starts"
)

// knowns are disagreements that stay, each with its reason: a mechanism, and what launch does.
var knowns = []struct {
	mechanism string
	verdict   verdict
	why       string
}{
	{"mount: /proc is empty", failed, "launch finds its command's processes in /proc, and says that it needs it"},
	{"filter: ephemeral ports are closed", failed, lucky},
	{"filter: nothing new gets through", failed, lucky},
	{"filter: an allow-list of ports", failed, lucky},
	{"filter: the master port is closed to one node", failed, early},
	{"link: packets are lost", failed, slow},
	{"link: a low rate", failed, slow},
	{"limit: open files", failed, small},
	{"limit: open files, soft", failed, small},
	{"limit: address space in KiB", failed, small},
	{"limit: data in KiB", failed, small},
	{"limit: the size of files", failed, small},
	{"limit: processes of an ordinary user", failed, small},
	{"limit: address space in KiB", node, unloaded},
	{"limit: data in KiB", node, unloaded},
	{"variable: NODE_RANK of an earlier job", failed, stale},
	{"line: one node more in the line", failed, contradicts},
	{"variable: GLOO_SOCKET_IFNAME is loopback", failed, noGloo},
	{"time: a rank is killed", silent, together},
	{"time: all processes of a node are killed", silent, together},
}

const (
	// lucky is why a job may run alone where launch fails it.
	lucky = "the program chooses which rank calls which, and none calls this node"
	// early is another reason.
	early = "without launch the ranks had connected before the filter was there"
	// slow is another one.
	slow = "the job runs into a time limit of its own by chance, on either side"
	// small is another one: an error of launch names the limit.
	small = "launch itself cannot start under that limit, and says so"
	// unloaded is why no word of launch names the limit.
	unloaded = "the kernel kills a program of that size as it loads it; the other nodes say which node is missing"
	// stale is why launch fails a job that runs with ranks typed by hand.
	stale = "a node rank that the job cannot have is refused by name: it may be right, and --nnodes wrong"
	// noGloo is why it fails a line of torchrun that runs the bench's own program.
	noGloo = "the bench's own program has no Gloo, which would listen on loopback"
	// contradicts is why it fails one that runs by luck: torchrun's static rendezvous does not compare the counts.
	contradicts = "the nodes are given two numbers of nodes, of which one is wrong"
	// together is why launch may say nothing. For a command that waits, launch names the node that failed.
	together = "the commands of all nodes end within a second, with errors of their own"
)

// known returns the reason why a disagreement stays.
func known(r result) (string, bool) {
	for _, k := range knowns {
		holds := true
		switch k.why {
		case together:
			holds = r.with.allEnded()
		case small:
			holds = r.with.says(65)
		case unloaded:
			holds = slices.ContainsFunc(r.with.hosts, func(h *host) bool { return h.Status == 128+int(syscall.SIGSEGV) })
		case stale, contradicts:
			holds = r.with.says(78)
		case slow:
			holds = !r.with.up.IsZero()
		}
		if holds && k.verdict == r.Verdict && slices.Contains(r.Topics, k.mechanism) {
			return k.why, true
		}
	}
	return "", false
}

// allEnded reports whether all commands ended by themselves, soon after the first of them.
func (b *bed) allEnded() bool {
	return !slices.ContainsFunc(b.hosts, func(h *host) bool {
		return h.Ended.IsZero() || h.Ended.After(b.ended) || h.Ended.Sub(b.died) > afterDeath
	})
}

// says reports whether launch ends with a status on a host, and an error of it says why.
func (b *bed) says(code int) bool {
	return slices.ContainsFunc(b.hosts, func(h *host) bool {
		return slices.ContainsFunc(h.Lines(), func(l starts.Line) bool {
			return l.Said.Type == "error" && l.Said.Code == code
		})
	})
}
