// Package bench measures what the rails between nodes carry: who meets whom, in
// which round, and one pair of ports after the other, over TCP, or by whatever
// else is plugged in beside it (Measurer). It never judges: preflight does, by
// the Samples.
package bench

import (
	"context"
	"net/netip"
	"time"
)

// Port is a rail of this node, as it is measured and as the other end is told.
type Port struct {
	Name   string       `json:"name"`             // the rail's: its HCA, else its interface
	Netdev string       `json:"netdev,omitempty"` // "": none in this network namespace
	HCA    string       `json:"hca,omitempty"`    // "": no RDMA device
	Num    int          `json:"num,omitempty"`    // port of the HCA, from 1
	Net    netip.Prefix `json:"net,omitzero"`     // its address within its network; not valid: it has none
	GID    int          `json:"gid"`              // entry that a RoCE connection should use; -1: none
	Link   string       `json:"link,omitempty"`   // InfiniBand, Ethernet; "" unknown
	Rate   float64      `json:"rate,omitempty"`   // Gb/s of the port, now; 0 unknown
	Lanes  int          `json:"lanes,omitempty"`  // of its link; 0 unknown
	MTU    int          `json:"mtu,omitempty"`    // of its interface, bytes; 0 unknown
	Floor  float64      `json:"floor,omitempty"`  // bytes/s that it has to reach, as the judge computed it from this node's facts; 0: nothing can be said
	Kinds  []string     `json:"kinds,omitempty"`  // the Measurers that can use it, the best first
	Busy   string       `json:"busy,omitempty"`   // why it is not to be disturbed; "": it may be
	GPU    *GPU         `json:"gpu,omitempty"`    // beside its HCA
	NoGPU  string       `json:"no_gpu,omitempty"` // why there is none
}

// Test is what a Measurer is asked to do.
type Test struct {
	Port    Port // this side's
	Peer    Port // the other one's
	Lead    bool // this side begins; the other one answers
	Streams int  // connections, or queue pairs, side by side
	Warm    time.Duration
	Span    time.Duration // of each direction, behind Warm
	Pings   int           // ping-pongs at most
	GPU     bool          // once more, shorter, between the GPUs of both ends
}

// Exchange hands the other end a message and returns its message of the same
// step. Both ends call it equally often.
type Exchange func(ctx context.Context, mine []byte) (theirs []byte, err error)

// Measurer measures a pair of ports in one way. Both ends run it at once, in no
// order, and it returns when ctx ends.
type Measurer struct {
	Kind string            // "tcp", "verbs"
	Can  func(p Port) bool // whether a port of this node can be used so
	Run  func(ctx context.Context, t Test, say Exchange) (Result, error)
}

// Result is what a Measurer found out, the same at both ends but for the view:
// Out is what this side sent.
type Result struct {
	Out     Flow          `json:"out"`
	Back    Flow          `json:"back"`
	Latency time.Duration `json:"latency"` // median of half a round trip of a short message
	Tail    time.Duration `json:"tail"`    // of which 99 % are not longer
	Pings   int           `json:"pings"`   // how many there were
	GPU     *OnGPU        `json:"gpu,omitempty"`
}

// Flow is one direction.
type Flow struct {
	Speed   float64       `json:"speed"`             // payload as it arrived, bytes/s
	Retrans int           `json:"retrans,omitempty"` // segments that were sent again
	RTT     time.Duration `json:"rtt,omitempty"`     // under load, as the sender smoothed it (TCP_INFO)
	PMTU    int           `json:"pmtu,omitempty"`    // path MTU as the sender knows it, bytes
	Deliver float64       `json:"deliver,omitempty"` // the kernel's own delivery rate, all streams, bytes/s
	Carried float64       `json:"carried,omitempty"` // bytes that the sender's end handed to the rail in all, before and behind the span, repeats included; 0 unknown
}

// Sample is one pair of ports in one round, from the view of who led.
type Sample struct {
	Round    int    `json:"round"`
	From     int    `json:"from"` // node ranks
	To       int    `json:"to"`
	FromPort string `json:"from_port"`
	ToPort   string `json:"to_port"`
	Kind     string `json:"kind,omitempty"`
	Result
	Cause string `json:"cause,omitempty"` // why nothing was measured: CauseBusy, CauseLeft, or a peer.Cause; "": it was
	Err   string `json:"err,omitempty"`   // in words
}

// QuickRounds is how many partners each node meets where not all of them are
// asked for: the fewest by which one bad partner is told from a bad port of one's
// own.
const QuickRounds = 3

// CauseBusy is the cause of a sample that was not taken since another job uses
// one of the ports; CauseLeft that of one whose other end was gone before it was
// taken.
const (
	CauseBusy = "busy"
	CauseLeft = "left"
)
