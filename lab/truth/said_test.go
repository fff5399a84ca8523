package truth

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"launch/lab/starts"
)

// families are the causes that a check, a cause of the doctor or a kind of message stands for:
//
//	reach    packets do not get from one node to another
//	long     long packets do not
//	slow     packets are lost, late, or few
//	name     a name does not lead to its node
//	port     a port is taken or closed
//	limit    a limit of the system
//	storage  a file, a file system, or space
//	command  the command cannot run here
//	died     the command has ended with a failure
//	line     arguments or ranks contradict each other
//	env      a variable
//	version  another version
//	gone     a node is absent, frozen or lost
//
// The longest beginning counts.
var families = map[string]string{
	"command.": "command storage", "env.": "env", "same.env": "env", "store.resolves": "name", "store.port": "port",
	"store.answers": "reach gone name", "dns.": "name", "host.resolves": "name", "peer.name": "name", "addr.": "reach",
	"port.": "port", "limits.": "limit", "shm.": "limit storage", "storage.": "storage", "mesh.": "reach",
	"peer.reach": "reach", "peer.beside": "reach env", "peer.identity": "reach", "peer.large": "long", "peer.mtu": "long",
	"same.mtu": "long", "same.family": "reach", "peer.port": "port reach", "peer.fast": "slow", "peer.loss": "slow",
	"peer.slow": "slow", "peer.clock": "clock", "same.": "line", "same.torch": "version", "same.nccl": "version",
	"same.python": "version", "same.launch": "version", "job.": "line", "start.late": "gone", "node.lost": "gone reach",
	"node.failed": "died", "node.rank": "died", "node.memory": "limit", "node.link": "slow",
	"node.stalled": "gone", "node.starved": "limit",
	// causes of the doctor, in a job.hangs
	"rank.stopped": "gone", "agent.stopped": "gone", "rank.gone": "gone died", "rank.left": "gone died",
	"rank.absent": "gone", "rank.before-init": "gone", "rank.failed": "died", "rank.thread": "died",
	"rank.gil": "gone", "rank.storage": "storage",
	"rank.duplicate": "line",
	"node.missing":   "gone", "node.ended": "died gone", "node.duplicate": "line", "nnodes.": "line", "world.": "line",
	"store.refused": "reach port gone", "store.dropped": "reach port", "store.silent": "reach port gone",
	"store.stopped": "gone", "store.foreign": "port", "store.name": "name", "address.loopback": "name env",
	"address.unreachable": "reach name", "path.mtu": "long", "path.loss": "slow", "path.stale": "reach gone",
	"path.lost": "reach gone", "path.here": "reach limit port", "node.frozen": "gone", "mesh.dropped": "reach",
	"collective.": "line", "peer.ended": "died gone",
}

// codes are the families of exit statuses whose text has no ID.
var codes = map[int]string{64: "line env", 65: "limit", 69: "reach gone name", 73: "line", 75: "gone line",
	78: "line env name", 126: "command", 127: "command"}

// kinds are the families of wait lines.
var kinds = map[string]string{"left": "gone", "conflict": "line", "store-lost": "reach gone", "progress": "gone"}

// id matches the IDs that a text names.
var id = regexp.MustCompile(`\b[a-z]+\.[a-z]+(?:[.-][a-z]+)*\b`)

// unreached matches what the kernel says of a network that is not there.
var unreached = regexp.MustCompile(`unreachable|no route|no address`)

// causesOf returns the families of a check or a cause.
func causesOf(name string) []string {
	best := ""
	for prefix := range families {
		if (name == prefix || strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix)) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return strings.Fields(families[best])
}

// statement is one thing that launch has said.
type statement struct {
	host   *host
	at     time.Time
	said   starts.Said
	causes []string
	alarm  bool // a warning, a failure or an error; a wait is none
}

// statements returns what launch has said on all hosts.
func (b *bed) statements() (all []statement) {
	for _, h := range b.hosts {
		for _, l := range h.Lines() {
			s := statement{host: h, at: l.At, said: l.Said}
			switch l.Said.Type {
			case "finding":
				if l.Said.ID == "gpu.busy" { // the ranks of all draws share one
					continue
				}
				if l.Said.Status != "fail" && l.Said.Status != "warn" {
					continue
				}
				s.alarm = true
				s.causes = causesOf(l.Said.ID)
				if l.Said.ID == "job.hangs" || l.Said.ID == "job.path" {
					s.causes = causesIn(l.Said.What)
				}
			case "error":
				s.alarm = true
				what := strings.TrimPrefix(l.Said.What, "store unreachable: ")
				if s.causes = causesIn(what); unreached.MatchString(what) {
					s.causes = append(s.causes, "reach")
				}
				if strings.Contains(what, "long packets get lost") {
					s.causes = append(s.causes, "long")
				}
				if len(s.causes) == 0 {
					s.causes = strings.Fields(codes[l.Said.Code])
				}
			case "wait":
				early := l.At.Sub(b.last) < lateBy
				if l.Said.Kind == "progress" && (early || len(l.Said.Attendance.Missing) == 0) {
					continue
				}
				s.causes = strings.Fields(kinds[l.Said.Kind])
				if l.Said.Kind == "unfit" {
					s.causes = causesIn(l.Text)
				}
				if len(s.causes) == 0 {
					continue
				}
			default:
				continue
			}
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b statement) int { return a.at.Compare(b.at) })
	return all
}

// causesIn returns the families of all IDs in a text.
func causesIn(text string) (causes []string) {
	for _, name := range id.FindAllString(text, -1) {
		causes = append(causes, causesOf(name)...)
	}
	return causes
}

// inTime reports whether a statement came before the command or soon after it.
func (b *bed) inTime(s statement) bool {
	return b.up.IsZero() || s.at.Before(later(b.up, b.struck()).Add(sayLimit))
}

// names reports whether a statement names the node of a fault, or is made on it; of a pair, both. A node
// that did not join has no name: it is named where all others are said to have joined.
func (b *bed) names(s statement, f fault) bool {
	one := func(i int) bool {
		h := b.hosts[i]
		_, joined, _ := strings.Cut(s.said.What, "(joined: ")
		if joined != "" && !slices.ContainsFunc(b.hosts, func(o *host) bool { return mentions(joined, o.Name) == (o == h) }) {
			return true
		}
		if b.d.typed && mentions(s.said.What, fmt.Sprint("node ", i)) {
			return true
		}
		return s.host == h || mentions(s.said.About(), h.Name) || mentions(s.said.About(), h.Addr)
	}
	switch f.scope {
	case allNodes:
		return true
	case onePair:
		return one(f.at) && one(f.to)
	}
	return one(f.at)
}

// mentions reports whether a text has a name, not as a part of a longer one.
func mentions(text, name string) bool {
	for rest := text; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		rest = rest[i+len(name):]
		if rest == "" || rest[0] < '0' || rest[0] > '9' {
			return true
		}
	}
}
