// Package flight reads the dumps of torch's flight recorder, and says which rank has not joined a
// collective, or calls another one than the others.
package flight

import (
	"slices"
	"strings"
	"time"
)

// Set is the dumps of one job.
type Set struct {
	Dumps []Dump
	Gaps  []Gap // dumps that were not used
	Bytes int64 // unpacked
	same  []string
}

// Gap is a dump that was not used, and why.
type Gap struct{ Path, Why string }

// Dump is what one rank recorded.
type Dump struct {
	Path    string
	Rank    int // from the name of the file
	Version string
	Changed time.Time // the latest time at which the dump can have been written
	// Groups are the members of the groups by name. Gloo gives its groups no name here.
	Groups  map[string][]int
	Status  map[int64]Status // by the id of the group in this process
	Entries []Entry          // in the order of their records
	// Wrapped says that older entries are lost, Holes that finished ones are left out.
	Wrapped, Holes bool
}

// Status is how far a group has come. Gloo counts sends and receives too.
type Status struct{ Enqueued, Started, Completed int64 }

// Entry is one operation that a rank has called.
type Entry struct {
	Record  int64 // of this process
	PG      int64 // id of the group in this process
	Seq     int64 // of the collectives of the group
	P2P     int64 // of the sends and receives of the group
	ID      int64 // of all operations of the group
	Group   string
	Desc    string
	Backend string // "nccl", "gloo"
	Op      string // "all_reduce", "send 0->1"
	In, Out *Tensors
	Created int64  // Unix nanoseconds
	State   string // scheduled, started, completed
	Retired bool
	IsP2P   bool
	At      string // the innermost line of the program: file:line
}

// Tensors are the shapes and types of the inputs or outputs of an operation.
type Tensors struct {
	Sizes [][]int64
	Types []string
}

const (
	maxEntries    = 1 << 20 // of one dump
	maxAllEntries = 1 << 22 // of all dumps; of further dumps only the newest entries remain
	fewEntries    = 64
)

// finish sorts the entries of a dump and finds what it lacks.
func (d *Dump) finish() {
	slices.SortStableFunc(d.Entries, func(a, b Entry) int { return int(min(max(a.Record-b.Record, -1), 1)) })
	if len(d.Entries) > 0 {
		d.Wrapped = d.Entries[0].Record > 0
	}
	for i := 1; i < len(d.Entries); i++ {
		if d.Entries[i].Record != d.Entries[i-1].Record+1 {
			d.Holes = true
		}
	}
	if len(d.Entries) == 0 {
		for _, s := range d.Status {
			d.Holes = d.Holes || s.Enqueued > 0
		}
	}
}

// finished says whether the operation has ended on its rank. Gloo retires what has ended, also with an error, and
// sets no state; NCCL also retires what timed out.
func (e *Entry) finished() bool {
	return e.State == "completed" || e.Backend == "gloo" && e.Retired
}

// kind returns the operation without its peer: "send" of "send 0->1".
func (e *Entry) kind() string {
	kind, _, _ := strings.Cut(e.Op, " ")
	return kind
}

// numbers returns the number of elements of each tensor.
func (t *Tensors) numbers() []int64 {
	if t == nil {
		return nil
	}
	out := make([]int64, len(t.Sizes))
	for i, size := range t.Sizes {
		out[i] = 1
		for _, n := range size {
			out[i] *= n
		}
	}
	return out
}

func (t *Tensors) types() []string {
	if t == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(t.Types)))
}
