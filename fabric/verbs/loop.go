package verbs

import "time"

// LoopTest is a test of one port on its own.
type LoopTest struct {
	Device string `json:"device"`
	Port   int    `json:"port"`  // from 1
	GID    int    `json:"gid"`   // index in the table; -1: none on InfiniBand, the best on Ethernet
	PKey   int    `json:"pkey"`  // index in the table
	Sizes  []int  `json:"sizes"` // bytes of a message; nil: 64 and 1 MiB
	Pings  int    `json:"pings"` // number of messages to time, per size; 0: 100
}

// LoopResult is the result for one port: every byte that was written and sent arrived unchanged.
type LoopResult struct {
	End   End        `json:"end"`
	Sizes []LoopSize `json:"sizes"`
}

// LoopSize is the result for one size of message.
type LoopSize struct {
	Write Latency `json:"write"` // from the request until the data has arrived
	Speed float64 `json:"speed"` // bytes/s of 16 messages that are written together
}

// test returns a LoopTest as a Test with its defaults.
func (t LoopTest) test() (Test, *Error) {
	if t.Sizes == nil {
		t.Sizes = []int{64, 1 << 20}
	}
	if t.Pings == 0 {
		t.Pings = 100
	}
	return Test{Device: t.Device, Port: t.Port, GID: t.GID, PKey: t.PKey, Depth: 16, Sizes: t.Sizes, Iterations: 16,
		Pings: t.Pings, PingSpan: loopSpan}.filled()
}

// loopSpan limits how long a port's latency is measured, per size.
const loopSpan = 200 * time.Millisecond
