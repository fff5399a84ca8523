// Package verbs asks libibverbs, opened at run time, which RDMA devices this
// process may use, and tests a port: with itself (Loop), or with the port of
// another node (Run). It is handed a function that exchanges bytes with that
// node and never dials. What only the library can tell is whether a device opens,
// what its ports have agreed on with the network, and whether data arrives. A
// driver can wedge in that, so all of it belongs in a child process.
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
)

// The ways of having no answer. Devices wraps them.
var (
	ErrNoLibrary = errors.New("libibverbs.so.1 is not installed")
	ErrNoStack   = errors.New("the kernel has no RDMA stack (ib_uverbs is not loaded)")
	ErrNoCgo     = errors.New("this build of launch has no verbs (built without cgo)")
)

// Device is one RDMA device, as libibverbs lists it: those that it has a
// userspace driver for.
type Device struct {
	Name  string `json:"name"`
	Opens bool   `json:"opens"`           // ibv_open_device succeeded
	Err   string `json:"err,omitempty"`   // why it did not
	Cause Cause  `json:"cause,omitempty"` // of Err

	Firmware string `json:"firmware,omitempty"`
	GUID     string `json:"guid,omitempty"`    // of the node; "" where it is zero
	MaxQP    int    `json:"max_qp,omitempty"`  // queue pairs
	MaxWR    int    `json:"max_wr,omitempty"`  // requests in one of their queues
	MaxCQE   int    `json:"max_cqe,omitempty"` // completions in one queue
	MaxMR    uint64 `json:"max_mr,omitempty"`  // bytes that can be registered at once
	Ports    []Port `json:"ports,omitempty"`
	Unknown  string `json:"unknown,omitempty"` // a question that the open device did not answer, and why
}

// Port is one port of a device.
type Port struct {
	Num       int     `json:"num"`        // from 1
	State     int     `json:"state"`      // 4 ACTIVE, 1 DOWN
	Phys      int     `json:"phys_state"` // 5 LinkUp, 3 Disabled, 2 Polling; 0 unknown
	Link      string  `json:"link_layer"` // InfiniBand, Ethernet; "" unspecified
	ActiveMTU int     `json:"active_mtu"` // bytes of data in a packet, now
	MaxMTU    int     `json:"max_mtu"`    // and at most
	Rate      float64 `json:"rate"`       // Gb/s of all lanes together; of a port that is not ACTIVE it means nothing
	Lanes     int     `json:"lanes,omitempty"`
	LID       int     `json:"lid,omitempty"`
	SMLID     int     `json:"sm_lid,omitempty"`     // of the subnet manager
	MaxMsg    int     `json:"max_msg,omitempty"`    // bytes of the longest message
	GIDSlots  int     `json:"gid_slots,omitempty"`  // length of the GID table
	PKeySlots int     `json:"pkey_slots,omitempty"` // length of the table of partition keys
}

// Active is whether the port can carry data.
func (p Port) Active() bool { return p.State == portActive }

const portActive = 4

// Facts is what libibverbs, or its absence, tells. Exactly one of Present,
// Absent and Err holds; none of them where nobody asked.
type Facts struct {
	Present bool     `json:"present"`          // libibverbs answered
	Absent  string   `json:"absent,omitempty"` // nothing to ask, and how that was seen
	Err     string   `json:"err,omitempty"`    // there is, but it could not be asked
	Devices []Device `json:"devices,omitempty"`
}

// Port is a port by the names that sysfs has for it; false where libibverbs did
// not tell of it.
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

// Child is the question as a child process answers it: nothing is read, the
// Facts are written as JSON.
func Child(_ context.Context, _ io.Reader, out io.Writer) error {
	devices, err := Devices()
	f := Facts{Present: err == nil, Devices: devices}
	if err != nil {
		f.Err = err.Error()
	}
	return json.NewEncoder(out).Encode(f)
}
