package calls

import (
	"net/netip"
	"time"

	"launch/fabric"
	"launch/internal/sidechannel"
)

// Budget limits a call to a peer: it allows three SYN retransmissions (1, 3 and 7 s, RFC 6298).
const Budget = 8 * time.Second

// Call is the result of a call to the side channel of another node.
type Call struct {
	To    int               `json:"to"` // rank
	Addr  string            `json:"addr"`
	Also  bool              `json:"also,omitempty"`  // one of the called node's Listens, not its address
	Port  bool              `json:"port,omitempty"`  // the port that is held for the job's own store, on node rank 0
	Cause sidechannel.Cause `json:"cause,omitempty"` // empty: a launch answered
	Err   string            `json:"err,omitempty"`
	Here  bool              `json:"here,omitempty"` // the caller's own kernel refused the call
	// Wrong is why the caller's packets reach another machine or no machine.
	Wrong fabric.Fault `json:"fault,omitzero"`
	Other string       `json:"other,omitempty"` // the Post.ID of the node that answered in its place
	Own   string       `json:"own,omitempty"`   // the caller's interface that has Addr, where the call failed

	RTT    time.Duration `json:"rtt,omitempty"`
	Offset time.Duration `json:"offset,omitempty"` // its wall clock less the caller's
	Doubt  time.Duration `json:"doubt,omitempty"`  // the possible error of Offset

	// Stall is the direction in which a long message did not arrive: "there", "back".
	Stall string  `json:"stall,omitempty"`
	MTU   int     `json:"mtu,omitempty"`   // the largest packet that arrived whole, bytes with its IP header; 0: unknown
	IfMTU int     `json:"ifmtu,omitempty"` // of the caller's interface
	Iface string  `json:"iface,omitempty"` // its name, where the path from it is faulty
	Lost  float64 `json:"lost,omitempty"`  // the share of small segments there that were lost; 0: none, or not counted
	Speed float64 `json:"speed,omitempty"` // of a long message there, bytes/s; 0: unknown
	// Flows are further connections, opened at once.
	sidechannel.Flows
	// Shut: no SYN packet was answered, nor at the store's port, to which the caller has a connection.
	Shut bool `json:"shut,omitempty"`
	// Unscaled: the connection has no TCP window scaling. Offered: the caller had offered it.
	Unscaled bool `json:"unscaled,omitempty"`
	Offered  bool `json:"offered,omitempty"`
	// Hole reports that larger packets vanish and no router reports it.
	Hole bool `json:"hole,omitempty"`
	// Cut is after how many bytes of a long message the connection was closed, twice, by neither node; 0: it was not.
	Cut int `json:"cut,omitempty"`

	ends sidechannel.Ends // of Flows
	from netip.Addr       // the caller's address; zero: the kernel's choice
}

// Failed reports whether the call did not reach the intended node.
func (c Call) Failed() bool { return c.Cause != "" || c.Other != "" }

// Bad describes what was wrong with a call.
func (c Call) Bad() string {
	switch {
	case c.Cause != "":
		return string(c.Cause)
	case c.Other != "":
		return "another node answers"
	case c.Stall != "":
		return "long messages stall"
	case c.Cut > 0:
		return "the connection is cut off by a long message"
	case c.Hole:
		return "full packets vanish"
	}
	return ""
}

// Found is the result of looking up the names of the nodes that this one calls; one in /etc/hosts is only in Strays.
type Found struct {
	Host    string  `json:"host,omitempty"`    // this node's own
	Known   []int   `json:"known,omitempty"`   // ranks whose names the name servers know
	Unknown []int   `json:"unknown,omitempty"` // ranks whose names they deny
	Mute    string  `json:"mute,omitempty"`    // the error, where no name server answered
	Strays  []Stray `json:"strays,omitempty"`
	Alike   []int   `json:"alike,omitempty"` // ranks that have this node's own name, at an address that is not here
}

// Stray is a name of another node that leads to other addresses than that node's.
type Stray struct {
	To    int        `json:"to"`
	Addr  netip.Addr `json:"addr"`            // the first of them
	Hosts bool       `json:"hosts,omitempty"` // from /etc/hosts, not from a name server
	Near  bool       `json:"near,omitempty"`  // in the network in which the node is called
}
