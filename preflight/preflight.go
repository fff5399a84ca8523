// Package preflight judges, before anything starts, whether this node can run
// its part of the job: each check is one value of a table, fed with facts that
// others gathered. A Fail stops the job, so it is only given where the job is
// certain to hang or die; what may still work is a warning, and "could not
// tell" is a skip.
package preflight

import (
	"context"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"launch/fabric"
	"launch/fabric/verbs"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/internal/job"
)

// Check is one line of the table.
type Check struct {
	ID    string        // stable, dotted; never reused
	Needs []string      // IDs, earlier in the table, without which the answer means nothing
	Title string        // what is asked, as a statement that holds on a healthy node
	Doc   string        // what goes wrong where it does not hold
	Limit time.Duration // the longest that it may take; over it, it is a skip
	Scope Scope         // zero: this node

	// Run answers with one finding, or with several where the check covers
	// several things. A finding without an ID gets the check's own. It returns
	// when ctx ends.
	Run func(ctx context.Context, in Input) []finding.Finding
}

// Scope is what a check looks at.
type Scope string

const (
	OfNode  Scope = "node"  // this node alone, before it joins
	OfPeers Scope = "peers" // the nodes beside each other, when all are here
)

// Table is every check. Package checks fills it.
type Table struct {
	Node  []Check // of one node
	Peers []Check // between nodes
	Rates []Check // of what a bench measured
}

// Named returns the checks whose IDs --skip and --only accept.
func (t Table) Named() []Check { return slices.Concat(t.Node, t.Peers) }

// Titles returns what each check asks, by its ID.
func (t Table) Titles() map[string]string {
	out := map[string]string{}
	for _, c := range slices.Concat(t.Node, t.Peers, t.Rates) {
		out[c.ID] = c.Title
	}
	return out
}

// Input is all that the checks look at. A func field that is nil makes the
// checks that need it skips: so a dry run opens no socket.
type Input struct {
	Job  job.Job
	Node fabric.Node
	Addr netip.Addr // this node's address for its peers; the zero Addr: not known yet

	Serve []netip.AddrPort // where this node is to host the embedded store; empty: another node does, or it is not known yet
	Dir   string           // the working directory

	Thresholds map[string]float64 // what the user wants judged by another number, by Threshold.Name
	UserEnv    []string           // the environment of the user's own checks; nil: nothing is executed
	Lint       []finding.Finding  // what envgen.Lint found in the inherited settings
	LintIDs    []string           // all that it may find

	// Selected is what envgen.Selected says that the settings choose.
	Selected map[string][]string

	// Ports are those of envgen.Ports: what the settings leave to NCCL, nil the rails.
	Ports []string

	Env      func(name string) (string, bool)                                  // os.LookupEnv
	LookPath func(name string) (string, error)                                 // as execvp(3) searches; an error that is fs.ErrPermission: found, but it may not be executed
	Exists   func(path string) bool                                            // whether a device node is there
	Servers  func(ctx context.Context, host string) []dns.Said                 // what each server of resolv.conf says of a name, in their order; asked once for each name
	Reverse  func(ctx context.Context, a netip.Addr) []dns.Answer              // which name they give an address
	Disks    func(ctx context.Context, paths []string) []fabric.Disk           // the file systems that paths lie on, in their order
	Resolve  func(ctx context.Context, host string) ([]netip.Addr, error)      // a *net.DNSError with IsNotFound: the name does not exist
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // to the store's endpoints only
	Stat     func(path string) (fs.FileMode, error)                            // an error that is fs.ErrPermission: it is there, and this user cannot read it
	// LinkErrors reads the counters of a port of an HCA; nil: they are not to be read.
	LinkErrors func(hca string, port int) (fabric.LinkErrors, error)
	// Loop has a port carry data to itself, within the limit; nil: nothing is to be
	// sent. Its error is a *verbs.Error.
	Loop    func(ctx context.Context, t verbs.LoopTest, limit time.Duration) (verbs.LoopResult, error)
	PortUse func(at netip.AddrPort) (PortUse, error) // who has a port of this machine; error: it could not be used for another reason
}

// PortUse is who has a port of this machine.
type PortUse struct {
	Taken  bool
	Launch bool   // by a launch: of this job's other node on this machine, or of another job
	By     string // "python3 (pid 4711)"; "": a process that cannot be seen
}

func (u PortUse) Holder() string {
	if u.By == "" {
		return "a process that this user cannot see"
	}
	return u.By
}

// The limits of checks.
const (
	// Computed is for what is only computed; it guards against a bug.
	Computed = time.Second
	// Network is for what asks the network. A healthy name server answers within
	// milliseconds, and resolv.conf waits 5 s for each that is not: 2 s tell the
	// two apart without slowing every start.
	Network = 2 * time.Second
	// Storage is above the 3 s that the children of fabric.AskDisks have.
	Storage = 3500 * time.Millisecond
)

// one makes a Run of a func with a single finding.
func One(f func(context.Context, Input) finding.Finding) func(context.Context, Input) []finding.Finding {
	return func(ctx context.Context, in Input) []finding.Finding { return []finding.Finding{f(ctx, in)} }
}

func (in Input) Getenv(name string) (string, bool) {
	if in.Env == nil {
		return "", false
	}
	return in.Env(name)
}

// OfBench is what launch bench judges.
const OfBench Scope = "bench"
