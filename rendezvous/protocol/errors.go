package protocol

import (
	"errors"
	"fmt"
)

// ErrUnreachable reports that the store never answered, or was lost for good.
var ErrUnreachable = errors.New("store unreachable")

// ErrFull reports that the etcd answers, but takes no more writes.
var ErrFull = errors.New("the etcd has used up its space and takes no writes")

// DuplicateError reports that another node holds the index that a person typed here.
type DuplicateError struct{ Self, Holder Member }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("node rank %d is taken by %s pid %d; %s pid %d has it, too",
		e.Self.Index, e.Holder.Name(), e.Holder.PID, e.Self.Name(), e.Self.PID)
}

// SupersededError reports that a newer process took over the index of this one.
type SupersededError struct{ Self, Newer Member }

func (e *SupersededError) Error() string {
	return fmt.Sprintf("%s was replaced by a newer process: %s pid %d", e.Self.Name(), e.Newer.Name(), e.Newer.PID)
}

// SizeError reports that two nodes disagree about how many there are.
type SizeError struct {
	Self, Want string // "4", or "2:4"
	First      string // the node that set the size
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("this node expects %s nodes, but the job expects %s, as set by %s", e.Self, e.Want, e.First)
}

// SpareError reports that the job is over, or cannot be started again, and never
// needed this node.
type SpareError struct {
	Size int    // how many nodes took part
	Why  string // the node that failed; "" where none is known
}

func (e *SpareError) Error() string {
	others := fmt.Sprintf("%d other nodes", e.Size)
	if e.Size == 1 {
		others = "one other node"
	}
	return fmt.Sprintf("the job ran on %s and did not need this node", others)
}

// RunOverError reports that the run of the job that this node was part of has ended, or
// has gone on without it.
type RunOverError struct {
	Self Member
	Why  string
}

func (e *RunOverError) Error() string {
	return fmt.Sprintf("the run of %s is over: %s", e.Self.Name(), e.Why)
}

// MissingError reports that the time ran out before all nodes had joined.
type MissingError struct {
	Attendance
	Running string // the last run of this job still holds these nodes
	Ended   bool   // or held them until its store ended
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d of %s nodes joined", e.Joined, Count(e.Want, e.Min))
}

// BrokenError reports that the sealed world lost a node before the start. Join
// again: the replacement of the node makes the next epoch.
type BrokenError struct{ Why string }

func (e *BrokenError) Error() string { return "the world broke up before the start: " + e.Why }

// UnfitError reports that nodes are unfit, and that this one does not wait for
// replacements.
type UnfitError struct {
	Notes []Note // the last few
	More  int    // how many others
}

func (e *UnfitError) Error() string {
	who := make([]string, len(e.Notes))
	for i, n := range e.Notes {
		who[i] = n.Name
	}
	return "unfit: " + some(who)
}

// Missing returns the first few indexes 0..want-1 that no node in have holds; nil
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
