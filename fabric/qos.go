package fabric

import (
	"io/fs"
	"path"
	"strings"
)

// QoS is how a RoCE port takes part in the network's flow and congestion control, as the files of NVIDIA's own driver
// (MLNX_OFED, DOCA) below /sys/class/net/NAME show it: qos/trust, qos/pfc, ecn/roce_np/enable, ecn/roce_rp/enable. An
// empty field is not known.
type QoS struct {
	Interface string `json:"interface,omitempty"` // whose files these are: the function's own, below any bond or VLAN

	Trust  string `json:"trust,omitempty"`  // which mark of a packet gives its priority: dscp, pcp
	PFC    string `json:"pfc,omitempty"`    // priorities with flow control: "3", "3,4", "none"
	Notify string `json:"notify,omitempty"` // priorities for which it reports congestion to the sender (DCQCN, CNP)
	React  string `json:"react,omitempty"`  // priorities for which it sends more slowly after such a report
}

// readQoS reads the files of an interface. Drivers without them, and functions that may not ask, show nothing.
func readQoS(sys fs.FS, iface string) QoS {
	if iface == "" {
		return QoS{}
	}
	d := &dir{fsys: sys, name: path.Join("class/net", iface)}
	switches := func(folder string) []string {
		var on []string
		for _, s := range d.entries(folder) {
			on = append(on, s)
		}
		return on
	}
	q := QoS{
		Trust: d.line("qos/trust"), PFC: priorities(strings.Split(d.line("qos/pfc"), ",")),
		Notify: priorities(switches("ecn/roce_np/enable")), React: priorities(switches("ecn/roce_rp/enable")),
	}
	if q != (QoS{}) {
		q.Interface = iface
	}
	return q
}

// priorities returns which of the eight priorities are on, by their switches in order: "3", "none"; "" if these are no
// eight switches.
func priorities(switches []string) string {
	const count = 8
	var on []string
	for i, s := range switches {
		if s != "0" && s != "1" {
			return ""
		}
		if s == "1" {
			on = append(on, string(rune('0'+i)))
		}
	}
	switch {
	case len(switches) != count:
		return ""
	case len(on) == 0:
		return "none"
	}
	return strings.Join(on, ",")
}
