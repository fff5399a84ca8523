package verbs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Exchange hands the other end a message and returns the other end's message of
// the same step: what Run tells its counterpart by, beside the fabric. Both
// ends call it equally often, and each call is a barrier.
type Exchange func(ctx context.Context, mine []byte) (theirs []byte, err error)

// Test is one port against one port of another node. Device, Port, GID, PKey
// and what follows them are this end's own; of the rest the leading end's count.
type Test struct {
	Device string `json:"device"`
	Port   int    `json:"port"` // from 1
	GID    int    `json:"gid"`  // entry of the table; -1: none on InfiniBand, the best on Ethernet
	PKey   int    `json:"pkey"` // entry of the table
	MTU    int    `json:"mtu"`  // bytes of data in a packet; 0: what both ports have agreed on with the network

	ServiceLevel int `json:"sl"`
	TrafficClass int `json:"tc"`

	GPU *GPU `json:"gpu,omitempty"` // whose memory is used; nil: the host's. Then there are no pings

	Lead       bool          `json:"lead"`       // this end goes first, and says what is done
	QPs        int           `json:"qps"`        // connections that share the load, 32 at most; 0: 1
	Depth      int           `json:"depth"`      // messages on their way on each; 0: 128
	Sizes      []int         `json:"sizes"`      // bytes of a message, of which streams are written; nil: none
	Iterations int           `json:"iterations"` // messages of a stream, all connections together; 0: as Span says
	Warm       time.Duration `json:"warm"`       // before each stream
	Span       time.Duration `json:"span"`       // of each stream; 0, and no Iterations: 300 ms
	BothWays   bool          `json:"both_ways"`  // the other end streams too, behind this one
	PingSizes  []int         `json:"ping_sizes"` // bytes of a message that is sent to and fro; nil: none
	Pings      int           `json:"pings"`      // how often at most; 0: 1,000
	PingSpan   time.Duration `json:"ping_span"`  // and how long at most; 0: as often as Pings says
}

// probeSize is a message that fits into any packet.
const probeSize = 64

// What a test may ask for: bounds of what a message of the other end can make
// this process allocate.
const (
	maxPorts = 8 // of a device: twice what any has had
	maxQPs   = 32
	maxDepth = 1024
	maxSize  = 64 << 20
	maxSizes = 32
	maxPings = 100_000
)

// filled is t with what was left out, or why it cannot be done.
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
		return wrong("no device was named")
	case t.Port < 1 || t.Port > maxPorts:
		return wrong("there is no port %d", t.Port)
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
	case t.ServiceLevel < 0 || t.ServiceLevel > 15 || t.TrafficClass < 0 || t.TrafficClass > 255:
		return wrong("service level %d, traffic class %d: at most 15 and 255", t.ServiceLevel, t.TrafficClass)
	case t.GID > 255 || t.PKey < 0 || t.PKey > 65535 || t.Iterations < 0 || t.Span < 0 || t.Warm < 0 || t.PingSpan < 0:
		return wrong("an index, a number or a time that cannot be")
	}
	return t, nil
}

// led is what this end does where the other one leads.
func (t Test) led(by Test) Test {
	by.Device, by.Port, by.GID, by.PKey, by.MTU = t.Device, t.Port, t.GID, t.PKey, t.MTU
	by.ServiceLevel, by.TrafficClass, by.GPU, by.Lead = t.ServiceLevel, t.TrafficClass, t.GPU, false
	return by
}

// stride is how many bytes of memory a connection needs to receive into: whole
// pages.
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
	State   int        `json:"state"`          // of the port, when it was last asked
	MTU     int        `json:"active_mtu"`     // bytes, as the port has agreed on with the network
	Forced  int        `json:"mtu,omitempty"`  // bytes, as the test was told
	Rate    float64    `json:"rate,omitempty"` // Gb/s
	LID     int        `json:"lid,omitempty"`
	GID     netip.Addr `json:"gid,omitzero"`
	Index   int        `json:"gid_index"` // -1: by LID alone
	GIDType string     `json:"gid_type,omitempty"`
	PKey    string     `json:"pkey,omitempty"`
	GPU     string     `json:"gpu,omitempty"`    // PCI address of the one whose memory is used; "": the host's
	Memory  string     `json:"memory,omitempty"` // how the device got at that: dmabuf, peermem
}

// way is how this end names itself in a text.
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

func (e End) packets() int {
	if e.Forced != 0 {
		return e.Forced
	}
	return e.MTU
}

// match is whether two ends can be connected; both find the same.
func match(a, b End) *Error {
	differ := func(c Cause, format string, args ...any) *Error {
		return &Error{Cause: c, Step: stepConnect, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case a.Link != b.Link:
		return differ(LinkDiffers, "this end's port is %s, the other one's %s", a.Link, b.Link)
	case (a.Index < 0) != (b.Index < 0):
		return differ(GIDDiffers, "one end is to be reached by a GID and the other one without: %s, %s", a.way(), b.way())
	case a.Link == linkEthernet && a.GIDType != "" && b.GIDType != "" && a.GIDType != b.GIDType:
		return differ(GIDDiffers, "this end would use %s, the other one %s", a.way(), b.way())
	case a.Link == linkEthernet && kindOf(a.GID) != kindOf(b.GID):
		return differ(GIDDiffers, "this end's GID is of %s and the other one's of %s: %s, %s", kindOf(a.GID), kindOf(b.GID), a.way(), b.way())
	case !samePKey(a.PKey, b.PKey):
		return differ(PKeyDiffers, "this end's partition key is %s, the other one's %s", a.PKey, b.PKey)
	case a.Forced != 0 && b.Forced != 0 && a.Forced != b.Forced:
		return differ(MTUDiffers, "this end is told packets of %d bytes, the other one of %d", a.Forced, b.Forced)
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

// samePKey: members of one partition, of which one at least is a full one.
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

// message is what one end tells the other at a step.
type message struct {
	Err  *Error `json:"err,omitempty"`
	Test *Test  `json:"test,omitempty"`
	End  *End   `json:"end,omitempty"`

	// How this end's memory and queue pairs are reached.
	Addr uint64   `json:"addr,omitempty"`
	RKey uint32   `json:"rkey,omitempty"`
	QPNs []uint32 `json:"qpns,omitempty"`
	PSN  uint32   `json:"psn,omitempty"`

	Flow *Flow    `json:"flow,omitempty"`
	Ping *Latency `json:"ping,omitempty"`
}

// speak exchanges messages. The error is an *Error: that the other end is not
// to be heard, or the one that it reports.
func speak(ctx context.Context, say Exchange, mine message) (message, error) {
	out, err := json.Marshal(mine)
	if err != nil {
		return message{}, err
	}
	in, err := say(ctx, out)
	if err != nil {
		if ctx.Err() != nil {
			return message{}, &Error{Cause: Late, Text: "the time ran out while the other end was waited for"}
		}
		return message{}, &Error{Cause: PeerGone, Text: "the other end is gone: " + err.Error()}
	}
	var theirs message
	if err := json.Unmarshal(in, &theirs); err != nil {
		return message{}, &Error{Cause: Other, Text: "understand the other end: " + err.Error()}
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
