// Package rendezvous is the agreement over etcd v3: Join and Round, nothing
// else. Join makes N nodes one world, with ranks, sealed in one transaction;
// Round lets every node of that world post a value, the leader reduce them,
// and everybody read the one result. What a payload says is none of this
// package's business.
//
// Keys, all below /launch/JOB/ (docs/rendezvous.md has the argument why this
// cannot race):
//
//	m/SLOT          one per node, bound to its lease: who it is (Member)
//	c/leader        who leads, bound to its lease
//	c/epoch         the epoch: open, sealed or started (Epoch)
//	c/progress      who has come and who left (Attendance), for people
//	c/conflict      who wants an index that somebody holds, for people
//	n/WHO           why a node is not fit and did not register, for a minute (Note)
//	c/r/N/NAME      the result of a round of epoch N
//	w/NONCE/SLOT    the place of a node in a sealed world (Place)
//	p/N/NAME/RANK   what a node posted for a round of epoch N, bound to its lease
//
// Every node watches c/ and its own key, and reads its own place; only the
// leader watches the rest.
package rendezvous

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Budgets of this package, each with its reason.
const (
	// LeaseTTL is how long a silent node keeps its place. It must outlast an
	// etcd leader election (1 s by default, several in a row) and a garbage
	// pause, and is what the others wait for a node that died without a word.
	LeaseTTL = 10 * time.Second
	// opTimeout bounds one request; etcd itself gives up after 7 s
	// (server/v3 etcdserver: 5 s + 2 elections).
	opTimeout = 4 * time.Second
	// lastLook bounds the question who is here, after the time is up: the store
	// may be lost, and the answer only adds names.
	lastLook = time.Second
	// retryMax bounds the pause between two tries at a store that does not
	// answer: the late store is noticed within a second.
	retryMax = time.Second
	// typedGrace is how long a typed index waits, beyond the lease, for the
	// holder to vanish before both are named.
	typedGrace = 2 * time.Second
	// ackBudget bounds how long the store's host waits, before it becomes its
	// command, for the others to have read that they may start.
	ackBudget = 5 * time.Second
	// resignPause is how long a leader that is not part of the sealed world
	// leaves the lead to those who are.
	resignPause = time.Second
	// lastWords is how long the store's host lets its news reach the others
	// before the store ends with it.
	lastWords = 100 * time.Millisecond
	// settle is the part of its lease for which a node leaves out what can wait
	// while thousands of them register, beside the time that these take to come: the lease is young (etcd's client renews
	// one as often), and a watch catches up.
	settle = 3
	// progressEvery bounds how often the leader tells who has come: what all
	// nodes read costs N each time. It is 1 ms a node up to this.
	progressEvery = 10 * time.Second
	// lastCalls bounds how long nodes that keep coming put off a start for which
	// enough are here, in last calls.
	lastCalls = 6
	// few bounds the lists that all nodes read.
	few = 16
	// leaveBudget bounds the goodbye of a node that the others wait for;
	// endBudget that of one whose command has ended, perhaps after the store.
	leaveBudget, endBudget = time.Second, 400 * time.Millisecond
)

// Vouch says who stands for a node's index.
type Vouch string

const (
	ByArrival Vouch = ""          // no index: ranks by arrival; random identity, supersedes nobody
	Typed     Vouch = "typed"     // a person typed it: only a dead process of the same host is replaced
	Scheduled Vouch = "scheduled" // a scheduler gave it: the newest incarnation wins
)

// Member is one node, as the others see it.
type Member struct {
	ID    string `json:"id"`    // random for each start of launch: the incarnation
	Index int    `json:"index"` // -1: none
	Vouch Vouch  `json:"vouch,omitempty"`
	Size  int    `json:"size"` // the number of nodes that it expects; where Min is set, the most
	// Min is how many nodes are enough after the last call; 0: Size.
	Min int `json:"min,omitempty"`
	// Spares is how many nodes may wait beyond the others for a place; 0: nobody
	// is meant to be one too many.
	Spares int `json:"spares,omitempty"`
	// Patience is how long it waits for a world from when it said so.
	Patience time.Duration `json:"patience,omitempty"`

	Host string     `json:"host"` // kernel host name, for people
	Addr netip.Addr `json:"addr"` // its address for its peers
	// Addrs are more, on which its program will wait for theirs.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	Port  int          `json:"port"`            // the candidate for the job's own store, held there
	Peer  int          `json:"peer,omitempty"`  // port of its side channel
	First bool         `json:"first,omitempty"` // it hosts the store: without indexes it becomes rank 0

	Machine string    `json:"machine,omitempty"` // boot id and PID namespace: in which PIDs can be compared
	PID     int       `json:"pid"`
	Started string    `json:"started,omitempty"` // start time of PID, clock ticks after boot
	Since   time.Time `json:"since"`             // its own clock, for people only

	Epoch int    `json:"epoch,omitempty"` // the highest epoch that it has seen, for a store that came back empty
	Phase string `json:"phase"`           // PhaseArrived, …
	// Restarts is how often the job may be started again, as this node was
	// told; 0: launch has become the command and nobody watches its end.
	Restarts int `json:"restarts,omitempty"`
	// Bench is what this node was told to measure before the start; rank 0's counts.
	Bench  string `json:"bench,omitempty"`
	Status int    `json:"status,omitempty"` // PhaseEnded: the command's exit status
	Left   string `json:"left,omitempty"`   // why it is about to leave
}

// wants tells whether a member expects as many nodes as an epoch takes; of a
// sealed one it says nothing, since that has the size it got.
func (m Member) wants(ep Epoch) bool { return m.Size == ep.Size && m.Min == ep.Min }

// extra tells whether the job of a member can do without it: it is then part of
// the run that goes on, not of a next one.
func (m Member) extra() bool { return m.Spares > 0 || m.Min > 0 }

// Phases of a member.
const (
	PhaseArrived = "arrived" // it waits for a world
	PhaseStarted = "started" // it has read that it may start
	PhaseEnded   = "ended"   // its command ended; only where restarts were asked for
)

// Name is how people are told of the node: its index, host and address.
func (m Member) Name() string {
	var b strings.Builder
	if m.Index >= 0 {
		fmt.Fprintf(&b, "node %d ", m.Index)
	}
	b.WriteString(m.Host)
	if m.Addr.IsValid() {
		fmt.Fprintf(&b, " (%s)", m.Addr)
	}
	return b.String()
}

// Epoch is the one small key that everybody waits for. Its size does not grow
// with the number of nodes.
type Epoch struct {
	N     int    `json:"n"`
	Nonce string `json:"nonce"`
	State State  `json:"state"`
	Size  int    `json:"size"`            // how many it takes; once sealed, how many it has
	Min   int    `json:"min,omitempty"`   // as in Member
	First string `json:"first,omitempty"` // who said the size first
	// Master is node rank 0; nil while open.
	Master *Member `json:"master,omitempty"`
	// Why says why an epoch was opened again, or why it is over.
	Why string `json:"why,omitempty"`
	// Restarts is how often the job may be started again after a failure, and
	// Restart how often it was.
	Restarts int `json:"restarts,omitempty"`
	Restart  int `json:"restart,omitempty"`
}

// Place is a node's place in a sealed world.
type Place struct {
	Rank  int          `json:"rank"`
	ID    string       `json:"id"`            // of the incarnation that was sealed
	Name  string       `json:"name"`          // for people, once it is gone
	Addr  netip.Addr   `json:"addr,omitzero"` // for its peers
	Addrs []netip.Addr `json:"addrs,omitempty"`
	Peer  int          `json:"peer,omitempty"` // port of its side channel
	// Partners are the nodes that it looks at before the start; see Partners.
	Partners []Partner `json:"partners,omitempty"`
	// Over says that its command has ended, and Status how, as a shell has it;
	// nil: unknown.
	Over   bool `json:"over,omitempty"`
	Status *int `json:"status,omitempty"`
}

// Attendance is who has come, as the leader tells it. Its lists are bounded, so
// that it costs the same at any number of nodes.
type Attendance struct {
	Come    int      `json:"come"` // here and waiting
	Want    int      `json:"want"`
	Min     int      `json:"min,omitempty"`     // so many are enough, after the last call
	Here    []string `json:"here,omitempty"`    // the names of the first few of them
	Missing []int    `json:"missing,omitempty"` // the first few indexes that nobody holds, where indexes are used
	Left    []Member `json:"left,omitempty"`    // the last few that came and left; Left of each says why
	Unfit   []Note   `json:"unfit,omitempty"`   // the last few that have said that they are not fit
	More    int      `json:"more,omitempty"`    // how many others have said so
}

// State of an epoch.
type State string

const (
	Open    State = "open"    // nodes are joining
	Sealed  State = "sealed"  // the world is complete; a loss opens the next epoch
	Started State = "started" // go: a loss is no longer this room's business, unless restarts were asked for
	Over    State = "over"    // where restarts were asked for: the commands ended well, or there is no restart left
)

// World is the sealed epoch from the view of one node.
type World struct {
	Job    string `json:"job"`
	Epoch  int    `json:"epoch"`
	RunID  string `json:"run_id"` // new and unguessable for each epoch
	Rank   int    `json:"rank"`   // this node's
	Size   int    `json:"size"`   // number of nodes
	Self   Member `json:"self"`
	Master Member `json:"master"` // node rank 0
	// Partners are the few other nodes that this one looks at; see Partners.
	Partners []Partner `json:"partners,omitempty"`
}

// Event is something that people want to read while they wait.
type Event struct {
	Kind       EventKind   `json:"kind"`
	Member     *Member     `json:"member,omitempty"`
	Attendance *Attendance `json:"attendance,omitempty"`
	Have       []string    `json:"have,omitempty"`  // Waiting: the names of the first few that still run
	Size       int         `json:"size,omitempty"`  // Spare: of the world that is complete
	Unfit      []Note      `json:"unfit,omitempty"` // who has just said that it is not fit
	Text       string      `json:"text,omitempty"`
	Leader     bool        `json:"leader,omitempty"` // this node leads: it prints what all would print
}

// EventKind names an Event.
type EventKind string

const (
	Progress EventKind = "progress"   // who is here, who is not
	Left     EventKind = "left"       // Member left before the start; Text says why
	Unfit    EventKind = "unfit"      // nodes that did not register said why
	Conflict EventKind = "conflict"   // Member holds the index that this node wants
	Lost     EventKind = "store-lost" // the store does not answer; Text says why
	Back     EventKind = "store-back" // it answers again
	Waiting  EventKind = "waiting"    // for the members of the last run to end
	Spare    EventKind = "spare"      // all places are taken, and this node waits for one
	Anew     EventKind = "anew"       // the world that this node joined is no more, before its start; Text says why
	Late     EventKind = "late"       // after the go: Text says who has not started, or was lost at once
)

// ErrUnreachable: the store never answered, or was lost and did not return.
var ErrUnreachable = errors.New("store unreachable")

// DuplicateError: another node holds the index that a person typed here.
type DuplicateError struct{ Self, Holder Member }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("node rank %d is taken: %s pid %d holds it, and %s pid %d wants it too",
		e.Self.Index, e.Holder.Name(), e.Holder.PID, e.Self.Name(), e.Self.PID)
}

// SupersededError: a newer process with the same scheduler's index took over.
type SupersededError struct{ Self, Newer Member }

func (e *SupersededError) Error() string {
	return fmt.Sprintf("%s was replaced by a newer process: %s pid %d", e.Self.Name(), e.Newer.Name(), e.Newer.PID)
}

// SizeError: two nodes disagree about how many there are.
type SizeError struct {
	Self, Want string // "4", or "2:4"
	First      string // who said so first
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("this node expects %s nodes, the job expects %s (%s said so first)", e.Self, e.Want, e.First)
}

// SpareError: the job is over, or cannot be started again, and never needed
// this node.
type SpareError struct {
	Size int    // how many nodes took part
	Why  string // who failed in it; "" where nobody is known to have
}

func (e *SpareError) Error() string {
	others := fmt.Sprintf("%d other nodes", e.Size)
	if e.Size == 1 {
		others = "one other node"
	}
	return fmt.Sprintf("the job went with %s and did not need this one", others)
}

// MissingError: the time ran out before all nodes were here.
type MissingError struct {
	Attendance
	Running string // the last run of this job still holds these nodes
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d of %s nodes came", e.Come, Count(e.Want, e.Min))
}

// BrokenError: a node of the sealed world was lost before the start. Join
// again: its replacement makes the next epoch.
type BrokenError struct{ Why string }

func (e *BrokenError) Error() string { return "the world broke before the start: " + e.Why }

// Missing are the first few indexes 0..want-1 that nobody in have holds; nil
// where ranks go by arrival.
func Missing(have []Member, want int) []int {
	seen := map[int]bool{}
	for _, m := range have {
		if m.Index < 0 {
			return nil
		}
		seen[m.Index] = true
	}
	var out []int
	for i := 0; i < want && len(out) < few; i++ {
		if !seen[i] {
			out = append(out, i)
		}
	}
	return out
}

// Count writes a number of nodes as --nnodes takes it: "4", or "2:4" where from
// min on they are enough.
func Count(size, min int) string {
	if min == 0 {
		return strconv.Itoa(size)
	}
	return fmt.Sprintf("%d:%d", min, size)
}

// ranked puts size of the members, of which there are as many at least, into
// rank order: who has such an index holds that rank; the other ranks go to the
// store's host first, because its address is the one that people named as the
// meeting point, then by arrival (create revision). The store's host is always
// among them: the store ends with it.
func ranked(ms []registered, size int) []Member {
	out := make([]Member, size)
	taken := make([]bool, size)
	var rest []registered
	for _, m := range ms {
		if 0 <= m.Index && m.Index < size {
			out[m.Index], taken[m.Index] = m.Member, true
		} else {
			rest = append(rest, m)
		}
	}
	slices.SortStableFunc(rest, func(a, b registered) int {
		if a.First != b.First {
			return map[bool]int{true: -1, false: 1}[a.First]
		}
		return cmp.Compare(a.create, b.create)
	})
	for i := range out {
		if !taken[i] {
			out[i], rest = rest[0].Member, rest[1:]
		}
	}
	if len(rest) > 0 && rest[0].First {
		out[size-1] = rest[0].Member
	}
	return out
}

// registered is a member with the revision at which its key was created.
type registered struct {
	Member
	create, mod int64
	seen        time.Time // when the leader first saw it wait, by the leader's clock
}
