// Package measure measures the rails between all nodes of a joined world, or between two nodes by hand.
// preflight/bench takes the samples, and preflight/bandwidth judges them.
package measure

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/secret"

	"launch/preflight/bandwidth"
	"launch/preflight/bench"
)

// Options are the flags of launch bench.
type Options struct {
	Server     bool
	Client     string // HOST, or HOST:PORT
	Port       int    // of --server and --client
	Rails      []string
	Streams    int
	Full       bool
	AllPairs   bool
	TCP, Force bool
	Memory     string // MemoryAuto, MemoryHost or MemoryGPU
	History    string
	Thresholds map[string]float64
}

// Values of --memory.
const (
	MemoryAuto = "auto"
	MemoryHost = "host"
	MemoryGPU  = "gpu"
)

// DefaultPort is next to the embedded store's port, outside Linux's ephemeral range.
const DefaultPort = job.DefaultStorePort + 1

// Bench is a bench with its settings.
type Bench struct {
	Options
	JoinTimeout time.Duration
	From        func(flag string) string // what set a flag
	Token       secret.Token             // of the nodes
	UI          interface {
		Note(format string, a ...any)
		Status(text string)
	}
}

// Result is what a bench measured, with the verdict.
type Result struct {
	bandwidth.Verdict
	Self int            // this node's rank
	Own  []bench.Sample // every sample of this node
	Took time.Duration
}

// Status returns the exit status for a result.
func (r Result) Status() int {
	switch {
	case len(r.Named) == 0:
		return 0
	case slices.Contains(r.Named, r.Self):
		return exit.Unfit
	}
	return exit.PeerUnfit
}

// ByHand reports whether the bench is between two nodes, by --server and --client.
func (o *Options) ByHand() bool { return o.Server || o.Client != "" }

// Check refuses invalid values. from returns what set a flag, typed whether it is
// on the command line. ofJob: the line has a flag for a job of several nodes.
func (o *Options) Check(from func(string) string, typed func(string) bool, ofJob bool) error {
	if host, port, err := net.SplitHostPort(o.Client); err == nil { // as --store is given
		if n, err := strconv.Atoi(port); err == nil {
			o.Client, o.Port = host, n
		}
	}
	usage := func(what, fix string) error { return exit.Errorf(exit.Usage, "%s", what).Do("%s", fix) }
	switch {
	case o.Server && o.Client != "":
		return usage("--server and --client exclude each other: this node is one of the two",
			"launch bench --server   # on one node, and on the other: launch bench --client HOST")
	case o.ByHand() && ofJob:
		return usage("--server and --client are for two nodes by hand; --nnodes and --store are for all nodes of a job",
			"launch bench --store HOST --nnodes N   # the same line on each")
	case o.Streams < 0 || o.Streams > 64 || o.Streams == 0 && typed("streams"):
		return usage(fmt.Sprintf("%s is %d: 1 to 64 connections for each rail", from("streams"), o.Streams), "--streams 4")
	case !slices.Contains([]string{MemoryAuto, MemoryHost, MemoryGPU}, o.Memory):
		return usage(fmt.Sprintf("%s is auto, host or gpu, not %q", from("memory"), o.Memory),
			"--memory host   # leaves the GPUs alone")
	case o.Port < 1 || o.Port > 65535:
		return usage(fmt.Sprintf("%s is %d: a port from 1 to 65535", from("bench-port"), o.Port),
			fmt.Sprintf("--bench-port %d", DefaultPort))
	}
	return nil
}

const (
	// quickBudget is what a bench takes by default from the join to its verdict, so that both take 5 s.
	// Three rounds leave the rest to second measurements, less quickTalk for the exchange between
	// nodes.
	quickBudget, quickTalk = 3600 * time.Millisecond, 100 * time.Millisecond
	// firstWait is how long a node waits for the partner of its first round, and waitStep how much
	// longer in each later one, up to maxWait: a lost node delays its partners.
	firstWait, waitStep, maxWait = 2 * time.Second, time.Second, 6 * time.Second
	// againFactor is how many times longer a doubtful pair is measured, if there is time.
	againFactor = 2
	// fullRounds is how many partners each node measures with under --full.
	fullRounds = 7
)

// The tests of a pair of ports. quickBudget fits three rounds of quickTest, and two of doubtful pairs.
func quickTest() bench.Test {
	return bench.Test{Streams: 4, Warm: 100 * time.Millisecond, Span: 200 * time.Millisecond, Pings: 500}
}

func handTest() bench.Test {
	return bench.Test{Streams: 4, Warm: 300 * time.Millisecond, Span: 2 * time.Second, Pings: 500}
}

func fullTest() bench.Test {
	return bench.Test{Streams: 8, Warm: 500 * time.Millisecond, Span: 5 * time.Second, Pings: 500}
}

// test returns t with the changes that the flags make.
func (b *Bench) test(t bench.Test) bench.Test {
	if b.Full {
		t = fullTest()
	}
	if b.Streams > 0 {
		t.Streams = b.Streams
	}
	return t
}
