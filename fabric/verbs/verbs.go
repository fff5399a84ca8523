// Package verbs asks libibverbs, opened at run time, which RDMA devices this process may use. It
// tests a port with itself (Loop), or with the port of another node (Run), and gets a function that
// exchanges bytes with that node. Only the library knows whether a device opens, what its ports
// have agreed on with the network, and whether data arrives. A driver may hang meanwhile, so use it
// in a child process (package confine).
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// The reasons that libibverbs cannot be used. Devices wraps them.
var (
	ErrNoLibrary = errors.New("libibverbs.so.1 is not installed")
	ErrNoStack   = errors.New("the kernel has no RDMA stack (ib_uverbs is not loaded)")
	ErrNoCgo     = errors.New("this build of launch has no verbs (built without cgo)")
)

// Device is one RDMA device of libibverbs, which lists those with a userspace driver.
type Device struct {
	Name  string `json:"name"`
	Opens bool   `json:"opens"`           // ibv_open_device succeeded
	Err   string `json:"err,omitempty"`   // why it does not open
	Cause Cause  `json:"cause,omitempty"` // of Err

	Firmware string `json:"firmware,omitempty"`
	GUID     string `json:"guid,omitempty"`    // of the node; "" where it is zero
	MaxQP    int    `json:"max_qp,omitempty"`  // queue pairs
	MaxWR    int    `json:"max_wr,omitempty"`  // requests in one of their queues
	MaxCQE   int    `json:"max_cqe,omitempty"` // completions in one queue
	MaxMR    uint64 `json:"max_mr,omitempty"`  // bytes that can be registered at once
	Ports    []Port `json:"ports,omitempty"`
	Unknown  string `json:"unknown,omitempty"` // what the open device did not answer, and why
}

// Port is one port of a device.
type Port struct {
	Num       int     `json:"num"`        // from 1
	State     int     `json:"state"`      // 4 ACTIVE, 1 DOWN
	Phys      int     `json:"phys_state"` // 5 LinkUp, 3 Disabled, 2 Polling; 0 unknown
	Link      string  `json:"link_layer"` // InfiniBand, Ethernet; "" unspecified
	ActiveMTU int     `json:"active_mtu"` // bytes of data in a packet, now
	MaxMTU    int     `json:"max_mtu"`    // the same, at most
	Rate      float64 `json:"rate"`       // Gb/s of all lanes together; meaningless unless the port is ACTIVE
	Lanes     int     `json:"lanes,omitempty"`
	LID       int     `json:"lid,omitempty"`
	SMLID     int     `json:"sm_lid,omitempty"`     // LID of the subnet manager
	MaxMsg    int     `json:"max_msg,omitempty"`    // bytes of the longest message
	GIDSlots  int     `json:"gid_slots,omitempty"`  // length of the GID table
	PKeySlots int     `json:"pkey_slots,omitempty"` // length of the table of partition keys
}

// Active reports whether the port can carry data.
func (p Port) Active() bool { return p.State == portActive }

const portActive = 4

// Facts is the answer of libibverbs, or the reason that there is none. Exactly one of
// Present, Absent and Err is set; none of them if it was not asked.
type Facts struct {
	Present bool     `json:"present"`          // libibverbs answered
	Absent  string   `json:"absent,omitempty"` // why there is nothing to ask
	Err     string   `json:"err,omitempty"`    // why it could not be asked
	Devices []Device `json:"devices,omitempty"`
}

// Port returns a port by its names in sysfs; false if libibverbs did not list it.
func (f Facts) Port(device string, num int) (Port, bool) {
	for _, d := range f.Devices {
		for _, p := range d.Ports {
			if d.Name == device && p.Num == num {
				return p, true
			}
		}
	}
	return Port{}, false
}

// Child is the child process that asks libibverbs: it writes the Facts as JSON.
func Child(_ context.Context, _ io.Reader, out io.Writer) error {
	devices, err := Devices()
	f := Facts{Present: err == nil, Devices: devices}
	if err != nil {
		f.Err = err.Error()
	}
	return json.NewEncoder(out).Encode(f)
}

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
