package protocol

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Vouch names the source of a node's index.
type Vouch string

// The sources of an index.
const (
	ByArrival Vouch = ""          // no index: ranks by arrival; random identity, supersedes no node
	Typed     Vouch = "typed"     // typed by a person: replaces only a dead process of the same host
	Scheduled Vouch = "scheduled" // given by a scheduler: the newest incarnation wins
)

// Member is one node, as the others see it.
type Member struct {
	ID    string `json:"id"`    // random for each start of launch: the incarnation
	Index int    `json:"index"` // -1: none
	Vouch Vouch  `json:"vouch,omitempty"`
	Size  int    `json:"size"` // the number of nodes that it expects; where Min is set, the most
	// Min is how many nodes are enough after the last call; 0: Size.
	Min int `json:"min,omitempty"`
	// Spares is how many standby nodes may wait for a place; 0: none.
	Spares int `json:"spares,omitempty"`
	// Patience is how long it waits for a world, from the time of this value on.
	Patience time.Duration `json:"patience,omitempty"`

	Host string     `json:"host"` // kernel host name, for people
	Addr netip.Addr `json:"addr"` // its address for its peers
	// Addrs are more addresses, on which its program waits for its peers.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	// Guess says that Addr is a guess, and that this node will learn the right one from those that connect to it.
	Guess bool   `json:"guess,omitempty"`
	Port  int    `json:"port"`            // the candidate for the job's own store, held open there
	Peer  int    `json:"peer,omitempty"`  // port of its side channel
	First bool   `json:"first,omitempty"` // it hosts the store: without indexes it becomes rank 0
	Role  string `json:"role,omitempty"`  // its part in a job whose nodes run different lines

	Machine string    `json:"machine,omitempty"` // boot id and PID namespace: the scope of PID
	PID     int       `json:"pid"`
	Started string    `json:"started,omitempty"` // start time of PID, clock ticks after boot
	Since   time.Time `json:"since"`             // its own clock, for people only

	Epoch int    `json:"epoch,omitempty"` // the highest epoch that it has seen, for a store that returned empty
	Phase string `json:"phase"`           // PhaseArrived, …
	// Run is the run that this node was part of when its world ended; "": none. It
	// takes part in no other.
	Run string `json:"run,omitempty"`
	// Stands is the run that this node stood by for when it lost the store; "": none, or the store
	// has that run. It takes part in no other one that the store knows.
	Stands string `json:"stands,omitempty"`
	// Claim says that this node knows that its run goes on, also in a store that is empty again.
	Claim bool `json:"claim,omitempty"`
	// Restarts is how often this node allows the job to be started again;
	// 0: launch has become the command, and no process watches its end.
	Restarts int `json:"restarts,omitempty"`
	// Bench is what this node measures before the start; rank 0's value counts.
	Bench  string `json:"bench,omitempty"`
	Status int    `json:"status,omitempty"` // PhaseEnded: the command's exit status
	Left   string `json:"left,omitempty"`   // why it is about to leave
}

// wants returns whether a member expects as many nodes as an epoch takes. A
// sealed epoch has the size that it got, and no longer the expected one.
func (m Member) wants(ep Epoch) bool { return m.Size == ep.Size && m.Min == ep.Min }

// standsAside returns whether a member stood by for another run than that of an epoch. In an
// emptied store no run is known.
func (m Member) standsAside(ep Epoch) bool {
	return m.Stands != "" && m.Stands != ep.Run && (ep.Run != "" || ep.Last != "")
}

// extra returns whether the job of a member can do without it: the member then
// belongs to the current run, not to a next one.
func (m Member) extra() bool { return m.Spares > 0 || m.Min > 0 }

// Phases of a member.
const (
	PhaseArrived = "arrived" // it waits for a world
	PhaseStarted = "started" // it has read that it may start
	PhaseEnded   = "ended"   // its command has ended; only with restarts
)

// Name returns the node's index, host and address, for people.
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

// Epoch is the one small key that every node waits for. Its size does not grow
// with the number of nodes.
type Epoch struct {
	N     int        `json:"n"`
	Nonce string     `json:"nonce"`
	State EpochState `json:"state"`
	Size  int        `json:"size"`            // how many it takes; once sealed, how many it has
	Min   int        `json:"min,omitempty"`   // as in Member
	First string     `json:"first,omitempty"` // the node that set the size
	// Run is the run of the job: the nonce of its first world. It remains with each restart. Last is
	// the run before, which is over.
	Run  string `json:"run,omitempty"`
	Last string `json:"last,omitempty"`
	// Master is node rank 0; nil while open.
	Master *Member `json:"master,omitempty"`
	// Why is the reason why an epoch was opened again, or why it is over.
	Why string `json:"why,omitempty"`
	// Restarts is how often the job may be started again after a failure, and
	// Restart how often it was.
	Restarts int `json:"restarts,omitempty"`
	Restart  int `json:"restart,omitempty"`
}

// runs returns whether the world of the epoch has started.
func (ep Epoch) runs() bool { return ep.State == Started || ep.State == Over }

// Begun returns whether a world of the store has started. Of one store it is true from the first go on.
func (ep Epoch) Begun() bool { return ep.runs() || ep.Restart > 0 || ep.Last != "" }

// EpochState is the state of an epoch.
type EpochState string

// The states of an epoch.
const (
	Open    EpochState = "open"    // nodes are joining
	Sealed  EpochState = "sealed"  // the world is complete; a loss opens the next epoch
	Started EpochState = "started" // the go: only with restarts does a loss still matter
	Over    EpochState = "over"    // with restarts: the commands ended well, or no restarts are left
)

// Place is a node's place in a sealed world.
type Place struct {
	Partner
	// Partners are the nodes that it checks before the start; see Partners.
	Partners []Partner `json:"partners,omitempty"`
	// Over says that its command has ended, and Status how, as a shell reports it;
	// nil: unknown.
	Over   bool `json:"over,omitempty"`
	Status *int `json:"status,omitempty"`
}

// World is the sealed epoch from the view of one node.
type World struct {
	Job    string `json:"job"`
	Epoch  int    `json:"epoch"`
	RunID  string `json:"run_id"` // new and unguessable for each epoch
	Rank   int    `json:"rank"`   // this node's
	Size   int    `json:"size"`   // number of nodes
	Self   Member `json:"self"`
	Master Member `json:"master"` // node rank 0
	// Partners are the few other nodes that this one checks; see Partners.
	Partners []Partner `json:"partners,omitempty"`
}

// Fate is the outcome of a run that was started with restarts.
type Fate struct {
	Again    bool   `json:"again"`         // stop the command, then Return and Join
	Why      string `json:"why,omitempty"` // the node that failed or was lost; "" where all commands ended well
	Restart  int    `json:"restart"`       // how many restarts there were, this one included
	Restarts int    `json:"restarts"`      // how many there may be
}

// Attendance lists the nodes that have joined, as the leader publishes it. Its lists are
// bounded, so that it costs the same at any number of nodes.
type Attendance struct {
	Joined  int      `json:"come"` // registered and waiting
	Want    int      `json:"want"`
	Min     int      `json:"min,omitempty"`     // how many are enough after the last call
	Here    []string `json:"here,omitempty"`    // the names of the first few of them
	Missing []int    `json:"missing,omitempty"` // the first few free indexes, where indexes are used
	Left    []Member `json:"left,omitempty"`    // the last few that joined and left; Left of each says why
	Waited  []Member `json:"waited,omitempty"`  // the last few that joined and waited until their time ran out
	Over    int      `json:"over,omitempty"`    // how many did
	Unfit   []Note   `json:"unfit,omitempty"`   // the last few that have reported that they are unfit
	More    int      `json:"more,omitempty"`    // how many others have reported so
}

// TimeUp is why a node leaves whose time ran out.
const TimeUp = "its --join-timeout ran out"

// Total returns the attendance with the nodes that waited until their time ran out among those that have joined:
// each node reports the same at its end, no matter which of them ends first.
func (a Attendance) Total() Attendance {
	a.Joined += a.Over
	a.Here = slices.Sorted(slices.Values(append(slices.Clone(a.Here), names(a.Waited)...)))
	a.Here, a.Waited, a.Over = a.Here[:min(few, len(a.Here))], nil, 0
	return a
}

// Report is the value of c/progress.
type Report struct {
	Attendance
	Final bool `json:"final,omitempty"` // the store host gave up, and the store ends with it
}

// Lateness is the value of c/late: the nodes of a started world that its others wait for.
type Lateness struct {
	Nonce string   `json:"nonce"`
	Who   []string `json:"who"`            // the first few that have not started in time
	Lost  []string `json:"lost,omitempty"` // the first few that were lost
	// Failed are the first few whose command ended with another status than 0.
	Failed []string `json:"failed,omitempty"`
	// Closing says that the store host's command has ended, and that the store ends with it.
	Closing bool `json:"closing,omitempty"`
}

// Note is the reason why a node is unfit and has not registered. It is advice: no
// decision about a world depends on it.
type Note struct {
	Name  string `json:"name"`  // of the node, as Member.Name has it
	Index int    `json:"index"` // -1: none
	Text  string `json:"text"`  // which check failed, and what it saw
	// First: it is the node that hosts the store, for which the others wait.
	First bool `json:"first,omitempty"`
}

// Limits of a note's name and text, in characters: each node that waits reads a few.
const NoteText, NoteName = 300, 100

// Shortened returns the note within its limits.
func (n Note) Shortened() Note {
	n.Name, n.Text = shortened(n.Name, NoteName), shortened(n.Text, NoteText)
	return n
}

// shortened returns the first characters of a text that is longer.
func shortened(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Notice is something that people want to read while they wait.
type Notice struct {
	Kind       NoticeKind  `json:"kind"`
	Member     *Member     `json:"member,omitempty"`
	Attendance *Attendance `json:"attendance,omitempty"`
	Have       []string    `json:"have,omitempty"`  // the first few that still run: Waiting; that ran: Lost
	Size       int         `json:"size,omitempty"`  // of the complete world: Spare; Waiting, one too many
	Unfit      []Note      `json:"unfit,omitempty"` // the nodes that have just reported that they are unfit
	Text       string      `json:"text,omitempty"`
	Leader     bool        `json:"leader,omitempty"` // this node leads: it prints for all
}

// NoticeKind names a Notice.
type NoticeKind string

// The kinds of a notice.
const (
	Progress NoticeKind = "progress"   // which nodes have joined and which are missing
	Left     NoticeKind = "left"       // Member left before the start; Text says why
	Unfit    NoticeKind = "unfit"      // nodes that did not register report why
	Conflict NoticeKind = "conflict"   // Member holds the index that this node wants
	Lost     NoticeKind = "store-lost" // the store does not answer; Text says why
	Back     NoticeKind = "store-back" // it answers again
	Waiting  NoticeKind = "waiting"    // for the members of the last run to end
	Spare    NoticeKind = "spare"      // all places are taken; this standby node waits for one
	Broken   NoticeKind = "anew"       // the joined world broke up before its start; Text has the reason
	Late     NoticeKind = "late"       // after the go: Text names a node that has not started
	Gone     NoticeKind = "gone"       // after the go: Text names a node that was lost
	Failed   NoticeKind = "failed"     // after the go: Text names a node whose command failed
)

// Count returns a number of nodes as --nnodes takes it: "4", or "2:4" where min
// of them are enough.
func Count(size, min int) string {
	if min == 0 {
		return strconv.Itoa(size)
	}
	return fmt.Sprintf("%d:%d", min, size)
}
