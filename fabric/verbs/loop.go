package verbs

import "time"

// LoopTest is one port by itself.
type LoopTest struct {
	Device string `json:"device"`
	Port   int    `json:"port"`  // from 1
	GID    int    `json:"gid"`   // entry of the table; -1: none on InfiniBand, the best on Ethernet
	PKey   int    `json:"pkey"`  // entry of the table
	Sizes  []int  `json:"sizes"` // bytes of a message; nil: 64 and 1 MiB
	Pings  int    `json:"pings"` // messages whose time is measured, of each size; 0: 100
}

// LoopResult is what a port does by itself: every byte that was written and sent
// came back as it was.
type LoopResult struct {
	End   End        `json:"end"`
	Sizes []LoopSize `json:"sizes"`
}

// LoopSize is one size of message.
type LoopSize struct {
	Write Latency `json:"write"` // from the request until the data is there
	Speed float64 `json:"speed"` // bytes/s of 16 messages that are written at once
}

// loopTest is a LoopTest as a Test, filled.
func (t LoopTest) test() (Test, *Error) {
	if t.Sizes == nil {
		t.Sizes = []int{64, 1 << 20}
	}
	if t.Pings == 0 {
		t.Pings = 100
	}
	return Test{Device: t.Device, Port: t.Port, GID: t.GID, PKey: t.PKey, Depth: 16, Sizes: t.Sizes, Iterations: 16, Pings: t.Pings, PingSpan: loopSpan}.filled()
}

// loopSpan is how long a port's latency is looked at, for each size.
const loopSpan = 200 * time.Millisecond
