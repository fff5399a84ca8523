// Package bench measures the speed of the rails between nodes, over TCP or by another Measurer. A schedule decides
// which pairs of nodes measure in which round. The package judges nothing; preflight/bandwidth judges the Samples.
package bench

import (
	"context"
	"net/netip"
	"time"
)

// Port is a rail of this node, as it is measured and as the other end knows it.
type Port struct {
	Name   string       `json:"name"`             // of the rail: its HCA, else its interface
	Netdev string       `json:"netdev,omitempty"` // empty: none in this network namespace
	HCA    string       `json:"hca,omitempty"`    // empty: no RDMA device
	Num    int          `json:"num,omitempty"`    // port of the HCA, from 1
	Net    netip.Prefix `json:"net,omitzero"`     // its address within its network; invalid: none
	GID    int          `json:"gid"`              // the entry for RoCE connections; -1: none
	Link   string       `json:"link,omitempty"`   // InfiniBand, Ethernet; empty: unknown
	Rate   float64      `json:"rate,omitempty"`   // current rate of the port in Gb/s; 0: unknown
	Lanes  int          `json:"lanes,omitempty"`  // of its link; 0: unknown
	MTU    int          `json:"mtu,omitempty"`    // of its interface, bytes; 0: unknown
	Floor  float64      `json:"floor,omitempty"`  // the minimum speed by this node's facts, bytes/s; 0: unknown
	Kinds  []string     `json:"kinds,omitempty"`  // the Measurers that can use it, the best first
	Busy   string       `json:"busy,omitempty"`   // why it must not be disturbed
	GPU    *GPU         `json:"gpu,omitempty"`    // next to its HCA
	NoGPU  string       `json:"no_gpu,omitempty"` // why there is none
}

// Test is the task of a Measurer. Each side proposes one before a measurement; the leader's applies.
type Test struct {
	Port    Port          `json:"port"`    // of this side
	Peer    Port          `json:"-"`       // of the other side
	Lead    bool          `json:"-"`       // this side starts; the other one answers
	Streams int           `json:"streams"` // parallel connections, or queue pairs
	Warm    time.Duration `json:"warm"`
	Span    time.Duration `json:"span"`          // of each direction, after Warm
	Pings   int           `json:"pings"`         // the maximum number of ping-pongs
	GPU     bool          `json:"gpu,omitempty"` // measure once more, shorter, between the GPUs of both ends
}

// Exchange sends the other end a message and returns its message of the same step. Both ends call it equally often.
type Exchange func(ctx context.Context, mine []byte) (theirs []byte, err error)

// Measurer is one way to measure a pair of ports. Both ends run it at the same time. It returns when ctx ends.
type Measurer struct {
	Kind string            // "tcp", "verbs"
	Can  func(p Port) bool // reports whether a port of this node can be used
	Run  func(ctx context.Context, t Test, say Exchange) (Result, error)
}

// Result is the result of a Measurer. Both ends get the same one, from their own view: Out is what this side sent.
type Result struct {
	Out     Flow          `json:"out"`
	Back    Flow          `json:"back"`
	Latency time.Duration `json:"latency"` // median of half a round trip of a short message
	Tail    time.Duration `json:"tail"`    // the 99th percentile
	Pings   int           `json:"pings"`   // their number
	GPU     *OnGPU        `json:"gpu,omitempty"`
}

// Flow is one direction.
type Flow struct {
	Speed   float64       `json:"speed"`             // payload that arrived, bytes/s
	Retrans int           `json:"retrans,omitempty"` // repeated segments
	RTT     time.Duration `json:"rtt,omitempty"`     // under load, smoothed by the sender (TCP_INFO)
	PMTU    int           `json:"pmtu,omitempty"`    // path MTU by the sender, bytes
	Deliver float64       `json:"deliver,omitempty"` // the kernel's own delivery rate, all streams, bytes/s
	// Carried is all bytes that the sender handed to the rail, outside the span and repeated ones too; 0: unknown.
	Carried float64 `json:"carried,omitempty"`
}

// Sample is the measurement of one pair of ports in one round, from the view of the leader.
type Sample struct {
	Round    int    `json:"round"`
	From     int    `json:"from"` // node ranks
	To       int    `json:"to"`
	FromPort string `json:"from_port"`
	ToPort   string `json:"to_port"`
	Kind     string `json:"kind,omitempty"`
	Result
	Cause string `json:"cause,omitempty"` // why there is no result: CauseBusy, CauseLeft, or a sidechannel.Cause
	Err   string `json:"err,omitempty"`   // in words
}

// QuickRounds is the default number of partners: the smallest that separates a bad partner from a bad own port.
const QuickRounds = 3

// CauseBusy: not taken, because another job uses one of the ports. CauseLeft: the other end was gone.
const (
	CauseBusy = "busy"
	CauseLeft = "left"
)
