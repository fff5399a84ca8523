// Package ncclras asks NCCL's RAS service, which each process of a job with NCCL 2.24 or newer has, what it knows of
// the job: which ranks do not answer, and which are behind in their collectives.
package ncclras

import "net/netip"

// Port is where the service listens on localhost, unless NCCL_RAS_ADDR says otherwise.
const Port = 28028

// Report is what one RAS service says of all processes of its job.
type Report struct {
	Version string `json:"version,omitempty"` // of NCCL
	// Dead are processes that the others have not reached for a minute; Silent, that did not answer this question.
	Dead   []Member `json:"dead,omitempty"`
	Silent []Member `json:"silent,omitempty"`
	// Comms are the communicators of which something is to be said, and (JSON) those that are well.
	Comms []Comm `json:"comms,omitempty"`
	// Cut says why the report is not whole.
	Cut string `json:"cut,omitempty"`
}

// Comm is one communicator.
type Comm struct {
	ID   string `json:"id"`             // its hash, as NCCL's log has it
	Size int    `json:"size,omitempty"` // 0: not known
	// Missing are ranks of which the service got nothing: they do not answer. Outside are those that answer, and are
	// not in the communicator (not yet, or not any more).
	Missing []Member `json:"missing,omitempty"`
	Outside []Member `json:"outside,omitempty"`
	// States and Ops are there if the ranks differ; each has the most frequent value first.
	States []Share `json:"states,omitempty"`
	Ops    []Op    `json:"ops,omitempty"`
	Errors []Share `json:"errors,omitempty"` // ranks that report an error of NCCL
	// Launched is how many collectives all ranks have launched together; 0: not known (text), or none.
	Launched uint64 `json:"launched,omitempty"`
}

// Op is a collective of which ranks have launched different numbers.
type Op struct {
	Name   string  `json:"name"` // AllReduce; "collective" where NCCL does not count them apart
	Shares []Share `json:"shares"`
}

// Share is the ranks that have one value in common.
type Share struct {
	State    string `json:"state,omitempty"`    // INIT, RUNNING, FINALIZE, ABORT, NOCOMM; or the error
	Launched uint64 `json:"launched,omitempty"` // of an Op
	Count    int    `json:"count"`              // ranks
	// Who are these ranks, as far as the service names them: it does not name a majority.
	Who []Member `json:"who,omitempty"`
}

// Member is a rank of a communicator, or a process.
type Member struct {
	Rank int        `json:"rank"`          // in the communicator; -1: of a process
	Addr netip.Addr `json:"addr,omitzero"` // of its host; the zero Addr: not known
	PID  int        `json:"pid,omitempty"` // on its host; 0: not known
}

// Bounds of a report.
const (
	maxAnswer  = 16 << 20 // bytes
	maxComms   = 256
	maxMembers = 64 // of one list
	maxText    = 64 // bytes of a name
)

// comm returns the communicator with an ID, and makes it if there is room.
func (r *Report) comm(id string) *Comm {
	for i := range r.Comms {
		if r.Comms[i].ID == id {
			return &r.Comms[i]
		}
	}
	if len(r.Comms) >= maxComms {
		r.Cut = "more communicators than are read"
		return nil
	}
	r.Comms = append(r.Comms, Comm{ID: id})
	return &r.Comms[len(r.Comms)-1]
}

// add appends a member, up to the bound.
func add(all []Member, m Member) []Member {
	if len(all) >= maxMembers {
		return all
	}
	return append(all, m)
}

// address parses the address of a host; the zero Addr: it is none.
func address(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a.Unmap().WithZone("")
}

// clean returns a name without what does not belong into one, and not too long.
func clean(text string) string {
	out := make([]byte, 0, maxText)
	for i := 0; i < len(text) && len(out) < maxText; i++ {
		if c := text[i]; c > ' ' && c < 0x7f {
			out = append(out, c)
		} else if c == ' ' {
			out = append(out, c)
		}
	}
	return string(out)
}
