package tcpstore

import (
	"regexp"
	"strconv"
	"strings"
)

// kind is what a key is about. The first ones are read first.
type kind int

const (
	kindNone kind = iota
	kindInit
	kindState
	kindMasterAddr
	kindMasterPort
	kindAgent
	kindShare
	kindBarrier
	kindBarrierDone
	kindEnded
	kindEndedOld // torch 1.13: one key for each agent
	kindID
	kindBlob
	kindHost // torch 1.13: the host's name of a rank, next to its blob
)

// key is a key of the store by what its name says.
type key struct {
	text  string // as on the wire
	kind  kind
	run   string // rendezvous id
	round int    // of c10d; 0 elsewhere
	// index is a node rank, or the rank within a group.
	index int
	group int // of a blob; -1: the group has a name and no number
}

const rendezvousPrefix = "torch.rendezvous."

// How the names of keys end: what comes before depends on the store that a program has handed to torch.
var (
	elasticKey = regexp.MustCompile(`^/(.*)/torchelastic/(role_info|assigned_ranks|agent/terminal_state)(/?)(\w+)$`)
	masterKey  = regexp.MustCompile(`^/(torch\.rendezvous\..*)/MASTER_(ADDR|PORT)$`)
	barrierKey = regexp.MustCompile(`(?:^|/)store_based_barrier_key:[^:/]*(:last_worker)?$`)
	// 0//cpu//0/3 of the default group, 0//1//cpu//0/3 of group 1.
	blobKey = regexp.MustCompile(`^/(?:.*/)?0//(?:([^/]+)//)?[a-z]+//0/(\d+)$`)
	// 0/0/3, 1/0/3 of torch 1.13, and next to it 0/0/rank_3.
	blobKeyOld = regexp.MustCompile(`^/(?:.*/)?(\d+)/0/(rank_)?(\d+)$`)
	// 0//cuda//0 of a group, 0//cuda//0:1 of two ranks, 0/0 of torch 1.13; nccl_storekey_0 of a newer backend.
	idKey = regexp.MustCompile(`^/(?:.*/)?(?:0//(?:[^/]+//)?[a-z]+//\d+(?::\d+)?|\d+/\d+(?::\d+)?|nccl_storekey_\w+)$`)
)

// parseKey returns what a key is about; kindNone is one of no interest.
func parseKey(text string) key {
	k := key{text: text}
	switch {
	case clean(text) != text: // no name that torch makes
	case text == "init/":
		k.kind = kindInit
	case strings.HasPrefix(text, "/"+rendezvousPrefix) && strings.Count(text, "/") == 1:
		k.kind, k.run = kindState, strings.TrimPrefix(text, "/"+rendezvousPrefix)
	case strings.Contains(text, "/torchelastic/"):
		return parseElastic(k)
	case strings.Contains(text, "/MASTER_"):
		if m := masterKey.FindStringSubmatch(text); m != nil {
			k.kind = map[string]kind{"ADDR": kindMasterAddr, "PORT": kindMasterPort}[m[2]]
			k.run, k.round = splitRun(m[1])
		}
	default:
		return parseRank(k)
	}
	return k
}

// parseElastic parses the keys of agents.
func parseElastic(k key) key {
	m := elasticKey.FindStringSubmatch(k.text)
	if m == nil {
		return k
	}
	what, parted, last := m[2], m[3] != "", m[4]
	k.run, k.round = splitRun(m[1])
	if what == "agent/terminal_state" && parted && last == "num_members" {
		k.kind = kindEnded
		return k
	}
	var ok bool
	if k.index, ok = number(last); !ok {
		return k
	}
	switch {
	case what == "role_info":
		k.kind = kindAgent
	case what == "assigned_ranks" && parted:
		k.kind = kindShare
	case what == "agent/terminal_state" && !parted:
		k.kind = kindEndedOld
	}
	return k
}

// parseRank parses the keys of ranks.
func parseRank(k key) key {
	if m := barrierKey.FindStringSubmatch(k.text); m != nil {
		k.kind = kindBarrier
		if m[1] != "" {
			k.kind = kindBarrierDone
		}
		return k
	}
	var ok bool
	if m := blobKey.FindStringSubmatch(k.text); m != nil {
		if k.index, ok = number(m[2]); ok {
			k.kind, k.group = kindBlob, groupNumber(m[1])
		}
		return k
	}
	if m := blobKeyOld.FindStringSubmatch(k.text); m != nil {
		if k.index, ok = number(m[3]); ok {
			k.kind, k.group = kindBlob, groupNumber(m[1])
		}
		if m[2] != "" {
			k.kind = kindHost
		}
		return k
	}
	if idKey.MatchString(k.text) {
		k.kind = kindID
	}
	return k
}

// splitRun returns the rendezvous id and the round of a prefix: of "torch.rendezvous.job.2" job and 2, of "job"
// job and 0.
func splitRun(prefix string) (run string, round int) {
	rest, c10d := strings.CutPrefix(prefix, rendezvousPrefix)
	if dot := strings.LastIndexByte(rest, '.'); c10d && dot >= 0 {
		if n, ok := number(rest[dot+1:]); ok {
			return rest[:dot], n
		}
	}
	return rest, 0
}

// groupNumber returns the number of a group's name: 0 of none, -1 of a name that is no number.
func groupNumber(name string) int {
	if name == "" {
		return 0
	}
	if n, ok := number(name); ok {
		return n
	}
	return -1
}

// number parses a rank or the like, up to 2^31.
func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// Hints name what to ask of a store that cannot list its keys.
type Hints struct {
	Runs  []string // rendezvous ids; without any, torchrun's default "none"
	Nodes int      // how many nodes the job has; 0: 16 are asked for
	World int      // WORLD_SIZE; 0: what the agents' keys make of it
}

// Bounds of what is asked by name.
const (
	guessedNodes  = 16
	maxNodesNamed = 1024
	maxNamed      = 4000 // keys of ranks; one request each
	maxAttempt    = 3    // restarts of torch 1.13, each with a prefix of its own
)

// agentNames returns the keys of agents, for a store that cannot list them.
func (h Hints) agentNames(rounds map[string]int) []key {
	var names []string
	runs := h.runs()
	for _, run := range runs {
		prefixes := []string{"/" + run}
		if round, ok := rounds[run]; ok {
			prefixes = append(prefixes, "/"+rendezvousPrefix+run+"."+strconv.Itoa(round))
		}
		for _, p := range prefixes {
			names = append(names, p+"/MASTER_ADDR", p+"/MASTER_PORT", p+"/torchelastic/agent/terminal_state/num_members")
			for n := range h.nodes() {
				i := strconv.Itoa(n)
				p := p + "/torchelastic/"
				names = append(names, p+"role_info/"+i, p+"assigned_ranks/"+i, p+"role_info"+i, p+"agent/terminal_state"+i)
			}
		}
	}
	return parseAll(names)
}

// rankNames returns the keys of the ranks of a world, and whether all are there.
func rankNames(d dialect, world int) (keys []key, all bool) {
	prefixes := []string{"/default_pg/"}
	forms := []string{"0//cpu//0/"}
	if d == old {
		for a := range maxAttempt {
			prefixes = append(prefixes, "//worker/attempt_"+strconv.Itoa(a)+"/default_pg/")
		}
		forms = append(forms, "0/0/", "0/0/rank_")
	}
	var names []string
	for _, p := range prefixes {
		for _, group := range []string{"0", "1"} {
			names = append(names, p+"store_based_barrier_key:"+group, p+"store_based_barrier_key:"+group+":last_worker")
		}
		names = append(names, p+"0//cuda//0", p+"0/0")
	}
	most := maxNamed / len(prefixes) / len(forms)
	for r := range min(world, most) {
		for _, p := range prefixes {
			for _, f := range forms {
				names = append(names, p+f+strconv.Itoa(r))
			}
		}
	}
	return parseAll(names), world <= most
}

func (h Hints) runs() []string {
	if len(h.Runs) == 0 {
		return []string{"none"}
	}
	return h.Runs[:min(len(h.Runs), 8)]
}

func (h Hints) nodes() int {
	if h.Nodes <= 0 {
		return guessedNodes
	}
	return min(h.Nodes, maxNodesNamed)
}

// parseAll parses the names, and leaves out what would not be read: an id may be of any length.
func parseAll(names []string) []key {
	var out []key
	for _, name := range names {
		if k := parseKey(name); k.kind != kindNone && len(name) <= maxKey {
			out = append(out, k)
		}
	}
	return out
}
