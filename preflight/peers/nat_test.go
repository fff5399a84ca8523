package peers

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// The store's host sees from which addresses connections arrive. One that is no node's, where a node's own is missing,
// is a NAT's. It is said where connections of that node do not open, and nowhere else.
func TestANodeBehindANATIsKnownByItsConnectionToTheStore(t *testing.T) {
	a := netip.MustParseAddr
	shut := func(c *calls.Call) {
		c.Flows = sidechannel.Flows{Tried: 12, Late: 12, Never: 12, Again: sidechannel.Others}
	}
	for name, tt := range map[string]struct {
		clients []netip.Addr
		held    map[netip.Addr]string // by host2
		shuts   bool
		nat     bool
		edit    func([]Post)
	}{
		"a NAT, and its ports are used up": {[]netip.Addr{a("10.0.0.1"), a("192.0.2.7")}, nil, true, true, nil},
		"a NAT, and all connections open":  {[]netip.Addr{a("10.0.0.1"), a("192.0.2.7")}, nil, false, false, nil},
		"another address of the node": {[]netip.Addr{a("10.0.0.1"), a("192.0.2.7")},
			map[netip.Addr]string{a("192.0.2.7"): "eth1"}, true, false, nil},
		"a connection of another program": {[]netip.Addr{a("10.0.0.1"), a("10.0.0.2"), a("192.0.2.7")}, nil, true, false,
			nil},
		"connections by two such addresses": {[]netip.Addr{a("192.0.2.7"), a("192.0.2.8")}, nil, true, false, nil},
		"not known":                         {nil, nil, true, false, nil},
		"it calls from another address, and a program elsewhere connects": {
			[]netip.Addr{a("10.0.0.1"), a("10.1.0.2"), a("192.0.2.7")},
			map[netip.Addr]string{a("10.1.0.2"): "eth1"}, true, false, nil},
		"it waits at another one, and calls from there": {[]netip.Addr{a("10.0.0.1"), a("10.1.0.2"), a("192.0.2.7")},
			nil, true, false, func(all []Post) { all[2].Listens = []Listen{{Addr: a("10.1.0.2")}} }},
		"two nodes are missing": {[]netip.Addr{a("192.0.2.7")}, nil, true, false, nil},
		"its launch is older": {[]netip.Addr{a("10.0.0.1"), a("192.0.2.7")}, nil, true, false,
			func(all []Post) { all[2].Version = "0" }},
	} {
		all := calling(3, func(from, to int, c *calls.Call) {
			if tt.shuts && from == 2 && to == 0 {
				shut(c)
			}
		})
		for i := range all {
			all[i].Traits.Machine, all[i].Addr = all[i].Name, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		}
		all[0].Clients, all[2].Held = tt.clients, tt.held
		if tt.edit != nil {
			tt.edit(all)
		}
		d := Decide(all, nil)
		said := ""
		for _, f := range d.All() {
			said += f.ID + " " + f.What + " " + f.Fix + "\n"
		}
		if strings.Contains(said, "connections of host2 arrive from 192.0.2.7: a NAT") != tt.nat ||
			strings.Contains(said, "on 192.0.2.7, which translates") != tt.nat ||
			tt.shuts != strings.Contains(said, "peer.connect") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// Gloo calls from the higher address: a node that can only call does for it, but not for NCCL, nor as rank 0. The
// example of another network has not its address.
func TestANodeBehindANATThatCallsAllOthers(t *testing.T) {
	a := netip.MustParseAddr
	for name, tt := range map[string]struct {
		node int
		at   string
		gpu  bool
		runs bool
		net  string
	}{
		"the highest address":   {2, "192.168.5.2", false, true, "10.0.0.0/16"},
		"in the middle":         {1, "192.168.5.2", false, true, "10.0.0.0/16"},
		"the lowest address":    {2, "10.0.2.2", false, false, "192.168.0.0/16"},
		"with GPUs":             {2, "192.168.5.2", true, false, "10.0.0.0/16"},
		"the node of the store": {0, "192.168.5.2", false, false, "10.0.0.0/16"},
	} {
		addr := func(i int) string {
			if i == tt.node {
				return tt.at
			}
			return fmt.Sprintf("10.91.0.%d", i+1)
		}
		all := calling(3, func(from, to int, c *calls.Call) {
			if c.Addr = addr(to) + ":9"; to == tt.node {
				c.Cause, c.Err = sidechannel.NoRoute, "network is unreachable"
			}
		})
		for i := range all {
			all[i].Traits.Machine, all[i].Addr, all[i].Loads.GPU = all[i].Name, a(addr(i)), tt.gpu
		}
		said := ""
		for _, f := range Decide(all, nil).All() {
			said += f.ID + " " + f.What + " " + f.Fix + "\n"
		}
		if strings.Contains(said, "Gloo alone may run so") != tt.runs || !strings.Contains(said, "--addr "+tt.net) {
			t.Errorf("%s: %s", name, said)
		}
	}
}
