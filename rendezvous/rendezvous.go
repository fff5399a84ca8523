// Package rendezvous is the agreement of the nodes over etcd v3: Join and Round.
// Join makes N nodes one world with ranks, sealed in one transaction. Round lets
// every node of that world post a value, the leader reduce them, and every node
// read the one result. The package does not look into these values.
//
// The decisions are those of package protocol, a state machine; a Session drives
// it. docs/rendezvous.md lists the keys and says why the protocol cannot race.
package rendezvous

import (
	"time"

	"launch/rendezvous/protocol"
)

// Budgets of this package, each with its reason.
const (
	// LeaseTTL is how long a silent node has its place. It must outlast an
	// etcd leader election (1 s by default, several in a row) and a garbage
	// pause. The others wait so long for a node that died.
	LeaseTTL = 10 * time.Second
	// opTimeout bounds one request; etcd itself gives up after 7 s
	// (server/v3 etcdserver: 5 s + 2 elections).
	opTimeout = 4 * time.Second
	// lastLook bounds the last read of the attendance, after the time is up: the store
	// may be lost, and the answer only adds names.
	lastLook = time.Second
	// retryMax bounds the pause between two tries at a store that does not answer.
	retryMax = protocol.RetryMax
	// ackBudget bounds how long the store host waits, before it becomes its
	// command, for the others to read that they may start.
	ackBudget = 5 * time.Second
	// lastWords is how long the store host lets the others read why it ends
	// before the store ends with it.
	lastWords = 100 * time.Millisecond
	// settle is the part of its lease for which a node postpones what can wait while
	// thousands of nodes register: the lease is young (etcd's client renews one as
	// often), and a watch catches up.
	settle = 3
	// few bounds the lists that one request reads for people.
	few = 16
	// leaveBudget bounds the goodbye of a node that the others wait for;
	// endBudget the goodbye of a node whose command has ended, perhaps after the store.
	leaveBudget, endBudget = time.Second, 400 * time.Millisecond
)

// The values of the protocol; package protocol describes each.
type (
	Vouch           = protocol.Vouch
	Member          = protocol.Member
	Epoch           = protocol.Epoch
	State           = protocol.EpochState
	Place           = protocol.Place
	Partner         = protocol.Partner
	World           = protocol.World
	Fate            = protocol.Fate
	Attendance      = protocol.Attendance
	Note            = protocol.Note
	Event           = protocol.Notice
	EventKind       = protocol.NoticeKind
	DuplicateError  = protocol.DuplicateError
	SupersededError = protocol.SupersededError
	SizeError       = protocol.SizeError
	SpareError      = protocol.SpareError
	MissingError    = protocol.MissingError
	BrokenError     = protocol.BrokenError
	RunOverError    = protocol.RunOverError
	UnfitError      = protocol.UnfitError

	keys   = protocol.Keys
	action = protocol.Action
	event  = protocol.Event
)

// StatusText returns an exit status as a shell has it, with the signal that it means: "137 (killed)".
func StatusText(status int) string { return protocol.StatusText(status) }

// Ender returns what ended a process by a signal, as in "SIGINT (Ctrl-C, or kill -INT)", by its exit status; "": it was
// no signal by which people and schedulers end a job.
func Ender(status int) string { return protocol.Ender(status) }

// The constants of the protocol; package protocol describes each.
const (
	ByArrival, Typed, Scheduled = protocol.ByArrival, protocol.Typed, protocol.Scheduled

	PhaseArrived, PhaseStarted, PhaseEnded = protocol.PhaseArrived, protocol.PhaseStarted, protocol.PhaseEnded

	Open, Sealed, Started, Over = protocol.Open, protocol.Sealed, protocol.Started, protocol.Over

	Progress, Left, Unfit, Conflict = protocol.Progress, protocol.Left, protocol.Unfit, protocol.Conflict
	Lost, Back, Waiting, Spare      = protocol.Lost, protocol.Back, protocol.Waiting, protocol.Spare
	Broken, Late, Gone, Failed      = protocol.Broken, protocol.Late, protocol.Gone, protocol.Failed
)

// TimeUp is why a node leaves whose time ran out; see protocol.TimeUp.
const TimeUp = protocol.TimeUp

// The errors of the protocol; package protocol describes each.
var (
	ErrUnreachable = protocol.ErrUnreachable
	ErrFull        = protocol.ErrFull
)

// Missing returns the first few free indexes; see protocol.Missing.
func Missing(have []Member, want int) []int { return protocol.Missing(have, want) }

// Count writes a number of nodes as --nnodes takes it.
func Count(size, min int) string { return protocol.Count(size, min) }
