// Package verbs asks libibverbs, opened at run time, which RDMA devices this process may use. It tests
// a port with itself (Loop), or with the port of another node (Run) over a function that exchanges
// bytes with that node. Only the library knows whether a device opens, and whether data arrives. A
// driver may hang meanwhile, so use it in a child process (package confine).
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
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

// Withheld reports whether the device does not open since this process was not given it: its file is missing, or its
// mode or the container forbids it.
func (d Device) Withheld() bool { return !d.Opens && (d.Cause == NoNode || d.Cause == Permission) }

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

// Facts is the answer of libibverbs: one of Present, Absent and Err, or none if it was not asked.
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

// alone returns t as a test of one port on its own: 64 bytes and 1 MiB, 100 times, if it does not say.
func (t Test) alone() (Test, *Error) {
	if t.Sizes == nil {
		t.Sizes = []int{64, 1 << 20}
	}
	if t.Pings == 0 {
		t.Pings = 100
	}
	t.Depth, t.Iterations, t.PingSpan = 16, 16, loopSpan
	return t.filled()
}

// loopSpan limits how long a port's latency is measured, per size.
const loopSpan = 200 * time.Millisecond

// gidEntry is one entry of a port's GID table.
type gidEntry struct {
	Index int
	Addr  netip.Addr // an IPv4 address is unmapped
	Type  string     // "IB/RoCE v1" or "RoCE v2", as the kernel writes it; "" unknown
}

// The types of a GID, as the kernel writes them.
const (
	typeV1 = "IB/RoCE v1" // also InfiniBand's own
	typeV2 = "RoCE v2"
)

// gidType translates a type of libibverbs: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2.
func gidType(n uint32) string {
	if n == 2 {
		return typeV2
	}
	return typeV1
}

// choose returns the GID for a RoCE connection, by NCCL's rule: RoCE v2, IPv4, routable first.
func choose(gids []gidEntry) (gidEntry, bool) {
	better := []func(g gidEntry) bool{
		func(g gidEntry) bool { return g.Type == typeV2 && g.Addr.Is4() && !g.Addr.IsLinkLocalUnicast() },
		func(g gidEntry) bool { return g.Type == typeV2 && g.Addr.Is6() && !g.Addr.IsLinkLocalUnicast() },
		func(g gidEntry) bool { return g.Type == typeV2 },
		func(g gidEntry) bool { return !g.Addr.IsLinkLocalUnicast() },
		func(gidEntry) bool { return true },
	}
	for _, fits := range better {
		for _, g := range gids {
			if fits(g) {
				return g, true
			}
		}
	}
	return gidEntry{}, false
}

// gidOf converts the bytes of an entry; false if all but a link-local prefix is zero.
func gidOf(raw [16]byte) (netip.Addr, bool) {
	if [8]byte(raw[8:]) == [8]byte{} && (raw[0] == 0 || raw[0] == 0xfe) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(raw).Unmap(), true
}

func guidOf(raw [8]byte) string {
	if raw == [8]byte{} {
		return ""
	}
	return fmt.Sprintf("%x:%x:%x:%x", raw[:2], raw[2:4], raw[4:6], raw[6:])
}

// mtuBytes returns the MTU of libibverbs' number in bytes; 0 for an invalid number.
func mtuBytes(n int) int {
	if n < 1 || n > 5 {
		return 0
	}
	return 128 << n
}

// mtuNumber is the inverse of mtuBytes; 0 for an invalid MTU.
func mtuNumber(bytes int) int {
	for n := 1; n <= 5; n++ {
		if mtuBytes(n) == bytes {
			return n
		}
	}
	return 0
}

// rateOf returns the rate of all lanes in Gb/s (drivers/infiniband/core/sysfs.c) and the lanes.
func rateOf(width, speed int) (rate float64, lanes int) {
	lanes = map[int]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	lane := map[int]float64{
		1: 2.5, 2: 5, 4: 10, 8: 10, // SDR, DDR, QDR, FDR10
		16: 14, 32: 25, 64: 50, 128: 100, 256: 200, // FDR, EDR, HDR, NDR, XDR
	}[speed]
	return lane * float64(lanes), lanes
}
