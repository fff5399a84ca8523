package verbs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Exchange sends the other end a message outside the fabric, and returns the other end's message of
// the same step. Both ends call it the same number of times, and each call is a barrier.
type Exchange func(ctx context.Context, mine []byte) (theirs []byte, err error)

// Test is a test of one port against a port of another node. Device, Port, GID, PKey
// and the fields up to GPU apply to this end; the leading end decides the rest.
type Test struct {
	Device string `json:"device"`
	Port   int    `json:"port"` // from 1
	GID    int    `json:"gid"`  // index in the table; -1: none on InfiniBand, the best on Ethernet
	PKey   int    `json:"pkey"` // index in the table
	MTU    int    `json:"mtu"`  // bytes of data in a packet; 0: the ports' active MTU

	GPU *GPU `json:"gpu,omitempty"` // use its memory, without pings; nil: the host's memory

	Lead       bool          `json:"lead"`       // this end goes first, and decides what is done
	QPs        int           `json:"qps"`        // connections that share the load, 32 at most; 0: 1
	Depth      int           `json:"depth"`      // messages in flight on each; 0: 128
	Sizes      []int         `json:"sizes"`      // bytes per message of each stream; nil: no streams
	Iterations int           `json:"iterations"` // messages of a stream over all connections; 0: Span decides
	Warm       time.Duration `json:"warm"`       // warm-up before each stream
	Span       time.Duration `json:"span"`       // duration of each stream; 0, and no Iterations: 300 ms
	BothWays   bool          `json:"both_ways"`  // the other end streams too, after this one
	PingSizes  []int         `json:"ping_sizes"` // bytes per ping-pong message; nil: no ping-pongs
	Pings      int           `json:"pings"`      // maximum number; 0: 1,000
	PingSpan   time.Duration `json:"ping_span"`  // maximum duration; 0: only Pings decides
}

// probeSize is the size of a message that fits into any packet.
const probeSize = 64

// Limits of a test, so that a message of the other end can allocate only so much in this process.
const (
	maxPorts = 8 // of a device: twice the largest known number
	maxQPs   = 32
	maxDepth = 1024
	maxSize  = 64 << 20
	maxSizes = 32
	maxPings = 100_000
)

// filled returns t with its defaults, or why it is impossible.
func (t Test) filled() (Test, *Error) {
	for _, d := range []struct {
		v    *int
		zero int
	}{{&t.Port, 1}, {&t.QPs, 1}, {&t.Depth, 128}, {&t.Pings, 1000}} {
		if *d.v == 0 {
			*d.v = d.zero
		}
	}
	if t.Iterations == 0 && t.Span == 0 {
		t.Span = 300 * time.Millisecond
	}
	wrong := func(format string, args ...any) (Test, *Error) {
		return t, &Error{Cause: Wrong, Text: fmt.Sprintf(format, args...)}
	}
	for _, n := range slices.Concat(t.Sizes, t.PingSizes) {
		if n < 1 || n > maxSize {
			return wrong("messages of %d bytes: at least 1, at most %s", n, size(maxSize))
		}
	}
	switch {
	case t.Device == "":
		return wrong("no device given")
	case t.Port < 1 || t.Port > maxPorts:
		return wrong("port %d does not exist", t.Port)
	case t.QPs < 1 || t.QPs > maxQPs:
		return wrong("%d queue pairs: at least 1, at most %d", t.QPs, maxQPs)
	case t.Depth < 1 || t.Depth > maxDepth:
		return wrong("a depth of %d: at least 1, at most %d", t.Depth, maxDepth)
	case len(t.Sizes) > maxSizes || len(t.PingSizes) > maxSizes:
		return wrong("more than %d sizes", maxSizes)
	case t.Pings < 1 || t.Pings > maxPings:
		return wrong("%d pings: at least 1, at most %d", t.Pings, maxPings)
	case t.MTU != 0 && mtuNumber(t.MTU) == 0:
		return wrong("an MTU of %d: 256, 512, 1024, 2048 or 4096", t.MTU)
	case t.GID > 255 || t.PKey < 0 || t.PKey > 65535 || t.Iterations < 0 || t.Span < 0 || t.Warm < 0 || t.PingSpan < 0:
		return wrong("an invalid index, number or time")
	}
	return t, nil
}

// led returns this end's test if the other end leads.
func (t Test) led(by Test) Test {
	by.Device, by.Port, by.GID, by.PKey, by.MTU = t.Device, t.Port, t.GID, t.PKey, t.MTU
	by.GPU, by.Lead = t.GPU, false
	return by
}

// stride returns the bytes of memory that a connection needs to receive: whole pages.
func (t Test) stride() int {
	most := probeSize
	for _, n := range slices.Concat(t.Sizes, t.PingSizes) {
		most = max(most, n)
	}
	return (most + 4095) &^ 4095
}

// The link layers, as the kernel writes them.
const (
	linkIB       = "InfiniBand"
	linkEthernet = "Ethernet"
)

// End is one end of a connection.
type End struct {
	Device  string     `json:"device"`
	Port    int        `json:"port"`
	Link    string     `json:"link_layer"`
	State   int        `json:"state"`          // of the port, when last queried
	MTU     int        `json:"active_mtu"`     // bytes, as the port agreed with the network
	Forced  int        `json:"mtu,omitempty"`  // bytes, as the test requires
	Rate    float64    `json:"rate,omitempty"` // Gb/s
	LID     int        `json:"lid,omitempty"`
	GID     netip.Addr `json:"gid,omitzero"`
	Index   int        `json:"gid_index"` // -1: only a LID
	GIDType string     `json:"gid_type,omitempty"`
	PKey    string     `json:"pkey,omitempty"`
	GPU     string     `json:"gpu,omitempty"`    // PCI address of the GPU whose memory is used; "": the host's
	Memory  string     `json:"memory,omitempty"` // how the device accesses it: dmabuf, peermem
}

// way describes this end in a text.
func (e End) way() string {
	if e.Index < 0 {
		return fmt.Sprintf("%s port %d (LID %d)", e.Device, e.Port, e.LID)
	}
	kind := e.GIDType
	if kind == "" || e.Link == linkIB {
		kind = "GID"
	}
	return fmt.Sprintf("%s port %d (%s %s, index %d)", e.Device, e.Port, kind, e.GID, e.Index)
}

func (e End) packets() int { return cmp.Or(e.Forced, e.MTU) }

// match returns why two ends cannot be connected, the same at both ends.
func match(a, b End) *Error {
	differ := func(c Cause, format string, args ...any) *Error {
		return &Error{Cause: c, Step: stepConnect, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case a.Link != b.Link:
		return differ(LinkDiffers, "this end's port is %s, the other one's %s", a.Link, b.Link)
	case (a.Index < 0) != (b.Index < 0):
		return differ(GIDDiffers, "one end uses a GID and the other one does not: %s, %s", a.way(), b.way())
	case a.Link == linkEthernet && a.GIDType != "" && b.GIDType != "" && a.GIDType != b.GIDType:
		return differ(GIDDiffers, "this end would use %s, the other one %s", a.way(), b.way())
	case a.Link == linkEthernet && kindOf(a.GID) != kindOf(b.GID):
		return differ(GIDDiffers, "this end's GID is of %s and the other one's of %s: %s, %s", kindOf(a.GID), kindOf(b.GID),
			a.way(), b.way())
	case !samePKey(a.PKey, b.PKey):
		return differ(PKeyDiffers, "this end's partition key is %s, the other one's %s", a.PKey, b.PKey)
	case a.Forced != 0 && b.Forced != 0 && a.Forced != b.Forced:
		return differ(MTUDiffers, "this end is set to packets of %d bytes, the other one to %d", a.Forced, b.Forced)
	}
	return nil
}

func kindOf(a netip.Addr) string {
	switch {
	case a.Is4():
		return "an IPv4 address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	}
	return "an IPv6 address"
}

// samePKey reports whether two keys are of one partition, with at least one full member.
func samePKey(a, b string) bool {
	var x, y uint16
	if _, err := fmt.Sscanf(a, "0x%x", &x); err != nil {
		return true
	}
	if _, err := fmt.Sscanf(b, "0x%x", &y); err != nil {
		return true
	}
	return x&0x7fff == y&0x7fff && (x|y)&0x8000 != 0
}

// message is what one end sends the other in a step.
type message struct {
	Err  *Error `json:"err,omitempty"`
	Test *Test  `json:"test,omitempty"`
	End  *End   `json:"end,omitempty"`

	// The addresses of this end's memory and queue pairs.
	Addr uint64   `json:"addr,omitempty"`
	RKey uint32   `json:"rkey,omitempty"`
	QPNs []uint32 `json:"qpns,omitempty"`
	PSN  uint32   `json:"psn,omitempty"`

	Flow *Flow    `json:"flow,omitempty"`
	Ping *Latency `json:"ping,omitempty"`
}

// speak exchanges messages. The error is an *Error, which may be what the other end reports.
func speak(ctx context.Context, say Exchange, mine message) (message, error) {
	out, err := json.Marshal(mine)
	if err != nil {
		return message{}, err
	}
	in, err := say(ctx, out)
	if err != nil {
		if ctx.Err() != nil {
			return message{}, &Error{Cause: Late, Text: "the time ran out while waiting for the other end"}
		}
		return message{}, &Error{Cause: PeerGone, Text: "the other end is gone: " + err.Error()}
	}
	var theirs message
	if err := json.Unmarshal(in, &theirs); err != nil {
		return message{}, &Error{Cause: Other, Text: "decode the other end's message: " + err.Error()}
	}
	if theirs.Err != nil {
		e := *theirs.Err
		e.Peer, e.Text = true, strings.ToValidUTF8(e.Text, "?")
		return theirs, &e
	}
	return theirs, nil
}

// Abort reports e to the other end instead of the message that its Run waits for.
func Abort(ctx context.Context, say Exchange, e *Error) { _, _ = speak(ctx, say, message{Err: e}) }
