// Package verdict holds the answer to why a job does not go on.
package verdict

import (
	"time"

	"launch/internal/finding"
)

// Sure is how sure a verdict is.
type Sure string

// The grades. Certain: nothing else gives this evidence. Likely: something else could, and is rarer. Possible: one of
// several.
const (
	Certain  Sure = "certain"
	Likely   Sure = "likely"
	Possible Sure = "possible"
)

// State is what a job does.
type State string

// The states. Slow: something is missing, and what is missing makes progress. Open: it stands still, and the evidence
// does not say why.
const (
	Hung    State = "hung"
	Slow    State = "slow"
	Running State = "running"
	Open    State = "open"
	NoJob   State = "none"
)

// Verdict is one cause that holds.
type Verdict struct {
	Cause string `json:"cause"` // ID of the table of causes, as "rank.stopped"
	Sure  Sure   `json:"sure"`
	// Says is one sentence: what hangs, who is to blame, why, since when.
	Says  string         `json:"says"`
	Ranks []int          `json:"ranks,omitempty"` // to blame
	Nodes []string       `json:"nodes,omitempty"` // to blame: host names, or "node 1" where only the index is known
	Since time.Time      `json:"since,omitzero"`
	Seen  []finding.Seen `json:"seen,omitempty"`
	Do    string         `json:"do"`
	// Blocked: the process waits in a system call for something outside the job, such as a lock, and Says has it.
	Blocked bool `json:"blocked,omitempty"`
	// Idle is for how long the process has waited without a pause for what Says names; 0: not known, or it names nothing.
	Idle time.Duration `json:"-"`
}

// Answer is all that is to be said of one job.
type Answer struct {
	State State     `json:"state"`
	Job   string    `json:"job,omitempty"` // the rendezvous id or the store's address
	Why   []Verdict `json:"verdicts,omitempty"`
	// Need is what to gather where the evidence does not decide.
	Need []string `json:"need,omitempty"`
	// Ranks are the ranks that were seen, by number, and those that only the store knows.
	Ranks []Rank `json:"ranks,omitempty"`
}

// Rank is one rank of a job, and how far it has come.
type Rank struct {
	Rank int    `json:"rank"` // -1: not known
	Node string `json:"node,omitempty"`
	PID  int    `json:"pid,omitempty"` // 0: its process was not seen
	// Phase is how far it has come: before, dialing, unanswered, counting, keys, mesh, inside, collective, group; or
	// stopped, ended (a zombie), gone.
	Phase string `json:"phase"`
	At    string `json:"at,omitempty"` // its line of the script, from its stack
}
